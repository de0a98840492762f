# SPDX-License-Identifier: Apache-2.0
#
# How our code is compiled. No -ffast-math: NaN checks and bit-equal reductions depend on it, and
# -ffp-contract=off keeps the bits the same whatever the compiler could fuse.

add_library(meshflow_sanitize INTERFACE)
if(MF_SANITIZE STREQUAL "address")
    set(SANITIZE_FLAGS -fsanitize=address,undefined)
elseif(MF_SANITIZE STREQUAL "thread")
    set(SANITIZE_FLAGS -fsanitize=thread)
elseif(MF_SANITIZE STREQUAL "fuzzer")
    set(SANITIZE_FLAGS -fsanitize=address,undefined)
    target_compile_options(meshflow_sanitize INTERFACE -fsanitize=fuzzer-no-link)
elseif(MF_SANITIZE)
    message(FATAL_ERROR "MF_SANITIZE is '${MF_SANITIZE}': expected address, thread, fuzzer or nothing")
endif()
if(MF_SANITIZE)
    target_compile_options(meshflow_sanitize INTERFACE
        ${SANITIZE_FLAGS} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(meshflow_sanitize INTERFACE ${SANITIZE_FLAGS})
    target_compile_definitions(meshflow_sanitize INTERFACE MF_SANITIZED=1)
endif()

add_library(meshflow_flags INTERFACE)
target_compile_options(meshflow_flags INTERFACE
    -std=c17 -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math)
# C unwinds nothing; debuggers read -g's tables. Relocations of our tables are packed (a twentieth of
# the library each).
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT MF_SANITIZE)
    target_compile_options(meshflow_flags INTERFACE -fno-asynchronous-unwind-tables)
    add_link_options(-Wl,-z,pack-relative-relocs)
endif()
target_compile_definitions(meshflow_flags INTERFACE _GNU_SOURCE)
target_include_directories(meshflow_flags INTERFACE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${GEN_DIR})
target_link_libraries(meshflow_flags INTERFACE meshflow_sanitize)

# Not for generated code.
add_library(meshflow_warnings INTERFACE)
target_compile_options(meshflow_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion
    -Werror $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
