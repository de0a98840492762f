/* SPDX-License-Identifier: Apache-2.0 */
/* packed.c - reads packed tensors. The file is untrusted. */
#include "formats/packed.h"

#include "base/file.h"
#include "formats/crc32c.h"
#include "formats/huffman.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian");

enum { EXPANSION = 1 << 16 }; /* maximum number of elements per byte in a valid file */
#define MOST_BYTES ((size_t)1 << 34)

/* Remaining bytes; `bad`: a read went beyond the end. */
typedef struct packed_reader {
    const uint8_t *at;
    size_t left;
    bool bad;
} packed_reader;

static const uint8_t *packed_take(packed_reader *r, uint64_t n)
{
    const uint8_t *at = r->at;

    if (n > r->left) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    r->left -= (size_t)n;
    return at;
}

static uint64_t packed_number(packed_reader *r)
{
    uint64_t n = 0;

    for (int shift = 0; shift < 63; shift += 7) {
        const uint8_t *byte = packed_take(r, 1);

        if (!byte)
            return 0;
        n |= (uint64_t)(*byte & 127) << shift;
        if (*byte < 128)
            return n;
    }
    r->bad = true;
    return 0;
}

static const char *packed_text(packed_reader *r, mf_arena *arena)
{
    const uint64_t n = packed_number(r);
    const uint8_t *at = packed_take(r, n);

    return at ? mf_arena_strndup(arena, (const char *)at, (size_t)n) : NULL;
}

/* ---- the list ---- */

static mf_status packed_decode_shape(packed_reader *r, mf_shape *out)
{
    const uint64_t rank = packed_number(r);
    int64_t dims[MF_MAX_RANK];

    if (rank > MF_MAX_RANK)
        return MF_FAIL(MF_UNIMPLEMENTED, "a tensor of more than %d dimensions", MF_MAX_RANK);
    for (uint64_t d = 0; d < rank; d++) {
        dims[d] = (int64_t)packed_number(r);
        if (dims[d] < 0)
            return MF_FAIL(MF_DATA_LOSS, "dimension %d is invalid", (int)d);
    }
    return mf_shape_from_dims(dims, (int64_t)rank, out);
}

static mf_status packed_decode_entry(packed_reader *r, mf_arena *arena, mf_packed_entry *e)
{
    const char *type;
    const uint8_t *method;
    uint64_t len;

    e->name = packed_text(r, arena);
    type = packed_text(r, arena);
    if (!e->name || !type)
        return MF_FAIL(MF_DATA_LOSS, "the file ends inside a name");
    e->dtype = mf_dtype_find(type, strlen(type));
    if (e->dtype == MF_DTYPE_INVALID)
        return MF_FAIL(MF_UNIMPLEMENTED, "'%.200s' has the unknown type '%.20s'", e->name, type);
    MF_TRY(packed_decode_shape(r, &e->shape));
    MF_TRY(mf_shape_count(&e->shape, &e->count));
    method = packed_take(r, 1);
    len = packed_number(r);
    e->data = packed_take(r, len);
    e->len = (size_t)len;
    if (r->bad)
        return MF_FAIL(MF_DATA_LOSS, "the file ends inside '%.200s'", e->name);
    e->method = *method;
    if (e->method > MF_PACKED_SYMBOLS)
        return MF_FAIL(MF_UNIMPLEMENTED, "'%.200s' is packed with the unknown method %d", e->name,
                       e->method);
    return MF_OK;
}

mf_status mf_packed_decode(const void *data, size_t len, mf_arena *arena, mf_packed_entry **out,
                           int64_t *n)
{
    packed_reader r = { .at = data, .left = len };
    const uint8_t *head = packed_take(&r, MF_PACKED_HEAD);
    uint64_t count;
    uint32_t crc;

    *out = NULL;
    *n = 0;
    if (!head || memcmp(head, mf_packed_magic, sizeof mf_packed_magic) != 0)
        return MF_FAIL(MF_DATA_LOSS, "it does not begin like a packed file");
    memcpy(&crc, head + sizeof mf_packed_magic, sizeof crc);
    if (crc != mf_crc32c(0, r.at, r.left))
        return MF_FAIL(MF_DATA_LOSS, "its checksum does not match");
    count = packed_number(&r);
    if (r.bad || count > r.left) /* each takes more than a byte */
        return MF_FAIL(MF_DATA_LOSS, "%llu tensors in %zu bytes", (unsigned long long)count, len);
    *out = MF_ARENA_ARRAY(arena, mf_packed_entry, (int64_t)count);
    if (!*out)
        return MF_NOMEM("a packed file");
    for (*n = 0; *n < (int64_t)count; ++*n)
        MF_TRY(packed_decode_entry(&r, arena, &(*out)[*n]));
    return r.left == 0 ? MF_OK : MF_FAIL(MF_DATA_LOSS, "%zu bytes after the last tensor", r.left);
}

