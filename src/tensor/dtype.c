/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c - element types: sizes, names, kinds; conversion of float16 and bfloat16. */
#include "tensor/dtype.h"

#include "tensor/tensor.h"

static const struct {
    const char *name;
    size_t size, cell;
} info[MF_DTYPE_COUNT] = {
    [MF_DTYPE_INVALID] = { "invalid", 0, 0 },
    [MF_DTYPE_F32] = { "float", 4, 4 },
    [MF_DTYPE_F64] = { "double", 8, 8 },
    [MF_DTYPE_I32] = { "int32", 4, 4 },
    [MF_DTYPE_U8] = { "uint8", 1, 1 },
    [MF_DTYPE_I16] = { "int16", 2, 2 },
    [MF_DTYPE_I8] = { "int8", 1, 1 },
    [MF_DTYPE_STRING] = { "string", 0, sizeof(mf_string) },
    [MF_DTYPE_C64] = { "complex64", 8, 8 },
    [MF_DTYPE_I64] = { "int64", 8, 8 },
    [MF_DTYPE_BOOL] = { "bool", 1, 1 },
    [MF_DTYPE_QI8] = { "qint8", 1, 1 },
    [MF_DTYPE_QU8] = { "quint8", 1, 1 },
    [MF_DTYPE_QI32] = { "qint32", 4, 4 },
    [MF_DTYPE_BF16] = { "bfloat16", 2, 2 },
    [MF_DTYPE_QI16] = { "qint16", 2, 2 },
    [MF_DTYPE_QU16] = { "quint16", 2, 2 },
    [MF_DTYPE_U16] = { "uint16", 2, 2 },
    [MF_DTYPE_C128] = { "complex128", 16, 16 },
    [MF_DTYPE_F16] = { "half", 2, 2 },
    [MF_DTYPE_RESOURCE] = { "resource", 0, sizeof(mf_object *) },
    [MF_DTYPE_VARIANT] = { "variant", 0, sizeof(mf_object *) },
    [MF_DTYPE_U32] = { "uint32", 4, 4 },
    [MF_DTYPE_U64] = { "uint64", 8, 8 },
};

static int dtype_index_of(mf_dtype dtype)
{
    return mf_dtype_is_valid((int)dtype) ? (int)dtype : 0;
}

const char *mf_dtype_name(mf_dtype dtype)
{
    return info[dtype_index_of(dtype)].name;
}

size_t mf_dtype_size(mf_dtype dtype)
{
    return info[dtype_index_of(dtype)].size;
}

size_t mf_dtype_cell(mf_dtype dtype)
{
    return info[dtype_index_of(dtype)].cell;
}

mf_dtype mf_dtype_find(const char *name, size_t len)
{
    for (int i = 1; i < MF_DTYPE_COUNT; i++) {
        if (strlen(info[i].name) == len && memcmp(info[i].name, name, len) == 0)
            return (mf_dtype)i;
    }
    return MF_DTYPE_INVALID;
}

#ifndef __F16C__
float mf_f16_to_f32(mf_f16 x)
{
    const uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16;
    const uint32_t exp = x.bits >> 10 & 0x1f;
    uint32_t frac = x.bits & 0x3ff;
    uint32_t bits;
    float f;

    if (exp == 0x1f) {
        bits = sign | 0x7f800000u | frac << 13;
    } else if (exp != 0) {
        bits = sign | (exp + 112) << 23 | frac << 13;
    } else if (frac == 0) {
        bits = sign;
    } else { /* subnormal half: normalise */
        uint32_t e = 113;

        while (!(frac & 0x400)) {
            frac <<= 1;
            e--;
        }
        bits = sign | e << 23 | (frac & 0x3ff) << 13;
    }
    memcpy(&f, &bits, 4);
    return f;
}

mf_f16 mf_f16_from_f32(float f)
{
    uint32_t bits, mag, sign;

    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000u;
    mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) /* NaN */
        return (mf_f16){ (uint16_t)(sign | 0x7e00u) };
    if (mag >= 0x477ff000u) /* 65520 and above round to infinity */
        return (mf_f16){ (uint16_t)(sign | 0x7c00u) };
    if (mag >= 0x38800000u) { /* normal */
        const uint32_t rounded = mag + 0xfffu + (mag >> 13 & 1);

        return (mf_f16){ (uint16_t)(sign | (rounded - 0x38000000u) >> 13) };
    }
    if (mag < 0x33000000u) /* below half of the smallest subnormal */
        return (mf_f16){ (uint16_t)sign };
    {
        const uint32_t shift = 126 - (mag >> 23);
        const uint32_t frac = (mag & 0x7fffffu) | 0x800000u;
        const uint32_t half = 1u << (shift - 1);
        uint32_t q = frac >> shift;
        const uint32_t rest = frac & ((1u << shift) - 1);

        if (rest > half || (rest == half && (q & 1)))
            q++;
        return (mf_f16){ (uint16_t)(sign | q) };
    }
}
#endif
