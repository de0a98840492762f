/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - reads and writes NumPy .npy files. */
#include "formats/npy.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    MAGIC_LEN = 6,
    HEADER_MAX = 65535, /* bytes; NumPy's own headers have about 100 */
    DESCR_MAX = 31,
    ALIGN = 64, /* elements begin at a multiple */
    GROWTH_DIGITS = 21 /* NumPy reserves space so that the first dimension can grow in place */
};

static const char magic[] = "\x93NUMPY";

/* Contents of the header. */
typedef struct npy_header {
    char descr[DESCR_MAX + 1];
    bool fortran;
    mf_shape shape;
    bool has_descr, has_order, has_shape;
} npy_header;

/* How one element is stored in the file. */
typedef struct npy_cell {
    mf_dtype dtype;
    size_t bytes; /* of one element */
    size_t part; /* bytes of the unit that is byte-swapped: half for complex, 4 for U */
    bool swap;
    bool utf32;
} npy_cell;

/* NumPy's letter and size for each plain type; the first entry of a kind is used for reading. */
static const struct {
    mf_dtype dtype;
    char kind;
    size_t bytes, part;
} kinds[] = {
    { MF_DTYPE_BOOL, 'b', 1, 1 }, { MF_DTYPE_I8, 'i', 1, 1 },    { MF_DTYPE_I16, 'i', 2, 2 },
    { MF_DTYPE_I32, 'i', 4, 4 },  { MF_DTYPE_I64, 'i', 8, 8 },   { MF_DTYPE_U8, 'u', 1, 1 },
    { MF_DTYPE_U16, 'u', 2, 2 },  { MF_DTYPE_U32, 'u', 4, 4 },   { MF_DTYPE_U64, 'u', 8, 8 },
    { MF_DTYPE_F16, 'f', 2, 2 },  { MF_DTYPE_F32, 'f', 4, 4 },   { MF_DTYPE_F64, 'f', 8, 8 },
    { MF_DTYPE_C64, 'c', 8, 4 },  { MF_DTYPE_C128, 'c', 16, 8 }, { MF_DTYPE_BF16, 'V', 2, 2 },
    { MF_DTYPE_QI8, 'i', 1, 1 },  { MF_DTYPE_QU8, 'u', 1, 1 },   { MF_DTYPE_QI16, 'i', 2, 2 },
    { MF_DTYPE_QU16, 'u', 2, 2 }, { MF_DTYPE_QI32, 'i', 4, 4 },
};

/* ---- the header: a Python dictionary ---- */

typedef struct npy_cursor {
    const char *at, *end;
} npy_cursor;

static void skip_spaces(npy_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool npy_take(npy_cursor *c, char mark)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at != mark)
        return false;
    c->at++;
    return true;
}

static mf_status want(npy_cursor *c, char mark)
{
    return npy_take(c, mark) ? MF_OK
                             : MF_FAIL(MF_INVALID_ARGUMENT, "npy header: '%c' is missing", mark);
}

static bool npy_take_word(npy_cursor *c, const char *word)
{
    const size_t len = strlen(word);

    skip_spaces(c);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* 'text' or "text", without escapes. */
static mf_status read_quoted(npy_cursor *c, char text[DESCR_MAX + 1])
{
    const char quote = npy_take(c, '\'') ? '\'' : npy_take(c, '"') ? '"' : '\0';
    size_t len = 0;

    if (quote == '\0')
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: expected a string");
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && len < DESCR_MAX)
        text[len++] = *c->at++;
    text[len] = '\0';
    if (c->at == c->end || *c->at != quote)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: the string '%.31s' is not closed", text);
    c->at++;
    return MF_OK;
}

static mf_status read_dim(npy_cursor *c, int64_t *out)
{
    int64_t v = 0;
    const char *start;

    skip_spaces(c);
    for (start = c->at; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (!mf_mul_i64(v, 10, &v) || !mf_add_i64(v, *c->at - '0', &v))
            return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: a dimension is above 2^63");
    }
    if (c->at == start)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: expected a dimension");
    (void)npy_take(c, 'L'); /* suffix of long integers in Python 2 */
    *out = v;
    return MF_OK;
}