/* ---- elements ---- */

static mf_status unpack_strings(const mf_packed_entry *e, mf_tensor *out)
{
    packed_reader r = { .at = e->data, .left = e->len };
    mf_string *strings = out->data;

    for (int64_t i = 0; i < e->count; i++) {
        const uint64_t n = packed_number(&r);
        const uint8_t *at = packed_take(&r, n);

        if (!at)
            return MF_FAIL(MF_DATA_LOSS, "'%.200s' is truncated", e->name);
        MF_TRY(mf_string_set(&strings[i], at, (size_t)n));
    }
    return r.left == 0 ? MF_OK : MF_FAIL(MF_DATA_LOSS, "'%.200s' has trailing bytes", e->name);
}

typedef struct unpacking {
    const mf_packed_entry *e;
    mf_tensor *out;
    packed_reader r;
    bool by_channel, gaps, plain;
    const uint8_t *values; /* elements, or scales; not aligned */
    int64_t channels, nonzero;
    mf_huffman code, gap_code;
    mf_bits_in bits;
} unpacking;

static mf_status packed_damaged(const unpacking *u)
{
    return MF_FAIL(MF_DATA_LOSS, "the symbols of '%.200s' are damaged", u->e->name);
}

static mf_status read_code(unpacking *u, mf_huffman *h)
{
    const size_t len = ((size_t)h->n + 1) / 2;
    mf_bits_in bits = { .data = packed_take(&u->r, len), .len = len };

    if (!bits.data)
        return packed_damaged(u);
    for (int i = 0; i < h->n; i++)
        h->lengths[i] = (uint8_t)mf_bits_get(&bits, 4);
    return mf_huffman_make(h);
}

static mf_status read_tables(unpacking *u)
{
    const size_t cell = mf_dtype_size(u->e->dtype);
    const uint8_t *flags = packed_take(&u->r, 1);
    uint64_t n = 2 * MF_PACKED_STEPS + 1, gaps = 0;

    if (!flags || *flags > MF_PACKED_GAPS + MF_PACKED_PLAIN || *flags == MF_PACKED_PLAIN ||
        *flags == MF_PACKED_PLAIN + MF_PACKED_BY_CHANNEL)
        return packed_damaged(u);
    u->plain = *flags & MF_PACKED_PLAIN;
    u->by_channel = *flags & MF_PACKED_BY_CHANNEL;
    u->gaps = *flags & MF_PACKED_GAPS;
    if (u->by_channel) {
        if (u->e->dtype != MF_DTYPE_F32 || u->e->shape.rank < 1)
            return packed_damaged(u);
        u->channels = u->e->shape.dims[u->e->shape.rank - 1];
        if (u->channels > (int64_t)u->r.left)
            return packed_damaged(u);
        u->values = packed_take(&u->r, (uint64_t)u->channels * sizeof(float));
    } else {
        n = packed_number(&u->r);
        if (n > MF_HUFFMAN_SYMBOLS)
            return packed_damaged(u);
        u->values = packed_take(&u->r, n * cell);
    }
    u->code.n = (int)n;
    u->nonzero = u->gaps ? (int64_t)packed_number(&u->r) : u->e->count;
    if (u->r.bad || u->nonzero > u->e->count)
        return packed_damaged(u);
    if (u->plain)
        u->values = packed_take(&u->r, (uint64_t)u->nonzero * cell);
    if (u->r.bad)
        return packed_damaged(u);
    MF_TRY(read_code(u, &u->code));
    if (u->gaps) {
        gaps = packed_number(&u->r);
        if (u->r.bad || gaps > MF_PACKED_FAR + 1)
            return packed_damaged(u);
        u->gap_code.n = (int)gaps;
        MF_TRY(read_code(u, &u->gap_code));
    }
    u->bits = (mf_bits_in){ .data = u->r.at, .len = u->r.left };
    return MF_OK;
}

static void put_element(const unpacking *u, int64_t at, int symbol)
{
    const size_t cell = mf_dtype_size(u->e->dtype);
    char *to = (char *)u->out->data + (size_t)at * cell;
    float scale;

    if (!u->by_channel) {
        memcpy(to, u->values + (size_t)symbol * cell, cell);
        return;
    }
    memcpy(&scale, u->values + (size_t)(at % u->channels) * sizeof scale, sizeof scale);
    scale = (float)(symbol - MF_PACKED_STEPS) * scale;
    memcpy(to, &scale, sizeof scale);
}

