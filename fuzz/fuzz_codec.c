/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_codec.c - a gradient received from a peer: the first byte selects the codec, the next two
 * are the
 * number of elements, the rest is the message, whose checksum is fixed. A decoded message writes
 * exactly
 * these elements. */
#include "base/mem.h"
#include "dist/codec/codec.h"

#include <stdint.h>
#include <string.h>

static const char *const texts[] = { "fp16",
                                     "bf16",
                                     "int8",
                                     "int8 block=8 rounding=stochastic",
                                     "top_k",
                                     "top_k ratio=0.5 values=fp32",
                                     "top_k ratio=1.0",
                                     "lossless" };

enum { HEAD = 3, MOST = 1 << 13 };

static void decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *data, size_t size)
{
    const size_t n = (size_t)c->kind->bytes(c, item);
    uint8_t *bytes = mf_calloc((int64_t)n, 1);
    float *values = mf_calloc(item->count + 1, sizeof *values);

    MF_ASSERT(bytes && values);
    memcpy(bytes, data, size < n ? size : n);
    values[item->count] = 7.0f;
    if (c->kind->pack)
        (void)!c->kind->unpack(c, item, bytes, (int64_t)(size < n ? size : n), values);
    else
        (void)!c->kind->decode(c, item, bytes, values);
    MF_ASSERT(values[item->count] == 7.0f);
    if (mf_codec_decode(c, item, data, (int64_t)size, values) == MF_OK)
        MF_ASSERT(c->kind->pack || size == n + 4);
    MF_ASSERT(values[item->count] == 7.0f);
    mf_free(bytes);
    mf_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    mf_codec_item item = { .columns = 1 };
    mf_codec codec;

    MF_ASSERT(arena);
    if (size >= HEAD) {
        item.count = item.rows = 1 + (data[1] | data[2] << 8) % MOST;
        MF_ASSERT(mf_codec_parse(texts[data[0] % MF_COUNT(texts)], arena, &codec) == MF_OK);
        decode(&codec, &item, data + HEAD, size - HEAD);
    }
    mf_arena_free(arena);
    return 0;
}
