/* SPDX-License-Identifier: Apache-2.0 */
/* widen.h - 16-bit floats as floats, for kernels that are written for float and double only. */
#ifndef MF_OPS_QUANT_WIDEN_H
#define MF_OPS_QUANT_WIDEN_H

#include "graph/op.h"

static inline bool mf_is_half(mf_dtype type)
{
    return type == MF_DTYPE_F16 || type == MF_DTYPE_BF16;
}

/* Sets `wide` (empty) to t's values as floats, or to a second reference to t if it is not a 16-bit
 * float. Clear it even on failure. */
MF_MUST mf_status mf_widen(const mf_kernel *k, const mf_tensor *t, mf_tensor *wide);
/* Sets `wide` (empty) to storage for floats that are rounded to `out`, or to `out` itself. */
MF_MUST mf_status mf_widen_out(const mf_tensor *out, mf_tensor *wide);
/* Rounds `wide` to `out`; does nothing if they are the same. */
void mf_narrow(const mf_kernel *k, const mf_tensor *wide, mf_tensor *out);

#endif
