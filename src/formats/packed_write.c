/* SPDX-License-Identifier: Apache-2.0 */
/* packed_write.c - writes packed tensors: each tensor uses the shortest encoding. */
#include "base/file.h"
#include "formats/crc32c.h"
#include "formats/huffman.h"
#include "formats/packed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char mf_packed_magic[8] = { 'M', 'F', 'P', 'A', 'C', 'K', '0', '1' };

/* A tensor as symbols. */
typedef struct symbols {
    const mf_tensor *t;
    size_t cell;
    bool by_channel, gaps, plain;
    uint64_t *values; /* list: bits of each value, ascending; without 0 if zeros are skipped */
    int n; /* symbols */
    int64_t nonzero;
    const float *scales; /* per channel */
    int64_t channels;
    uint16_t *of; /* per element; for skipped zeros the value is undefined */
    mf_huffman code, gap_code;
} symbols;

static void packed_write_put_number(mf_buf *out, uint64_t n)
{
    do {
        const uint8_t byte = (uint8_t)((n & 127) | (n > 127 ? 128 : 0));

        mf_buf_bytes(out, &byte, 1);
        n >>= 7;
    } while (n > 0);
}

static void packed_write_put_text(mf_buf *out, const char *text, size_t len)
{
    packed_write_put_number(out, len);
    mf_buf_bytes(out, text, len);
}

static uint64_t bits_at(const mf_tensor *t, size_t cell, int64_t i)
{
    uint64_t bits = 0;

    memcpy(&bits, (const char *)t->data + (size_t)i * cell, cell);
    return bits;
}

/* ---- values ---- */

static int packed_write_ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int64_t packed_write_count_zeros(const symbols *s)
{
    int64_t n = 0;

    for (int64_t i = 0; i < s->t->count; i++)
        n += bits_at(s->t, s->cell, i) == 0;
    return n;
}

/* *fits: the number of distinct values is small enough. */
static mf_status list_values(symbols *s, bool *fits)
{
    const int64_t count = s->t->count;
    uint64_t *all = mf_calloc(count, sizeof *all);
    int64_t n = 0, last = -1;

    *fits = false;
    if (!all)
        return MF_NOMEM("a packed tensor");
    s->values = all;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = bits_at(s->t, s->cell, i);

        if (bits != 0 || !s->gaps)
            all[n++] = bits;
    }
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, packed_write_ascending);
    for (int64_t i = 0; i < n; i++) {
        if (last < 0 || all[i] != all[last])
            all[++last] = all[i];
        if (last >= MF_HUFFMAN_SYMBOLS)
            return MF_OK;
    }
    s->n = (int)last + 1;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = bits_at(s->t, s->cell, i);
        const uint64_t *found =
            s->n > 0 ? bsearch(&bits, all, (size_t)s->n, sizeof *all, packed_write_ascending)
                     : NULL;

        s->of[i] = (uint16_t)(found ? found - all : 0);
    }
    *fits = true;
    return MF_OK;
}

/* All values of a channel are multiples of 1/127 of its largest. */
static bool is_on_grid(symbols *s, float *scales)
{
    const float *x = s->t->data;
    const int64_t n = s->channels;

    memset(scales, 0, (size_t)n * sizeof *scales);
    for (int64_t i = 0; i < s->t->count; i++) {
        if (!isfinite(x[i]))
            return false;
        scales[i % n] = fmaxf(scales[i % n], fabsf(x[i]));
    }
    for (int64_t c = 0; c < n; c++)
        scales[c] /= MF_PACKED_STEPS;
    for (int64_t i = 0; i < s->t->count; i++) {
        const float step = scales[i % n], k = step > 0 ? rintf(x[i] / step) : 0.0f;
        const float again = (float)(int)k * step;

        if (again != x[i] || (x[i] == 0 && signbit(x[i])) || fabsf(k) > MF_PACKED_STEPS)
            return false;
        s->of[i] = (uint16_t)((int)k + MF_PACKED_STEPS);
    }
    s->scales = scales;
    s->n = 2 * MF_PACKED_STEPS + 1;
    return true;
}

/* ---- codes ---- */

/* Calls put(zeros before, element) for each nonzero element; element -1: MF_PACKED_FAR zeros alone.
 */
static void each_gap(symbols *s, void (*put)(symbols *s, void *ctx, int gap, int64_t element),
                     void *ctx)
{
    int64_t from = 0;

    for (int64_t i = 0; i < s->t->count; i++) {
        if (bits_at(s->t, s->cell, i) == 0)
            continue;
        for (; i - from >= MF_PACKED_FAR; from += MF_PACKED_FAR)
            put(s, ctx, MF_PACKED_FAR, -1);
        put(s, ctx, (int)(i - from), i);
        from = i + 1;
    }
}

typedef struct counts {
    int64_t of_symbol[MF_HUFFMAN_SYMBOLS], of_gap[MF_PACKED_FAR + 1];
} counts;

