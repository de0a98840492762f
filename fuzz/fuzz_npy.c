/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c - an array file: decode, encode, decode, compare. */
#include "formats/npy.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_tensor t = { 0 }, back = { 0 };
    mf_buf file = { 0 };

    if (mf_npy_decode(data, size, &t) == MF_OK) {
        MF_ASSERT(mf_npy_encode(&t, &file) == MF_OK);
        MF_ASSERT(mf_npy_decode(file.data, file.len, &back) == MF_OK);
        MF_ASSERT(back.dtype == t.dtype && mf_shape_equal(&back.shape, &t.shape));
        if (mf_dtype_is_plain(t.dtype) && t.count > 0)
            MF_ASSERT(memcmp(t.data, back.data, (size_t)t.count * mf_dtype_size(t.dtype)) == 0);
    }
    MF_ASSERT(t.dtype != MF_DTYPE_INVALID || t.buffer == NULL);
    mf_tensor_clear(&t);
    mf_tensor_clear(&back);
    mf_buf_deinit(&file);
    return 0;
}