/* (), (3,), (2, 3) */
static mf_status read_shape(npy_cursor *c, mf_shape *shape)
{
    bool comma = true;

    *shape = MF_SCALAR;
    MF_TRY(want(c, '('));
    while (!npy_take(c, ')')) {
        if (!comma)
            return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: ',' is missing in the shape");
        if (shape->rank == MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: rank above the limit of %d",
                           MF_MAX_RANK);
        MF_TRY(read_dim(c, &shape->dims[shape->rank++]));
        comma = npy_take(c, ',');
    }
    if (shape->rank == 1 && !comma)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: the shape is a number, expected a tuple");
    return MF_OK;
}

static mf_status npy_read_entry(npy_cursor *c, npy_header *h)
{
    char key[DESCR_MAX + 1];
    bool *has;

    MF_TRY(read_quoted(c, key));
    MF_TRY(want(c, ':'));
    skip_spaces(c);
    if (strcmp(key, "descr") == 0) {
        has = &h->has_descr;
        if (c->at < c->end && *c->at == '[')
            return MF_FAIL(MF_UNIMPLEMENTED, "npy: arrays of records are not supported");
        MF_TRY(read_quoted(c, h->descr));
    } else if (strcmp(key, "fortran_order") == 0) {
        has = &h->has_order;
        h->fortran = npy_take_word(c, "True");
        if (!h->fortran && !npy_take_word(c, "False"))
            return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: fortran_order is not a bool");
    } else if (strcmp(key, "shape") == 0) {
        has = &h->has_shape;
        MF_TRY(read_shape(c, &h->shape));
    } else {
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: unknown key '%s'", key);
    }
    if (*has)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: '%s' is given twice", key);
    *has = true;
    return MF_OK;
}

static mf_status npy_read_header(const char *text, size_t len, npy_header *h)
{
    npy_cursor c = { text, text + len };
    bool comma = true;

    *h = (npy_header){ 0 };
    MF_TRY(want(&c, '{'));
    while (!npy_take(&c, '}')) {
        if (!comma)
            return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: ',' is missing");
        MF_TRY(npy_read_entry(&c, h));
        comma = npy_take(&c, ',');
    }
    skip_spaces(&c);
    if (c.at != c.end)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: unexpected text after '}'");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy header: descr, fortran_order or shape is missing");
    return MF_OK;
}

/* "<f4": byte order, kind, bytes (of U: characters). */
static mf_status parse_descr(const char *descr, npy_cell *cell)
{
    const char order = descr[0];
    const char kind = order ? descr[1] : '\0';
    npy_cursor c = { descr + (kind ? 2 : 0), descr + strlen(descr) };
    int64_t size = 0;

    if (kind == 'O' || order == 'O')
        return MF_FAIL(MF_UNIMPLEMENTED, "npy: arrays of Python objects are not supported");
    if (!kind || !strchr("<>|=", order))
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy: '%s' is not a type", descr);
    MF_TRY(read_dim(&c, &size));
    if (c.at != c.end)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy: '%s' is not a type", descr);
    *cell = (npy_cell){ .swap = order == '>' };
    for (int i = 0; i < MF_COUNT(kinds); i++) {
        if (kinds[i].kind == kind && kinds[i].bytes == (size_t)size) {
            cell->dtype = kinds[i].dtype;
            cell->bytes = kinds[i].bytes;
            cell->part = kinds[i].part;
            return MF_OK;
        }
    }
    if ((kind != 'S' && kind != 'U' && kind != 'a') || size == 0 || size > INT32_MAX)
        return MF_FAIL(MF_UNIMPLEMENTED, "npy: arrays of type '%s' are not supported", descr);
    cell->dtype = MF_DTYPE_STRING;
    cell->utf32 = kind == 'U';
    cell->bytes = (size_t)size * (cell->utf32 ? 4 : 1);
    cell->part = cell->utf32 ? 4 : 1;
    return MF_OK;
}

/* ---- elements ---- */

static void copy_cell(const npy_cell *cell, const uint8_t *src, uint8_t *dst)
{
    if (!cell->swap || cell->part == 1) {
        memcpy(dst, src, cell->bytes);
        return;
    }
    for (size_t i = 0; i < cell->bytes; i++)
        dst[i] = src[i - i % cell->part + cell->part - 1 - i % cell->part];
}