static void count_one(symbols *s, void *ctx, int gap, int64_t element)
{
    counts *c = ctx;

    c->of_gap[gap]++;
    if (element >= 0) {
        c->of_symbol[s->of[element]]++;
        s->nonzero++;
    }
}

static void put_one(symbols *s, void *ctx, int gap, int64_t element)
{
    mf_huffman_put(&s->gap_code, ctx, gap);
    if (element >= 0 && !s->plain)
        mf_huffman_put(&s->code, ctx, s->of[element]);
}

static mf_status make_codes(symbols *s)
{
    counts *c = mf_calloc(1, sizeof *c);
    mf_status st = c ? MF_OK : MF_NOMEM("a packed tensor");

    if (st == MF_OK && s->gaps)
        each_gap(s, count_one, c);
    for (int64_t i = 0; st == MF_OK && !s->gaps && i < s->t->count; i++)
        c->of_symbol[s->of[i]]++;
    s->code.n = s->n;
    s->gap_code.n = MF_PACKED_FAR + 1;
    if (st == MF_OK)
        st = mf_huffman_lengths(c->of_symbol, s->n, s->code.lengths);
    if (st == MF_OK)
        st = mf_huffman_lengths(c->of_gap, s->gap_code.n, s->gap_code.lengths);
    while (s->gap_code.n > 0 && s->gap_code.lengths[s->gap_code.n - 1] == 0)
        s->gap_code.n--;
    if (st == MF_OK)
        st = mf_huffman_make(&s->code);
    if (st == MF_OK)
        st = mf_huffman_make(&s->gap_code);
    mf_free(c);
    return st;
}

static void packed_write_put_values(const symbols *s, mf_buf *out)
{
    if (s->by_channel)
        mf_buf_bytes(out, s->scales, (size_t)s->channels * sizeof *s->scales);
    else
        packed_write_put_number(out, (uint64_t)s->n);
    for (int i = 0; !s->by_channel && i < s->n; i++)
        mf_buf_bytes(out, &s->values[i], s->cell);
    if (s->gaps)
        packed_write_put_number(out, (uint64_t)s->nonzero);
    for (int64_t i = 0; s->plain && i < s->t->count; i++) {
        const uint64_t bits = bits_at(s->t, s->cell, i);

        if (bits != 0)
            mf_buf_bytes(out, &bits, s->cell);
    }
}

static mf_status put_symbols(symbols *s, mf_buf *out)
{
    const uint8_t flags =
        (uint8_t)((s->by_channel ? MF_PACKED_BY_CHANNEL : 0) | (s->gaps ? MF_PACKED_GAPS : 0) |
                  (s->plain ? MF_PACKED_PLAIN : 0));
    mf_bits_out bits = { .out = out };

    MF_TRY(make_codes(s));
    mf_buf_bytes(out, &flags, 1);
    packed_write_put_values(s, out);
    for (int i = 0; i < s->n; i++)
        mf_bits_put(&bits, s->code.lengths[i], 4);
    mf_bits_end(&bits);
    if (s->gaps) {
        packed_write_put_number(out, (uint64_t)s->gap_code.n);
        for (int i = 0; i < s->gap_code.n; i++)
            mf_bits_put(&bits, s->gap_code.lengths[i], 4);
        mf_bits_end(&bits);
        each_gap(s, put_one, &bits);
    }
    for (int64_t i = 0; !s->gaps && i < s->t->count; i++)
        mf_huffman_put(&s->code, &bits, s->of[i]);
    mf_bits_end(&bits);
    return mf_buf_finish(out);
}

/* ---- tensors ---- */

static mf_status pack_list(symbols *s, mf_buf *out)
{
    bool fits;
    mf_status st = list_values(s, &fits);

    if (!fits) {
        s->plain = s->gaps;
        s->n = 0;
    }
    if (st == MF_OK && (fits || s->plain))
        st = put_symbols(s, out);
    mf_free(s->values);
    return st;
}

static mf_status pack_channels(symbols *s, mf_buf *out)
{
    float *scales;
    mf_status st = MF_OK;

    if (s->t->dtype != MF_DTYPE_F32 || s->t->shape.rank < 1)
        return MF_OK;
    s->channels = s->t->shape.dims[s->t->shape.rank - 1];
    s->by_channel = true;
    scales = mf_calloc(s->channels, sizeof *scales);
    if (!scales)
        return MF_NOMEM("a packed tensor");
    if (is_on_grid(s, scales))
        st = put_symbols(s, out);
    mf_free(scales);
    return st;
}

