/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_types.h - shared by the reader and the writer of safetensors. */
#ifndef MF_FORMATS_SAFETENSORS_TYPES_H
#define MF_FORMATS_SAFETENSORS_TYPES_H

#include "tensor/dtype.h"

#define MF_SAFETENSORS_METADATA "__metadata__"

static const struct {
    const char *name;
    mf_dtype dtype;
} mf_safetensors_types[] = {
    { "F32", MF_DTYPE_F32 },   { "F64", MF_DTYPE_F64 }, { "F16", MF_DTYPE_F16 },
    { "BF16", MF_DTYPE_BF16 }, { "I8", MF_DTYPE_I8 },   { "I16", MF_DTYPE_I16 },
    { "I32", MF_DTYPE_I32 },   { "I64", MF_DTYPE_I64 }, { "U8", MF_DTYPE_U8 },
    { "U16", MF_DTYPE_U16 },   { "U32", MF_DTYPE_U32 }, { "U64", MF_DTYPE_U64 },
    { "BOOL", MF_DTYPE_BOOL }, { "C64", MF_DTYPE_C64 },
};

#endif
