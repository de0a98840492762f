# SPDX-License-Identifier: Apache-2.0
#
# Instruction sets: sources of src/ops that are compiled once more for each of them. Their ops become
# kernel records (graph/op.h); base/instruction_set.c chooses a set when the program starts.
# A source knows its set by the compiler's macros: __AVX512F__, __AVX512BF16__, __AMX_BF16__.
include(CheckCCompilerFlag)

set(SET_NAMES)   # in order, each contains those before it
set(SET_OBJECTS) # one relocatable object per set
set(SET_TABLES)  # NAME=SOURCE,SOURCE...: arguments of tools/gen_op_table.sh

# Sanitizers add variables to every object.
if(MF_SANITIZE)
    set(SET_VARIABLES MAY_HAVE_VARIABLES=1)
endif()

# Compiles the sources with these options for set `name`, after the sets below it.
macro(meshflow_instruction_set name options)
    string(REPLACE ";" " " CMAKE_REQUIRED_FLAGS "${options}")
    check_c_compiler_flag("" MF_COMPILES_${name})
    set(CMAKE_REQUIRED_FLAGS)
    if(MF_COMPILES_${name})
        set(set_lower -)
        if(SET_OBJECTS)
            list(GET SET_OBJECTS -1 set_lower)
        endif()
        set(set_object ${CMAKE_BINARY_DIR}/kernels_${name}.o)
        set(set_sources ${ARGN})
        list(TRANSFORM set_sources PREPEND ${PROJECT_SOURCE_DIR}/)
        add_library(mf_kernels_${name} OBJECT ${set_sources})
        target_link_libraries(mf_kernels_${name} PRIVATE meshflow_flags meshflow_warnings meshflow_deps)
        target_compile_options(mf_kernels_${name} PRIVATE ${options})
        add_dependencies(mf_kernels_${name} mf_proto_headers)
        set(set_needs)
        if(NOT set_lower STREQUAL "-")
            set(set_needs ${set_lower})
        endif()
        add_custom_command(OUTPUT ${set_object}
            COMMAND ${CMAKE_COMMAND} -E env LD=${CMAKE_LINKER} NM=${CMAKE_NM} OBJCOPY=${CMAKE_OBJCOPY}
                ${SET_VARIABLES} ${PROJECT_SOURCE_DIR}/tools/link_set.sh ${set_object} ${name}
                ${set_lower} $<TARGET_OBJECTS:mf_kernels_${name}>
            DEPENDS mf_kernels_${name} $<TARGET_OBJECTS:mf_kernels_${name}> ${set_needs}
                ${PROJECT_SOURCE_DIR}/tools/link_set.sh
            COMMAND_EXPAND_LISTS
            COMMENT "kernels for ${name}")
        set_source_files_properties(${set_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
        list(APPEND SET_NAMES ${name})
        list(APPEND SET_OBJECTS ${set_object})
        list(JOIN set_sources "," set_list)
        list(APPEND SET_TABLES ${name}=${set_list})
    endif()
endmacro()