/* Encodes as symbols, if possible: else *out stays empty. */
static mf_status packed_write_pack(const mf_tensor *t, mf_buf *out)
{
    symbols *s = mf_calloc(1, sizeof *s);
    mf_buf other = { 0 };
    uint16_t *of = mf_calloc(t->count, sizeof *of);
    bool gaps = false;
    mf_status st = s && of ? MF_OK : MF_NOMEM("a packed tensor");

    for (int way = 0; st == MF_OK && way < 2; way++) {
        *s = (symbols){ .t = t, .cell = mf_dtype_size(t->dtype), .of = of };
        if (way == 0)
            gaps = packed_write_count_zeros(s) > t->count / 2;
        s->gaps = gaps;
        st = way == 0 ? pack_list(s, out) : pack_channels(s, &other);
    }
    if (st == MF_OK && other.len > 0 && (out->len == 0 || other.len < out->len)) {
        mf_buf_clear(out);
        mf_buf_bytes(out, other.data, other.len);
        st = mf_buf_finish(out);
    }
    mf_buf_deinit(&other);
    mf_free(of);
    mf_free(s);
    return st;
}

static mf_status put_raw(const char *name, const mf_tensor *t, mf_buf *out)
{
    const mf_string *strings = t->data;

    if (mf_dtype_is_plain(t->dtype)) {
        mf_buf_bytes(out, t->data, (size_t)t->count * mf_dtype_size(t->dtype));
        return mf_buf_finish(out);
    }
    if (t->dtype != MF_DTYPE_STRING)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "'%.200s' is of type %s, which packed files do not "
                       "support",
                       name, mf_dtype_name(t->dtype));
    for (int64_t i = 0; i < t->count; i++)
        packed_write_put_text(out, strings[i].len ? strings[i].data : "", strings[i].len);
    return mf_buf_finish(out);
}

static mf_status put_tensor(const char *name, const mf_tensor *t, mf_buf *out)
{
    const char *type = mf_dtype_name(t->dtype);
    const size_t cell = mf_dtype_is_plain(t->dtype) ? mf_dtype_size(t->dtype) : 0;
    mf_buf bytes = { 0 }, raw = { 0 };
    uint8_t method = MF_PACKED_SYMBOLS;
    mf_status st;

    MF_TRY_TO(done, put_raw(name, t, &raw));
    if (t->count > 0 && cell > 0 && cell <= sizeof(uint64_t))
        MF_TRY_TO(done, packed_write_pack(t, &bytes));
    if (bytes.len == 0 || bytes.len >= raw.len)
        method = MF_PACKED_RAW;
    packed_write_put_text(out, name, strlen(name));
    packed_write_put_text(out, type, strlen(type));
    packed_write_put_number(out, (uint64_t)t->shape.rank);
    for (int d = 0; d < t->shape.rank; d++)
        packed_write_put_number(out, (uint64_t)t->shape.dims[d]);
    mf_buf_bytes(out, &method, 1);
    if (method == MF_PACKED_RAW)
        packed_write_put_text(out, raw.len ? raw.data : "", raw.len);
    else
        packed_write_put_text(out, bytes.data, bytes.len);
done:
    mf_buf_deinit(&bytes);
    mf_buf_deinit(&raw);
    return st;
}

/* A tensor and its name. */
typedef struct packed_write_item {
    const char *name;
    const mf_tensor *tensor;
} packed_write_item;

static int packed_write_by_name(const void *a, const void *b)
{
    return strcmp(((const packed_write_item *)a)->name, ((const packed_write_item *)b)->name);
}

static mf_status packed_write_put_all(packed_write_item *items, int64_t n, mf_buf *out)
{
    if (n > 1)
        qsort(items, (size_t)n, sizeof *items, packed_write_by_name);
    packed_write_put_number(out, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        MF_TRY(put_tensor(items[i].name, items[i].tensor, out));
    return mf_buf_finish(out);
}

mf_status mf_packed_encode(const char *const *names, const mf_tensor *const *tensors, int64_t n,
                           mf_buf *out)
{
    packed_write_item *items = mf_calloc(n + 1, sizeof *items);
    char *head = mf_buf_room(out, MF_PACKED_HEAD);
    uint32_t crc;
    mf_status st = items && head ? MF_OK : MF_NOMEM("a packed file");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        items[i] = (packed_write_item){ names[i], tensors[i] };
    if (st == MF_OK)
        st = packed_write_put_all(items, n, out);
    mf_free(items);
    MF_TRY(st);
    memcpy(out->data, mf_packed_magic, sizeof mf_packed_magic);
    crc = mf_crc32c(0, out->data + MF_PACKED_HEAD, out->len - MF_PACKED_HEAD);
    memcpy(out->data + sizeof mf_packed_magic, &crc, sizeof crc);
    return MF_OK;
}

mf_status mf_packed_write(const char *path, const char *const *names,
                          const mf_tensor *const *tensors, int64_t n)
{
    mf_buf file = { 0 };
    mf_status st = mf_packed_encode(names, tensors, n, &file);

    if (st == MF_OK)
        st = mf_file_write(path, file.data, file.len);
    mf_buf_deinit(&file);
    return st;
}
