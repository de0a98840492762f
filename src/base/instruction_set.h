/* SPDX-License-Identifier: Apache-2.0 */
/* instruction_set.h - the instruction sets that kernels are compiled for, and the chosen set.
 *
 * The build compiles some sources of ops/ once per set (cmake/MeshflowSets.cmake). A process uses
 * the best set that was built and that the processor has, or a lower set that --numerics,
 * MESHFLOW_NUMERICS or mf_numerics_pin() names. */
#ifndef MF_BASE_INSTRUCTION_SET_H
#define MF_BASE_INSTRUCTION_SET_H

#include "base/status.h"

#include <stdatomic.h>

/* Each set contains the sets before it. */
typedef enum mf_isa {
    MF_ISA_BASE, /* what all kernels are compiled for: avx2, or "generic" on other processors */
    MF_ISA_AVX512,
    MF_ISA_AVX512_BF16,
    MF_ISA_AMX,
    MF_ISA_COUNT,
} mf_isa;

/* "avx2", "avx512", ... */
const char *mf_isa_name(mf_isa isa);
/* Was it built, and does the processor have it? */
bool mf_isa_is_available(mf_isa isa);
mf_isa mf_isa_best(void);
/* "avx2, avx512": the available sets. */
const char *mf_isa_available_text(void);
/* INVALID_ARGUMENT: no set has this name. */
MF_MUST mf_status mf_isa_find(const char *name, mf_isa *out);

/* Use this set. INVALID_ARGUMENT: no such set, or the machine lacks it (the message names those it
 * has). FAILED_PRECONDITION: kernels of another set were prepared already. */
MF_MUST mf_status mf_isa_pin(const char *name);
/* What is wrong with MESHFLOW_NUMERICS, or with the processor. Sessions call it before they prepare
 * kernels. */
MF_MUST mf_status mf_isa_check(void);
/* The highest set that mf_isa_chosen() may return: the pinned one, or the best. */
mf_isa mf_isa_limit(void);

/* The lowest set whose results have the bits of this one. In float32 all sets have the same;
 * products of bfloat16 differ in the sets that have instructions for them. */
mf_isa mf_isa_bits(mf_isa isa);
/* From now on, use at most the best available set with these bits (a result of mf_isa_bits()).
 * Kernels that are prepared already stay. */
void mf_isa_lower(mf_isa bits);

/* For tests that compare sets: kernels that are prepared from now on are of this set. */
void mf_isa_switch(mf_isa isa);

extern atomic_int mf_isa_in_use; /* -1: not chosen */
mf_isa mf_isa_choose(void);
/* The set in use. The first call makes the choice final. */
static inline mf_isa mf_isa_chosen(void)
{
    const int isa = atomic_load_explicit(&mf_isa_in_use, memory_order_relaxed);

    return isa >= 0 ? (mf_isa)isa : mf_isa_choose();
}

#endif
