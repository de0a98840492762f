/* SPDX-License-Identifier: Apache-2.0 */
/* codec_lossless.c - the exact numbers, compressed. Bits are rotated so that the exponent is one
 * byte and the sign the last bit; bytes of the same position form a plane, and each plane is
 * deflated (RFC 1951) where that makes it shorter: exponents of neighbours are similar, and zeros
 * are frequent.
 *
 * A message: for each plane, highest first, its length (4 bytes; `count`: uncompressed) and its
 * bytes. */
#include "base/mem.h"
#include "dist/codec/codec.h"

#include <isa-l/igzip_lib.h>
#include <string.h>

enum { PLANES = 4, LENGTH = 4, MOST = 1 << 29 }; /* elements: lengths have four bytes */

static bool codec_lossless_suits(const mf_codec *c, const mf_codec_item *item)
{
    (void)c;
    return item->count > 0 && item->count < MOST;
}

static int64_t codec_lossless_bytes(const mf_codec *c, const mf_codec_item *item)
{
    (void)c;
    return PLANES * (LENGTH + item->count);
}

/* ---- numbers and planes ---- */

static void take_plane(const float *values, int64_t n, int plane, uint8_t *out)
{
    const int shift = 24 - 8 * plane;

    for (int64_t i = 0; i < n; i++) {
        uint32_t x;

        memcpy(&x, &values[i], sizeof x);
        x = x << 1 | x >> 31;
        out[i] = (uint8_t)(x >> shift);
    }
}

static void join_planes(const uint8_t *planes, int64_t n, float *values)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = 0;

        for (int p = 0; p < PLANES; p++)
            x = x << 8 | planes[n * p + i];
        x = x >> 1 | x << 31;
        memcpy(&values[i], &x, sizeof x);
    }
}

/* ---- one plane ---- */

/* To fewer than n bytes; 0: that cannot be done. */
static int64_t deflate_plane(const uint8_t *in, int64_t n, uint8_t *work, uint8_t *out)
{
    struct isal_zstream z;

    isal_deflate_stateless_init(&z);
    z.level = 1;
    z.level_buf = work;
    z.level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    z.end_of_stream = 1;
    z.next_in = (uint8_t *)(uintptr_t)in;
    z.avail_in = (uint32_t)n;
    z.next_out = out;
    z.avail_out = (uint32_t)(n - 1);
    return isal_deflate_stateless(&z) == COMP_OK && z.avail_in == 0 ? (int64_t)z.total_out : 0;
}

static bool inflate_plane(const uint8_t *in, int64_t len, uint8_t *out, int64_t n)
{
    struct inflate_state z;

    isal_inflate_init(&z);
    z.next_in = (uint8_t *)(uintptr_t)in;
    z.avail_in = (uint32_t)len;
    z.next_out = out;
    z.avail_out = (uint32_t)n;
    return isal_inflate_stateless(&z) == ISAL_DECOMP_OK && z.avail_out == 0 && z.avail_in == 0;
}

/* ---- messages ---- */

static int64_t codec_lossless_pack(const mf_codec *c, const mf_codec_item *item,
                                   const float *values, uint8_t *out)
{
    const int64_t n = item->count;
    uint8_t *plane = mf_calloc(n, 1), *work = mf_calloc(ISAL_DEF_LVL1_DEFAULT, 1);
    int64_t at = 0;

    (void)c;
    for (int p = 0; p < PLANES; p++) {
        int64_t len = 0;
        uint32_t word;

        if (plane && work) {
            take_plane(values, n, p, plane);
            len = deflate_plane(plane, n, work, out + at + LENGTH);
        }
        if (len == 0) {
            take_plane(values, n, p, out + at + LENGTH);
            len = n;
        }
        word = (uint32_t)len;
        memcpy(out + at, &word, LENGTH);
        at += LENGTH + len;
    }
    mf_free(plane);
    mf_free(work);
    return at;
}

static mf_status read_planes(const uint8_t *in, int64_t size, int64_t n, uint8_t *planes)
{
    int64_t at = 0;

    for (int p = 0; p < PLANES; p++) {
        uint32_t len = 0;

        if (size - at >= LENGTH)
            memcpy(&len, in + at, LENGTH);
        at += LENGTH;
        if (len == 0 || len > n || (int64_t)len > size - at)
            return MF_FAIL(MF_DATA_LOSS, "a gradient by lossless ends too early");
        if (len == n)
            memcpy(planes + n * p, in + at, (size_t)n);
        else if (!inflate_plane(in + at, len, planes + n * p, n))
            return MF_FAIL(MF_DATA_LOSS, "a gradient by lossless cannot be unpacked");
        at += len;
    }
    return at == size ? MF_OK
                      : MF_FAIL(MF_DATA_LOSS, "a gradient by lossless is followed by %lld bytes",
                                (long long)(size - at));
}

static mf_status codec_lossless_unpack(const mf_codec *c, const mf_codec_item *item,
                                       const uint8_t *in, int64_t size, float *values)
{
    uint8_t *planes = mf_calloc(PLANES * item->count, 1);
    mf_status st = planes ? read_planes(in, size, item->count, planes) : MF_NOMEM("a gradient");

    (void)c;
    if (st == MF_OK)
        join_planes(planes, item->count, values);
    mf_free(planes);
    return st;
}

const mf_codec_kind mf_codec_lossless = {
    .name = "lossless",
    .settings = "{}",
    .about = "the same values, compressed; the weights equal those without a codec",
    .suits = codec_lossless_suits,
    .bytes = codec_lossless_bytes,
    .pack = codec_lossless_pack,
    .unpack = codec_lossless_unpack,
};
