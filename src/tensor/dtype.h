/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - element types: sizes, names, kinds, and the two 16-bit floats. */
#ifndef MF_TENSOR_DTYPE_H
#define MF_TENSOR_DTYPE_H

#include "base/status.h"

#include <meshflow/tensor.h>

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

enum { MF_DTYPE_COUNT = 24, MF_DTYPE_REF = 100 }; /* a reference edge has dtype + 100 */

typedef struct mf_bf16 {
    uint16_t bits;
} mf_bf16;
typedef struct mf_f16 {
    uint16_t bits;
} mf_f16;

/* Bit sets of types, as in op definitions. */
#define MF_T(dtype) (1u << (dtype))
#define MF_T_FLOATS                                                                                \
    (MF_T(MF_DTYPE_F32) | MF_T(MF_DTYPE_F64) | MF_T(MF_DTYPE_F16) | MF_T(MF_DTYPE_BF16))
#define MF_T_INTS                                                                                  \
    (MF_T(MF_DTYPE_I8) | MF_T(MF_DTYPE_I16) | MF_T(MF_DTYPE_I32) | MF_T(MF_DTYPE_I64) |            \
     MF_T(MF_DTYPE_U8) | MF_T(MF_DTYPE_U16) | MF_T(MF_DTYPE_U32) | MF_T(MF_DTYPE_U64))
#define MF_T_COMPLEX (MF_T(MF_DTYPE_C64) | MF_T(MF_DTYPE_C128))

static inline bool mf_dtype_is_valid(int dtype)
{
    return dtype > 0 && dtype < MF_DTYPE_COUNT;
}
static inline bool mf_dtype_is_float(mf_dtype dtype)
{
    return (MF_T_FLOATS >> dtype & 1) != 0;
}
static inline bool mf_dtype_is_int(mf_dtype dtype)
{
    return (MF_T_INTS >> dtype & 1) != 0;
}
static inline bool mf_dtype_is_complex(mf_dtype dtype)
{
    return (MF_T_COMPLEX >> dtype & 1) != 0;
}
/* Elements are plain bytes that may be copied with memcpy. */
static inline bool mf_dtype_is_plain(mf_dtype dtype)
{
    return dtype != MF_DTYPE_STRING && dtype != MF_DTYPE_RESOURCE && dtype != MF_DTYPE_VARIANT;
}

/* Bytes one element takes in memory, strings and objects included. */
size_t mf_dtype_cell(mf_dtype dtype);
/* MF_DTYPE_INVALID when unknown. Names are TensorFlow's: "float", "half", "resource". */
mf_dtype mf_dtype_find(const char *name, size_t len);

static inline float mf_bf16_to_f32(mf_bf16 x)
{
    const uint32_t bits = (uint32_t)x.bits << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

/* Round to nearest even; NaN stays a (quiet) NaN. */
static inline mf_bf16 mf_bf16_from_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (mf_bf16){ (uint16_t)((bits >> 16) | 0x40) };
    return (mf_bf16){ (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16) };
}

/* Round to nearest even, overflow to infinity. Kernels have an instruction for it. */
#ifdef __F16C__
static inline float mf_f16_to_f32(mf_f16 x)
{
    return _cvtsh_ss(x.bits);
}
static inline mf_f16 mf_f16_from_f32(float f)
{
    return (mf_f16){ _cvtss_sh(f, 0) };
}
#else
float mf_f16_to_f32(mf_f16 x);
mf_f16 mf_f16_from_f32(float f);
#endif

#endif
