/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.c - the numerics class: what determines bits.
 *
 * Every kernel has one order of operations and one rounding per operation, a fused multiply-add
 * where the source says so. AVX2 and AVX-512 differ only in how many elements they compute at a
 * time, so they are one class. Dot-product instructions for bfloat16 round differently: a set with
 * them is a class of its own for matrix products of bfloat16. Other than that, libraries count. */
#include "graph/op.h"

#include <pthread.h>
#include <sleef.h>
#include <stdio.h>

static char text[MF_ISA_COUNT][160];

static void numerics_make_text(void)
{
    for (int i = 0; i < MF_ISA_COUNT; i++) {
        const mf_isa bits = mf_isa_bits((mf_isa)i);

        (void)snprintf(text[i], sizeof text[i], "fma%s%s sleef-%d.%d.%d",
                       bits == MF_ISA_BASE ? "" : "+", bits == MF_ISA_BASE ? "" : mf_isa_name(bits),
                       SLEEF_VERSION_MAJOR, SLEEF_VERSION_MINOR, SLEEF_VERSION_PATCHLEVEL);
    }
}

const char *mf_numerics_class_of(mf_isa isa, bool bf16)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, numerics_make_text);
    return text[bf16 ? isa : MF_ISA_BASE];
}

const char *mf_numerics_class(bool bf16)
{
    return mf_numerics_class_of(mf_isa_limit(), bf16);
}
