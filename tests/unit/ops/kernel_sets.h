/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_sets.h - a kernel's function in every instruction set that it is compiled for and that the
 * processor has, for tests and benchmarks that call it without an op. The build adds the name of
 * the set to symbols (cmake/MeshflowSets.cmake). */
#ifndef MF_TESTS_KERNEL_SETS_H
#define MF_TESTS_KERNEL_SETS_H

#include "base/instruction_set.h"

#define WEAK_SET(FN, SET) extern __typeof__(FN) FN##_##SET __attribute__((weak));

/* Declares a table of FN by mf_isa; NULL: not compiled for this set. */
#define KERNEL_SETS(FN, TABLE)                                                                     \
    WEAK_SET(FN, avx512)                                                                           \
    WEAK_SET(FN, avx512_bf16)                                                                      \
    WEAK_SET(FN, amx)                                                                              \
    static __typeof__(FN) *const TABLE[MF_ISA_COUNT] = { FN, FN##_avx512, FN##_avx512_bf16,        \
                                                         FN##_amx };

#endif
