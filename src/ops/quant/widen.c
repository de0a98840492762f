/* SPDX-License-Identifier: Apache-2.0 */
/* widen.c - converts float16 and bfloat16 tensors to float for kernels, and results back. */
#include "ops/quant/widen.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

enum { GRAIN = 16384 };

typedef struct convert_job {
    mf_dtype half;
    float *wide;
    void *narrow;
    int64_t n;
    bool widen;
} convert_job;

static void halves_to_floats(const mf_f16 *from, float *to, int64_t n)
{
    int64_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(
            to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < n; i++)
        to[i] = mf_f16_to_f32(from[i]);
}

static void floats_to_halves(const float *from, mf_f16 *to, int64_t n)
{
    int64_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        to[i] = mf_f16_from_f32(from[i]);
}

static void convert_piece(void *ctx, int64_t piece)
{
    const convert_job *job = ctx;
    const int64_t at = piece * GRAIN, n = job->n - at < GRAIN ? job->n - at : GRAIN;
    float *wide = job->wide + at;

    if (job->half == MF_DTYPE_F16) {
        if (job->widen)
            halves_to_floats((const mf_f16 *)job->narrow + at, wide, n);
        else
            floats_to_halves(wide, (mf_f16 *)job->narrow + at, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        mf_bf16 *p = (mf_bf16 *)job->narrow + at + i;

        if (job->widen)
            wide[i] = mf_bf16_to_f32(*p);
        else
            *p = mf_bf16_from_f32(wide[i]);
    }
}

static void convert(const mf_kernel *k, convert_job *job)
{
    mf_kernel_complete(k, (job->n + GRAIN - 1) / GRAIN, convert_piece, job);
}

mf_status mf_widen(const mf_kernel *k, const mf_tensor *t, mf_tensor *wide)
{
    if (!mf_is_half(t->dtype)) {
        mf_tensor_set(wide, t);
        return MF_OK;
    }
    MF_TRY(mf_tensor_alloc(wide, MF_DTYPE_F32, &t->shape));
    convert(k, &(convert_job){ t->dtype, wide->data, t->data, t->count, true });
    return MF_OK;
}

mf_status mf_widen_out(const mf_tensor *out, mf_tensor *wide)
{
    if (mf_is_half(out->dtype))
        return mf_tensor_alloc(wide, MF_DTYPE_F32, &out->shape);
    mf_tensor_set(wide, out);
    return MF_OK;
}

void mf_narrow(const mf_kernel *k, const mf_tensor *wide, mf_tensor *out)
{
    if (mf_is_half(out->dtype))
        convert(k, &(convert_job){ out->dtype, wide->data, out->data, out->count, false });
}