static mf_status utf32_append(const npy_cell *cell, const uint8_t *src, mf_buf *text)
{
    const uint32_t c =
        cell->swap
            ? (uint32_t)src[0] << 24 | (uint32_t)src[1] << 16 | (uint32_t)src[2] << 8 | src[3]
            : (uint32_t)src[3] << 24 | (uint32_t)src[2] << 16 | (uint32_t)src[1] << 8 | src[0];
    uint8_t s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "npy: a string contains 0x%x, which is not a "
                       "character",
                       c);
    for (size_t i = n - 1; i > 0; i--)
        s[i] = (uint8_t)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
    s[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xff) | c >> (6 * (n - 1)));
    mf_buf_bytes(text, s, n);
    return MF_OK;
}

static mf_status string_cell(const npy_cell *cell, const uint8_t *src, mf_buf *scratch,
                             mf_string *dst)
{
    static const uint8_t nul[4];
    size_t len = cell->bytes;

    while (len > 0 && memcmp(src + len - cell->part, nul, cell->part) == 0)
        len -= cell->part;
    if (!cell->utf32)
        return mf_string_set(dst, src, len);
    scratch->len = 0;
    for (size_t i = 0; i < len; i += 4)
        MF_TRY(utf32_append(cell, src + i, scratch));
    MF_TRY(mf_buf_finish(scratch));
    return mf_string_set(dst, scratch->data, scratch->len);
}

/* Walk the row-major output; `at` is the corresponding position in the file, whose first dimension
 * varies fastest in Fortran order. */
static mf_status decode_cells(const npy_cell *cell, bool fortran, const uint8_t *src,
                              mf_tensor *out)
{
    const int rank = out->shape.rank;
    int64_t index[MF_MAX_RANK] = { 0 }, stride[MF_MAX_RANK], at = 0;
    mf_buf scratch = { 0 };
    mf_status st = MF_OK;

    MF_ASSERT(rank >= 0);
    for (int d = 0; d < rank; d++)
        stride[d] =
            fortran ? mf_shape_span(&out->shape, 0, d) : mf_shape_span(&out->shape, d + 1, rank);
    for (int64_t i = 0; i < out->count; i++) {
        const uint8_t *from = src + (size_t)at * cell->bytes;

        if (cell->dtype == MF_DTYPE_STRING)
            MF_TRY_TO(done, string_cell(cell, from, &scratch, (mf_string *)out->data + i));
        else
            copy_cell(cell, from, (uint8_t *)out->data + (size_t)i * cell->bytes);
        for (int d = rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < out->shape.dims[d])
                break;
            at -= stride[d] * index[d];
            index[d] = 0;
        }
    }

done:
    mf_buf_deinit(&scratch);
    return st;
}

static mf_status decode_data(const npy_header *h, const npy_cell *cell, const uint8_t *data,
                             size_t len, mf_tensor *out)
{
    int64_t count, bytes;

    MF_TRY(mf_shape_count(&h->shape, &count));
    if (!mf_mul_i64(count, (int64_t)cell->bytes, &bytes) || (size_t)bytes != len)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy: %zu bytes of data for %lld elements of type '%s'",
                       len, (long long)count, h->descr);
    MF_TRY(mf_tensor_alloc(out, cell->dtype, &h->shape));
    if (cell->dtype == MF_DTYPE_STRING || cell->swap || (h->fortran && h->shape.rank > 1))
        MF_TRY(decode_cells(cell, h->fortran, data, out));
    else if (len > 0)
        memcpy(out->data, data, len);
    if (cell->dtype == MF_DTYPE_BOOL) {
        uint8_t *b = out->data;

        for (int64_t i = 0; i < count; i++)
            b[i] = b[i] != 0;
    }
    return MF_OK;
}

mf_status mf_npy_decode(const void *data, size_t len, mf_tensor *out)
{
    const uint8_t *p = data;
    size_t head, text;
    npy_header h = { 0 };
    npy_cell cell = { 0 };
    mf_status st;

    if (len < MAGIC_LEN + 4 || memcmp(p, magic, MAGIC_LEN) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "not a .npy file");
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "npy: version %d.%d is not supported", p[6], p[7]);
    head = p[6] == 1 ? 10 : 12;
    if (len < head)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy: the header is cut off");
    text = (size_t)p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        text |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (text > HEADER_MAX || text > len - head)
        return MF_FAIL(MF_INVALID_ARGUMENT, "npy: a header of %zu bytes is cut off or too long",
                       text);
    MF_TRY(npy_read_header((const char *)p + head, text, &h));
    MF_TRY(parse_descr(h.descr, &cell));
    st = decode_data(&h, &cell, p + head + text, len - head - text, out);
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}

