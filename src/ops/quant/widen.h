/* SPDX-License-Identifier: Apache-2.0 */
/* widen.h - 16-bit floats as floats, for kernels that are written for float and double only. */
#ifndef MF_OPS_QUANT_WIDEN_H
#define MF_OPS_QUANT_WIDEN_H

#include "graph/op.h"

static inline bool mf_is_half(mf_dtype type)
{
    return type == MF_DTYPE_F16 || type == MF_DTYPE_BF16;
}

/* `wide` (empty) becomes t's values as floats, or a second reference to t when it is no 16-bit
 * float. Clear it in any case. */
MF_MUST mf_status mf_widen(const mf_kernel *k, const mf_tensor *t, mf_tensor *wide);
/* `wide` (empty) becomes room for floats to be rounded into `out`, or `out` itself. */
MF_MUST mf_status mf_widen_out(const mf_tensor *out, mf_tensor *wide);
/* Round what was written into `wide` into `out`; nothing to do when they are the same. */
void mf_narrow(const mf_kernel *k, const mf_tensor *wide, mf_tensor *out);

#endif
