/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_dtype.c - converts weights to the data type of the checkpoint and back. */
#include "train/checkpoint/ckpt_dtype.h"

#include <math.h>

static bool is_half(mf_dtype type)
{
    return type == MF_DTYPE_BF16 || type == MF_DTYPE_F16;
}

static float ckpt_dtype_narrow(mf_dtype type, float x, void *out)
{
    if (type == MF_DTYPE_F16) {
        *(mf_f16 *)out = mf_f16_from_f32(x);
        return mf_f16_to_f32(*(mf_f16 *)out);
    }
    *(mf_bf16 *)out = mf_bf16_from_f32(x);
    return mf_bf16_to_f32(*(mf_bf16 *)out);
}

mf_status mf_ckpt_dtype_narrow(mf_dtype stored, const char *name, mf_tensor *value)
{
    mf_tensor out = { 0 };
    const float *from = value->data;

    if (!is_half(stored) || value->dtype != MF_DTYPE_F32)
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&out, stored, &value->shape));
    for (int64_t i = 0; i < out.count; i++) {
        if (isinf(ckpt_dtype_narrow(stored, from[i], (uint16_t *)out.data + i)) &&
            !isinf(from[i])) {
            const double x = from[i];

            mf_tensor_clear(&out);
            return MF_FAIL(MF_OUT_OF_RANGE,
                           "the weight '%s' has the number %g, too large to be stored as %s; use "
                           "stored=%s",
                           name, x, mf_dtype_name(stored),
                           stored == MF_DTYPE_F16 ? "bf16" : "fp32");
        }
    }
    mf_tensor_clear(value);
    mf_tensor_move(value, &out);
    return MF_OK;
}

mf_status mf_ckpt_dtype_widen(mf_dtype wanted, mf_tensor *value)
{
    mf_tensor out = { 0 };

    if (wanted != MF_DTYPE_F32 || !is_half(value->dtype))
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&out, wanted, &value->shape));
    for (int64_t i = 0; i < out.count; i++)
        ((float *)out.data)[i] = value->dtype == MF_DTYPE_F16
                                     ? mf_f16_to_f32(((const mf_f16 *)value->data)[i])
                                     : mf_bf16_to_f32(((const mf_bf16 *)value->data)[i]);
    mf_tensor_clear(value);
    mf_tensor_move(value, &out);
    return MF_OK;
}
