# SPDX-License-Identifier: Apache-2.0
#
# Plugins: src/plugins/NAME/*.c and what all have in common -> plugins/meshflow-NAME.so. One is built
# if the library it stands on is installed; otherwise cmake says so, and the program says which
# package to install when it is asked for.
file(GLOB PLUGIN_COMMON CONFIGURE_DEPENDS src/plugins/common/*.c src/base/host_state.c src/base/thread.c)
add_custom_target(plugins)

# meshflow_plugin(name folder libraries...): the shared object, from the sources of a folder.
function(meshflow_plugin name folder)
    file(GLOB sources CONFIGURE_DEPENDS src/plugins/${folder}/*.c)
    add_library(meshflow-${name} MODULE ${sources} ${PLUGIN_COMMON})
    target_link_libraries(meshflow-${name} PRIVATE meshflow_flags meshflow_warnings ${ARGN}
        Threads::Threads)
    # What host.c does not have is an error here and not when the plugin is opened. (The functions
    # of sanitizers are in the program.)
    if(NOT MF_SANITIZE)
        target_link_options(meshflow-${name} PRIVATE -Wl,--no-undefined)
    endif()
    target_link_options(meshflow-${name} PRIVATE -Wl,--as-needed)
    set_target_properties(meshflow-${name} PROPERTIES PREFIX ""
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
    add_dependencies(plugins meshflow-${name})
    install(TARGETS meshflow-${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/meshflow)
    set(MF_PLUGINS ${MF_PLUGINS} meshflow-${name} PARENT_SCOPE)
    message(STATUS "plugin ${name}: is built")
endfunction()

# gRPC's own package names dozens of others that only its C++ needs.
find_path(GRPC_INCLUDE grpc/grpc.h)
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
find_library(CRYPTO_LIBRARY crypto)
if(GRPC_INCLUDE AND GRPC_LIBRARY AND GPR_LIBRARY AND CRYPTO_LIBRARY)
    meshflow_plugin(grpc grpc ${GRPC_LIBRARY} ${GPR_LIBRARY} ${CRYPTO_LIBRARY})
    target_sources(meshflow-grpc PRIVATE src/base/leader_follower.c)
else()
    message(STATUS "plugin grpc: is not built, libgrpc-dev is not installed")
endif()

# Both may be installed; which one is opened depends on who starts the tasks.
pkg_check_modules(OPENMPI QUIET IMPORTED_TARGET ompi-c)
if(OPENMPI_FOUND)
    meshflow_plugin(mpi-openmpi mpi PkgConfig::OPENMPI)
else()
    message(STATUS "plugin mpi-openmpi: is not built, libopenmpi-dev is not installed")
endif()
pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
if(MPICH_FOUND)
    meshflow_plugin(mpi-mpich mpi PkgConfig::MPICH)
else()
    message(STATUS "plugin mpi-mpich: is not built, libmpich-dev is not installed")
endif()

pkg_check_modules(UCX QUIET IMPORTED_TARGET ucx)
if(UCX_FOUND)
    meshflow_plugin(ucx ucx PkgConfig::UCX)
else()
    message(STATUS "plugin ucx: is not built, libucx-dev is not installed")
endif()

# With OpenSSL's libcurl; GnuTLS's has the same name for pkg-config, and would do.
pkg_check_modules(CURL QUIET IMPORTED_TARGET libcurl)
if(CURL_FOUND)
    meshflow_plugin(etcd etcd PkgConfig::CURL PkgConfig::jansson PkgConfig::nettle)
else()
    message(STATUS "plugin etcd: is not built, libcurl4-openssl-dev is not installed")
endif()