/* ---- writing ---- */

/* "'<f4'", and the length of the longest string. */
static mf_status descr_of(const mf_tensor *t, char descr[DESCR_MAX + 1], size_t *width)
{
    const mf_string *strings = t->data;

    *width = 1; /* NumPy writes empty strings as S1, too */
    if (t->dtype == MF_DTYPE_STRING) {
        for (int64_t i = 0; i < t->count; i++) {
            if (strings[i].len > 0 && strings[i].data[strings[i].len - 1] == '\0')
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "npy: string %lld ends in a NUL byte, which the format drops",
                               (long long)i);
            if (strings[i].len > *width)
                *width = strings[i].len;
        }
        (void)snprintf(descr, DESCR_MAX + 1, "|S%zu", *width);
        return MF_OK;
    }
    for (int i = 0; i < MF_COUNT(kinds); i++) {
        if (kinds[i].dtype == t->dtype) {
            (void)snprintf(descr, DESCR_MAX + 1, "%c%c%zu", kinds[i].bytes == 1 ? '|' : '<',
                           kinds[i].kind, kinds[i].bytes);
            return MF_OK;
        }
    }
    return MF_FAIL(MF_UNIMPLEMENTED, "npy: tensors of type %s cannot be written",
                   mf_dtype_name(t->dtype));
}

/* 8 dimensions of 19 digits and a descr of 31 bytes fit in 512 bytes with padding. */
static size_t header_text(const mf_tensor *t, const char *descr, char text[512])
{
    const size_t prefix = 10;
    int n = snprintf(text, 512, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    int first = 0; /* digits of the first dimension */
    size_t len;

    for (int i = 0; i < t->shape.rank; i++) {
        const int digits = snprintf(text + n, 512 - (size_t)n, "%lld", (long long)t->shape.dims[i]);

        first = i == 0 ? digits : first;
        n += digits;
        if (i + 1 < t->shape.rank || t->shape.rank == 1)
            n += snprintf(text + n, 512 - (size_t)n, i + 1 < t->shape.rank ? ", " : ",");
    }
    n += snprintf(text + n, 512 - (size_t)n, "), }");
    if (t->shape.rank > 0)
        n += snprintf(text + n, 512 - (size_t)n, "%*s", GROWTH_DIGITS - first, "");
    len = (size_t)n + 1;
    for (size_t pad = ALIGN - (prefix + len) % ALIGN; pad > 0; pad--, len++)
        text[len - 1] = ' ';
    text[len - 1] = '\n';
    return len;
}

mf_status mf_npy_encode(const mf_tensor *t, mf_buf *out)
{
    char descr[DESCR_MAX + 1], text[512];
    size_t width, len;
    uint8_t head[4];

    MF_TRY(descr_of(t, descr, &width));
    len = header_text(t, descr, text);
    head[0] = 1;
    head[1] = 0;
    head[2] = (uint8_t)len;
    head[3] = (uint8_t)(len >> 8);
    mf_buf_bytes(out, magic, MAGIC_LEN);
    mf_buf_bytes(out, head, sizeof head);
    mf_buf_bytes(out, text, len);
    if (t->dtype != MF_DTYPE_STRING) {
        mf_buf_bytes(out, t->data, (size_t)t->count * mf_dtype_size(t->dtype));
        return mf_buf_finish(out);
    }
    for (int64_t i = 0; i < t->count && !out->failed; i++) {
        static const char zeros[256];
        const mf_string *s = (const mf_string *)t->data + i;

        mf_buf_bytes(out, s->data, s->len);
        for (size_t pad = width - s->len; pad > 0;) {
            const size_t n = pad < sizeof zeros ? pad : sizeof zeros;

            mf_buf_bytes(out, zeros, n);
            pad -= n;
        }
    }
    return mf_buf_finish(out);
}
