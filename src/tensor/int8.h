/* SPDX-License-Identifier: Apache-2.0 */
/* int8.h - quantisation of floats to bytes. Weights: signed and symmetric. Activations: unsigned,
 * over a range that contains zero exactly. */
#ifndef MF_TENSOR_INT8_H
#define MF_TENSOR_INT8_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MF_INT8_STEPS = 127, MF_UINT8_STEPS = 255 };

/* The step for weights of at most this magnitude. It has 16 significant bits, so all multiples up
 * to 127 are exact floats: quantising weights again does not change them. */
static inline float mf_int8_step(float most)
{
    float step = most / MF_INT8_STEPS;
    uint32_t bits;

    memcpy(&bits, &step, sizeof bits);
    bits = (bits + 0xff) & ~0xffu;
    memcpy(&step, &bits, sizeof step);
    return step;
}

/* x in steps, given 1/step. NaN becomes the smallest value. */
static inline int8_t mf_int8_of(float x, float inverse)
{
    const float q = rintf(x * inverse);

    return (int8_t)(q > MF_INT8_STEPS ? MF_INT8_STEPS : q >= -MF_INT8_STEPS ? q : -MF_INT8_STEPS);
}

typedef struct mf_uint8_range {
    float step, inverse; /* 1/step */
    int32_t zero; /* zero point: the byte for 0 */
} mf_uint8_range;

static inline mf_uint8_range mf_uint8_range_of(float low, float high)
{
    mf_uint8_range r = { .step = (high - low) / MF_UINT8_STEPS };
    float zero;

    if (!(r.step > 0) || !isfinite(r.step)) /* only zeros were observed */
        return (mf_uint8_range){ 1, 1, 0 };
    r.inverse = 1 / r.step;
    zero = rintf(-low * r.inverse);
    r.zero = (int32_t)(zero > MF_UINT8_STEPS ? MF_UINT8_STEPS : zero >= 0 ? zero : 0);
    return r;
}

/* Quantise x, given in steps with the zero point added, to a byte of at least `least`: rounded half
 * up, as FakeQuant does. Written to be vectorised. */
static inline uint8_t mf_uint8_of(float x, float least)
{
    float q = x < (float)MF_UINT8_STEPS ? x : (float)MF_UINT8_STEPS;

    q = q > least ? q : least;
    return (uint8_t)(int32_t)(q + 0.5f);
}

#endif