/* Zeros before the next element; -1: damaged. */
static int64_t read_gap(unpacking *u)
{
    int64_t zeros = 0;
    int gap;

    do {
        gap = mf_huffman_get(&u->gap_code, &u->bits);
        zeros += gap;
    } while (gap == MF_PACKED_FAR && !u->bits.over);
    return gap < 0 || u->bits.over ? -1 : zeros;
}

static mf_status unpack_symbols(unpacking *u)
{
    const size_t cell = mf_dtype_size(u->e->dtype);
    int64_t at = 0;

    MF_TRY(read_tables(u));
    memset(u->out->data, 0, (size_t)u->e->count * mf_dtype_size(u->e->dtype));
    for (int64_t i = 0; i < u->nonzero; i++) {
        const int64_t gap = u->gaps ? read_gap(u) : 0;
        int symbol;

        if (gap < 0 || gap >= u->e->count - at)
            return packed_damaged(u);
        at += gap;
        if (u->plain) {
            memcpy((char *)u->out->data + (size_t)at++ * cell, u->values + (size_t)i * cell, cell);
            continue;
        }
        symbol = mf_huffman_get(&u->code, &u->bits);
        if (symbol < 0 || u->bits.over)
            return packed_damaged(u);
        put_element(u, at++, symbol);
    }
    return MF_OK;
}

static mf_status unpack_raw(const mf_packed_entry *e, mf_tensor *out)
{
    if (e->dtype == MF_DTYPE_STRING)
        return unpack_strings(e, out);
    memcpy(out->data, e->data, e->len);
    return MF_OK;
}

static mf_status packed_check_size(const mf_packed_entry *e)
{
    const bool plain = mf_dtype_is_plain(e->dtype);
    int64_t bytes = e->count; /* a string takes at least one */

    if (!plain && (e->dtype != MF_DTYPE_STRING || e->method != MF_PACKED_RAW))
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "'%.200s' is of type %s, which packed files do not "
                       "support",
                       e->name, mf_dtype_name(e->dtype));
    if (plain && !mf_mul_i64(e->count, (int64_t)mf_dtype_size(e->dtype), &bytes))
        return MF_FAIL(MF_DATA_LOSS, "'%.200s' has too many elements", e->name);
    if (e->method == MF_PACKED_RAW
            ? (plain ? bytes != (int64_t)e->len : bytes > (int64_t)e->len)
            : e->count / EXPANSION > (int64_t)e->len || mf_dtype_size(e->dtype) > sizeof(uint64_t))
        return MF_FAIL(MF_DATA_LOSS, "'%.200s': %lld elements in %zu bytes", e->name,
                       (long long)e->count, e->len);
    return MF_OK;
}

mf_status mf_packed_unpack(const mf_packed_entry *e, mf_tensor *out)
{
    unpacking *u;
    mf_status st;

    MF_TRY(packed_check_size(e));
    u = mf_calloc(1, sizeof *u);
    if (!u)
        return MF_NOMEM("a packed tensor");
    *u = (unpacking){ .e = e, .out = out, .r = { .at = e->data, .left = e->len } };
    st = mf_tensor_alloc(out, e->dtype, &e->shape);
    if (st == MF_OK && e->count > 0)
        st = e->method == MF_PACKED_RAW ? unpack_raw(e, out) : unpack_symbols(u);
    if (st != MF_OK)
        mf_tensor_clear(out);
    mf_free(u);
    return st;
}

/* ---- files ---- */

struct mf_packed {
    mf_arena *arena;
    char *data;
    mf_packed_entry *entries;
    int64_t n;
};

mf_status mf_packed_open(const char *path, mf_packed **out)
{
    mf_packed *p = mf_calloc(1, sizeof *p);
    mf_status st;
    size_t len;

    *out = NULL;
    if (!p || !(p->arena = mf_arena_new())) {
        mf_free(p);
        return MF_NOMEM("a packed file");
    }
    st = mf_file_read(path, MOST_BYTES, &p->data, &len);
    if (st == MF_OK) {
        st = mf_packed_decode(p->data, len, p->arena, &p->entries, &p->n);
        if (st != MF_OK)
            st = MF_FAIL(st, "%s: %s", path, mf_error_message());
    }
    if (st == MF_OK)
        *out = p;
    else
        mf_packed_close(p);
    return st;
}

void mf_packed_close(mf_packed *p)
{
    if (!p)
        return;
    mf_arena_free(p->arena);
    mf_free(p->data);
    mf_free(p);
}

int64_t mf_packed_count(const mf_packed *p)
{
    return p->n;
}

const mf_packed_entry *mf_packed_at(const mf_packed *p, int64_t i)
{
    return &p->entries[i];
}
