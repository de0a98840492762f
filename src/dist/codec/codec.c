/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - the table of codecs, and their common part: settings and checksums. */
#include "dist/codec/codec.h"

#include "base/did_you_mean.h"
#include "formats/crc32c.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages hold numbers as memory does");

static const mf_codec_kind none = {
    .name = "none",
    .settings = "{}",
    .about = "partial sums of the gradients, without compression",
};

const mf_codec_kind *const mf_codec_kinds[] = {
    &none,          &mf_codec_lossless, &mf_codec_fp16,      &mf_codec_bf16,
    &mf_codec_int8, &mf_codec_top_k,    &mf_codec_power_sgd, NULL
};

static mf_status codec_unknown(const char *name)
{
    mf_did_you_mean c = mf_did_you_mean_to(name);

    for (const mf_codec_kind *const *k = mf_codec_kinds; *k; k++)
        mf_did_you_mean_try(&c, (*k)->name);
    if (c.best)
        return MF_FAIL(MF_NOT_FOUND, "there is no codec '%.60s'; did you mean '%s'?", name, c.best);
    return MF_FAIL(MF_NOT_FOUND,
                   "there is no codec '%.60s'; `meshflow models --kind codecs` lists them", name);
}

mf_status mf_codec_parse(const char *text, mf_arena *arena, mf_codec *out)
{
    const mf_codec_kind *const *k = mf_codec_kinds;
    const char *name, *rest;

    MF_TRY(mf_options_head(text, arena, &name, &rest));
    while (*k && strcmp((*k)->name, name) != 0)
        k++;
    if (!*k)
        return codec_unknown(name);
    out->kind = *k;
    MF_TRY(mf_options_parse((*k)->name, (*k)->settings, rest, arena, &out->settings));
    return (*k)->check ? (*k)->check(&out->settings) : MF_OK;
}

void mf_codec_text(const mf_codec *c, mf_buf *out)
{
    mf_buf_str(out, c->kind->name);
    mf_options_text(&c->settings, out);
}

/* ---- messages ---- */

enum { SUM = 4, LENGTH = 4 }; /* bytes of the checksum, and of a length that is not known */

static int64_t codec_before(const mf_codec *c)
{
    return c->kind->pack ? LENGTH : 0;
}

int64_t mf_codec_bytes(const mf_codec *c, const mf_codec_item *item)
{
    return codec_before(c) + c->kind->bytes(c, item) + SUM;
}

int64_t mf_codec_encode(const mf_codec *c, const mf_codec_item *item, float *values, float *memory,
                        uint8_t *out)
{
    const int64_t head = codec_before(c);
    int64_t n = c->kind->bytes(c, item);
    uint32_t sum, length;

    if (c->kind->pack)
        n = c->kind->pack(c, item, values, out + head);
    else
        c->kind->encode(c, item, values, memory, out);
    length = (uint32_t)n;
    memcpy(out, &length, (size_t)head);
    sum = mf_crc32c(0, out, (size_t)(head + n));
    memcpy(out + head + n, &sum, SUM);
    return head + n + SUM;
}

mf_status mf_codec_size(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                        int64_t left, int64_t *size)
{
    const int64_t most = mf_codec_bytes(c, item);
    uint32_t length = 0;

    if (c->kind->pack && left >= LENGTH)
        memcpy(&length, in, LENGTH);
    *size = c->kind->pack ? LENGTH + (int64_t)length + SUM : most;
    if (*size > left || *size > most)
        return MF_FAIL(MF_DATA_LOSS, "a gradient by %s has %lld bytes, not %lld", c->kind->name,
                       (long long)left, (long long)*size);
    return MF_OK;
}

mf_status mf_codec_decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                          int64_t size, float *values)
{
    const int64_t head = codec_before(c);
    int64_t wanted, n;
    uint32_t sum;

    MF_TRY(mf_codec_size(c, item, in, size, &wanted));
    if (size != wanted)
        return MF_FAIL(MF_DATA_LOSS, "a gradient by %s has %lld bytes, not %lld", c->kind->name,
                       (long long)size, (long long)wanted);
    n = size - head - SUM;
    memcpy(&sum, in + head + n, SUM);
    if (sum != mf_crc32c(0, in, (size_t)(head + n)))
        return MF_FAIL(MF_DATA_LOSS, "a gradient by %s has a wrong checksum", c->kind->name);
    return c->kind->pack ? c->kind->unpack(c, item, in + head, n, values)
                         : c->kind->decode(c, item, in, values);
}
