# SPDX-License-Identifier: Apache-2.0
#
# The libraries we stand on, as one interface target. tools/packages.txt says what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

set(DEPS_PKGS libprotobuf-c libisal zlib libzip sleef libpcre2-8 libpng libjpeg nettle jansson)

# DEPS_LIBS: what `pkg-config --static --libs meshflow` adds for users of libmeshflow.a. Only names,
# not the packages: those would bring what their own static libraries need, which is not installed.
set(DEPS_LIBS "-lpthread -lm")
foreach(pkg ${DEPS_PKGS})
    string(MAKE_C_IDENTIFIER ${pkg} id)
    pkg_check_modules(${id} REQUIRED IMPORTED_TARGET ${pkg})
    list(APPEND DEPS_TARGETS PkgConfig::${id})
    list(TRANSFORM ${id}_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE names)
    list(JOIN names " " names)
    string(PREPEND DEPS_LIBS "${names} ")
endforeach()

add_library(meshflow_deps INTERFACE)
target_link_options(meshflow_deps INTERFACE -Wl,--as-needed)
target_link_libraries(meshflow_deps INTERFACE
    ${DEPS_TARGETS} Threads::Threads m)

# What only our programs need, not who links the library.
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(libevent REQUIRED IMPORTED_TARGET libevent_extra libevent_core)
add_library(meshflow_cli_deps INTERFACE)
target_link_libraries(meshflow_cli_deps INTERFACE PkgConfig::hwloc PkgConfig::libevent)

find_program(PROTOC_C protoc-c REQUIRED)
