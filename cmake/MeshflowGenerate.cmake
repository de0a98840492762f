# SPDX-License-Identifier: Apache-2.0
#
# Code written by the build, into gen/: protobuf-c messages, the tables of ops, tunables and tests.

# Object library `target` from src/proto/*.proto, PROTO_OBJECTS for linking it, and the target
# mf_proto_headers for targets that include "proto/x.pb-c.h".
macro(meshflow_proto target)
    set(proto_out)
    file(GLOB proto_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/proto/*.proto)
    foreach(file ${proto_files})
        get_filename_component(name ${file} NAME_WE)
        set(out ${GEN_DIR}/proto/${name}.pb-c.c ${GEN_DIR}/proto/${name}.pb-c.h)
        add_custom_command(OUTPUT ${out}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${GEN_DIR}
            COMMAND ${PROTOC_C} -I${PROJECT_SOURCE_DIR}/src --c_out=${GEN_DIR} ${file}
            DEPENDS ${proto_files}
            COMMENT "protoc-c ${name}.proto")
        list(APPEND proto_out ${out})
    endforeach()
    add_custom_target(mf_proto_headers DEPENDS ${proto_out})
    set(PROTO_OBJECTS)
    if(proto_out)
        add_library(${target} OBJECT ${proto_out})
        target_link_libraries(${target} PRIVATE meshflow_flags PkgConfig::libprotobuf_c)
        target_compile_options(${target} PRIVATE -w)
        add_dependencies(${target} mf_proto_headers)
        set(PROTO_OBJECTS $<TARGET_OBJECTS:${target}>)
    endif()
endmacro()

# OP_TABLE: `out`, listing the ops that the given sources define, and those of instruction sets
# (`sets`, see MeshflowSets.cmake); nothing before graph/op.h exists.
macro(meshflow_op_table out sets)
    file(GLOB op_header CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/graph/op.h)
    set(OP_TABLE)
    if(op_header)
        set(OP_TABLE ${out})
        add_custom_command(OUTPUT ${out}
            COMMAND ${PROJECT_SOURCE_DIR}/tools/gen_op_table.sh ${out} ${PROJECT_SOURCE_DIR}/src/ops ${sets}
            DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/gen_op_table.sh
            COMMENT "table of ops")
    endif()
endmacro()

# `out`: the table of the tunables that the given sources declare.
function(meshflow_param_table out)
    add_custom_command(OUTPUT ${out}
        COMMAND ${PROJECT_SOURCE_DIR}/tools/gen_param_table.sh ${out} ${ARGN}
        DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/gen_param_table.sh
        COMMENT "table of tunables")
endfunction()

# `out`: the table of MF_TEST functions in the given sources.
function(meshflow_test_table out)
    add_custom_command(OUTPUT ${out}
        COMMAND ${PROJECT_SOURCE_DIR}/tools/gen_test_table.sh ${out} ${PROJECT_SOURCE_DIR} ${ARGN}
        DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/gen_test_table.sh
        COMMENT "table of tests")
endfunction()
