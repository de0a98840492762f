# SPDX-License-Identifier: Apache-2.0
#
# Installed files find each other by relative paths, so the tree may be moved as a whole.
include(CMakePackageConfigHelpers)

# meshflow_rpath(target folder): an installed file looks for libraries in the library folder of its own
# tree first. As DT_RPATH, because DT_RUNPATH would not hold for the libraries of those libraries,
# which `make bundle` puts there unchanged.
function(meshflow_rpath target folder)
    file(RELATIVE_PATH up /p/${folder} /p/${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${target} PROPERTIES
        INSTALL_RPATH "\$ORIGIN/${up}" BUILD_WITH_INSTALL_RPATH ON)
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()

meshflow_rpath(meshflow_shared ${CMAKE_INSTALL_LIBDIR})
foreach(plugin ${MF_PLUGINS})
    meshflow_rpath(${plugin} ${CMAKE_INSTALL_LIBDIR}/meshflow)
endforeach()
install(TARGETS meshflow_shared EXPORT meshflowTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS meshflow_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET meshflow)
    meshflow_rpath(meshflow ${CMAKE_INSTALL_BINDIR})
    install(TARGETS meshflow RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/meshflow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(DIRECTORY python/meshflow DESTINATION lib/python3/dist-packages
    FILES_MATCHING PATTERN "*.py")
install(DIRECTORY ${MAN_DIR}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    FILES_MATCHING PATTERN "*.1")

file(RELATIVE_PATH PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/meshflow.pc.in meshflow.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/meshflow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/meshflow)
install(EXPORT meshflowTargets NAMESPACE meshflow:: DESTINATION ${PACKAGE_DIR})
configure_package_config_file(cmake/meshflowConfig.cmake.in meshflowConfig.cmake
    INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(meshflowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/meshflowConfig.cmake ${CMAKE_BINARY_DIR}/meshflowConfigVersion.cmake
    DESTINATION ${PACKAGE_DIR})
