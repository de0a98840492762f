/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - the header of a safetensors file: decode; for small ones make the tensors,
 * encode,
 * decode, compare. The first byte is the amount of data after the header. */
#include "formats/safetensors.h"

#include <stdint.h>
#include <string.h>

enum { MOST = 256 };

static void round_trip(const mf_safetensor *all, int64_t n, mf_arena *arena)
{
    const char *names[MOST];
    const mf_tensor *tensors[MOST];
    static mf_tensor values[MOST];
    int64_t *order = NULL, n_again, bytes = 0;
    mf_safetensor *again;
    mf_buf file = { 0 };

    for (int64_t i = 0; i < n; i++) {
        MF_ASSERT(mf_tensor_alloc(&values[i], all[i].dtype, &all[i].shape) == MF_OK);
        if (all[i].text)
            MF_ASSERT(mf_string_set(values[i].data, all[i].text, all[i].text_len) == MF_OK);
        names[i] = all[i].name;
        tensors[i] = &values[i];
        bytes += all[i].size;
    }
    MF_ASSERT(mf_safetensors_encode(names, tensors, n, &file, &order) == MF_OK);
    MF_ASSERT(mf_safetensors_decode(file.data + 8, file.len - 8, bytes, arena, &again, &n_again) ==
              MF_OK);
    MF_ASSERT(n == n_again);
    for (int64_t i = 0; i < n; i++) {
        MF_ASSERT(strcmp(all[i].name, again[i].name) == 0 && all[i].dtype == again[i].dtype &&
                  mf_shape_equal(&all[i].shape, &again[i].shape) &&
                  all[i].text_len == again[i].text_len);
        mf_tensor_clear(&values[i]);
    }
    mf_free(order);
    mf_buf_deinit(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    mf_safetensor *all;
    int64_t n;

    if (size > 0 &&
        mf_safetensors_decode((const char *)data + 1, size - 1, data[0], arena, &all, &n) ==
            MF_OK &&
        n <= MOST)
        round_trip(all, n, arena);
    mf_arena_free(arena);
    return 0;
}
