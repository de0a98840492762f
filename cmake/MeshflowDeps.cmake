# SPDX-License-Identifier: Apache-2.0
#
# The libraries we stand on, as one interface target. tools/packages.txt says what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# What `pkg-config --static --libs meshflow` adds for users of libmeshflow.a.
set(DEPS_PKGS libprotobuf-c libisal zlib libzip sleef libpcre2-8 libpng)
set(DEPS_LIBS "-ldnnl -lgomp -lpthread -lm") # these bring no .pc file

foreach(pkg ${DEPS_PKGS})
    string(MAKE_C_IDENTIFIER ${pkg} id)
    pkg_check_modules(${id} REQUIRED IMPORTED_TARGET ${pkg})
    list(APPEND DEPS_TARGETS PkgConfig::${id})
endforeach()

find_path(DNNL_INCLUDE dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)

# gomp: oneDNN's thread pool, which we set to one thread.
add_library(meshflow_deps INTERFACE)
target_include_directories(meshflow_deps SYSTEM INTERFACE ${DNNL_INCLUDE})
target_link_options(meshflow_deps INTERFACE -Wl,--as-needed)
target_link_libraries(meshflow_deps INTERFACE
    ${DEPS_TARGETS} ${DNNL_LIBRARY} gomp Threads::Threads m)

find_program(PROTOC_C protoc-c REQUIRED)
