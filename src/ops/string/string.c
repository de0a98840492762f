/* SPDX-License-Identifier: Apache-2.0 */
/* string.c - joins, cuts and changes strings element by element. */
#include "ops/string/tensor_text.h"

#include <locale.h>
#include <wctype.h>

static bool string_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- StringStrip, StringLength ---- */

static mf_status strip(const mf_kernel *k, const mf_string *in, mf_string *out)
{
    size_t from = 0, to = in->len;

    (void)k;
    while (from < to && string_is_space(in->data[from]))
        from++;
    while (to > from && string_is_space(in->data[to - 1]))
        to--;
    return mf_string_set(out, mf_string_data(in) + from, to - from);
}

static mf_status strip_run(mf_kernel *k)
{
    return mf_string_map(k, strip);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static mf_status string_length_run(mf_kernel *k)
{
    const bool utf8 = strcmp(mf_node_string(k->node, "unit"), "UTF8_CHAR") == 0;
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const mf_string *s = &mf_strings(k->in[0])[i];
        size_t n = s->len;

        for (size_t j = 0; utf8 && j < s->len; j++)
            n -= is_continuation(s->data[j]);
        ((int32_t *)out->data)[i] = (int32_t)n;
    }
    return MF_OK;
}

/* ---- StringLower, StringUpper ---- */

typedef struct case_args {
    bool upper, utf8;
} case_args;

static mf_status case_prepare(mf_prepare *p)
{
    const char *encoding = mf_node_string(p->node, "encoding");
    case_args *args = MF_ARENA_NEW(p->arena, case_args);

    if (!args)
        return MF_NOMEM("a string op");
    args->upper = strcmp(p->node->op_name, "StringUpper") == 0;
    args->utf8 = strcmp(encoding, "utf-8") == 0;
    if (!args->utf8 && encoding[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "only utf-8 or '' (no encoding) is supported, received %.100s", encoding);
    p->state = args;
    return MF_OK;
}

/* The character at s, or -1 if it is invalid; *n is its number of bytes. */
static int32_t decode_utf8(const char *s, size_t len, size_t *n)
{
    const unsigned char c = (unsigned char)s[0];
    const size_t want = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
    int32_t v = want == 1 ? c : c & (0x3f >> (want ? want - 1 : 0));

    *n = 1;
    if (want == 0 || want > len || c > 0xf4)
        return -1;
    for (size_t i = 1; i < want; i++) {
        if (!is_continuation(s[i]))
            return -1;
        v = v << 6 | (s[i] & 0x3f);
    }
    *n = want;
    return v;
}

static void encode_utf8(uint32_t v, mf_buf *out)
{
    char s[4];
    const int n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;

    if (n == 1) {
        s[0] = (char)v;
    } else {
        for (int i = n - 1; i > 0; i--, v >>= 6)
            s[i] = (char)(0x80 | (v & 0x3f));
        s[0] = (char)(0xf00 >> n | v);
    }
    mf_buf_bytes(out, s, (size_t)n);
}

static mf_status unicode_case(const mf_string *in, bool upper, mf_string *out)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    mf_buf buf = { 0 };
    mf_status st;

    for (size_t i = 0, n; i < in->len; i += n) {
        const int32_t c = decode_utf8(in->data + i, in->len - i, &n);

        if (c < 0 || !locale)
            mf_buf_bytes(&buf, in->data + i, n);
        else if (c == 0xdf && upper) /* the one common letter whose upper case is longer */
            mf_buf_str(&buf, "SS");
        else
            encode_utf8(
                (uint32_t)(upper ? towupper_l((wint_t)c, locale) : towlower_l((wint_t)c, locale)),
                &buf);
    }
    if (locale)
        freelocale(locale);
    st = mf_string_take(out, &buf);
    mf_buf_deinit(&buf);
    return st;
}

static mf_status change_case(const mf_kernel *k, const mf_string *in, mf_string *out)
{
    const case_args *args = k->state;
    const char first = args->upper ? 'a' : 'A';

    if (args->utf8)
        return unicode_case(in, args->upper, out);
    MF_TRY(mf_string_set(out, mf_string_data(in), in->len));
    for (size_t i = 0; i < out->len; i++) {
        if (out->data[i] >= first && out->data[i] < first + 26)
            out->data[i] ^= 0x20;
    }
    return MF_OK;
}

static mf_status case_run(mf_kernel *k)
{
    return mf_string_map(k, change_case);
}

/* ---- StringJoin ---- */

static mf_status join_shape(const mf_shape *in, int n, mf_shape *out)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    *out = MF_SCALAR;
    for (int i = 0; i < n; i++) {
        if (in[i].rank == 0)
            continue;
        if (out->rank <= 0)
            *out = in[i];
        else if (!mf_shape_compatible(out, &in[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Input shapes do not match: %s vs. %s",
                           mf_shape_text(out, a), mf_shape_text(&in[i], b));
    }
    return MF_OK;
}

static mf_status join_infer(mf_infer *in)
{
    bool unknown = false;

    MF_TRY(join_shape(in->in, in->n_in, &in->out[0]));
    for (int i = 0; i < in->n_in; i++)
        unknown |= in->in[i].rank < 0;
    if (unknown && in->out[0].rank == 0)
        in->out[0] = MF_SHAPE_UNKNOWN;
    return MF_OK;
}

/* Element i of input j. */
static const mf_string *string_joined(const mf_kernel *k, int j, int64_t i)
{
    return &mf_strings(k->in[j])[k->in[j]->shape.rank ? i : 0];
}

/* The length is computed before memory is allocated. */
static mf_status join_one(const mf_kernel *k, const char *separator, int64_t i, mf_string *out)
{
    const size_t between = strlen(separator);
    int64_t len = 0;
    char *to;

    for (int j = 0; j < k->n_in; j++) {
        if (!mf_add_i64(len, (int64_t)(string_joined(k, j, i)->len + (j > 0 ? between : 0)), &len))
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "the joined string is too long");
    }
    MF_TRY(mf_string_new(out, len));
    MF_TRY(mf_stop_after(len));
    to = out->data;
    for (int j = 0; j < k->n_in && len > 0; j++) {
        const mf_string *s = string_joined(k, j, i);

        to = mempcpy(to, separator, j > 0 ? between : 0);
        to = mempcpy(to, mf_string_data(s), s->len);
    }
    return MF_OK;
}

static mf_status string_join_run(mf_kernel *k)
{
    const char *separator = mf_node_string(k->node, "separator");
    mf_shape shape = MF_SCALAR;
    mf_tensor *out;

    for (int i = 0; i < k->n_in; i++) {
        const mf_shape pair[2] = { shape, k->in[i]->shape };

        MF_TRY(join_shape(pair, 2, &shape));
    }
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; i < out->count; i++)
        MF_TRY(join_one(k, separator, i, &((mf_string *)out->data)[i]));
    return MF_OK;
}

/* ---- Substr ---- */

/* Byte offset of character number `n`, counted from `from`; len when there are fewer. */
static size_t skip_chars(const mf_string *s, size_t from, int64_t n, int64_t *left)
{
    while (n > 0 && from < s->len) {
        for (from++; from < s->len && is_continuation(s->data[from]); from++)
            ;
        n--;
    }
    *left = n;
    return from;
}

static mf_status string_cut(const mf_string *s, int64_t pos, int64_t len, bool utf8, int64_t index,
                            mf_string *out)
{
    int64_t n = (int64_t)s->len, left = 0;
    size_t from, to;

    for (size_t j = 0; utf8 && j < s->len; j++)
        n -= is_continuation(s->data[j]);
    if (pos < -n || pos > n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "pos %lld out of range for string b'%.*s' at index %lld", (long long)pos,
                       s->len > 100 ? 100 : (int)s->len, mf_string_data(s), (long long)index);
    if (pos < 0)
        pos += n;
    if (len < 0) /* as in TensorFlow: bytes up to the end, but no characters */
        len = utf8 ? 0 : n;
    if (len > n - pos)
        len = n - pos;
    from = utf8 ? skip_chars(s, 0, pos, &left) : (size_t)pos;
    to = utf8 ? skip_chars(s, from, len, &left) : from + (size_t)len;
    return mf_string_set(out, mf_string_data(s) + from, to - from);
}

static mf_status substr_infer(mf_infer *in)
{
    mf_shape args;

    MF_TRY(mf_shape_merge(&in->in[1], &in->in[2], &args));
    return mf_shape_broadcast(&in->in[0], &args, &in->out[0]);
}

/* Element of an input of this shape that broadcasts to element i of `out`. */
static int64_t broadcast_index(const mf_shape *out, const mf_shape *in, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int d = out->rank - 1, e = in->rank - 1; e >= 0; d--, e--) {
        if (in->dims[e] > 1)
            at += i % out->dims[d] * step;
        i /= out->dims[d];
        step *= in->dims[e];
    }
    return at;
}

static mf_status substr_run(mf_kernel *k)
{
    const bool utf8 = strcmp(mf_node_string(k->node, "unit"), "UTF8_CHAR") == 0;
    const mf_tensor *in = k->in[0], *pos = k->in[1], *len = k->in[2];
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_shape shape;
    mf_tensor *out;

    if (!mf_shape_equal(&pos->shape, &len->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "pos and len should have the same shape, got: %s vs. %s",
                       mf_shape_text(&pos->shape, a), mf_shape_text(&len->shape, b));
    MF_TRY(mf_shape_broadcast(&in->shape, &pos->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t s = broadcast_index(&shape, &in->shape, i);
        const int64_t p = broadcast_index(&shape, &pos->shape, i);

        MF_TRY(mf_stop_after(utf8 ? 1 + 3 * (int64_t)mf_strings(in)[s].len : 1));
        MF_TRY(string_cut(&mf_strings(in)[s], mf_tensor_int_at(pos, p), mf_tensor_int_at(len, p),
                          utf8, i, &((mf_string *)out->data)[i]));
    }
    return MF_OK;
}

/* ---- ShardedFilename, ShardedFilespec ---- */

static mf_status sharded_run(mf_kernel *k)
{
    char text[MF_SHAPE_TEXT];
    mf_buf buf = { 0 };
    const mf_string *base;
    mf_tensor *out;
    mf_status st;

    for (int i = 0; i < k->n_in; i++) {
        if (k->in[i]->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a scalar, got shape %s",
                           k->node->def->in[i].name, mf_shape_text(&k->in[i]->shape, text));
    }
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    base = &mf_strings(k->in[0])[0];
    mf_buf_bytes(&buf, mf_string_data(base), base->len);
    if (k->n_in == 3)
        mf_buf_printf(&buf, "-%05d", ((const int32_t *)k->in[1]->data)[0]);
    else
        mf_buf_str(&buf, "-?????");
    mf_buf_printf(&buf, "-of-%05d", ((const int32_t *)k->in[k->n_in - 1]->data)[0]);
    st = mf_string_take(out->data, &buf);
    mf_buf_deinit(&buf);
    return st;
}

#define STRING_OP(NAME, DEF, INFER, RUN, ...)                                                      \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = mf_grad_none, .run = RUN,                \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define CASE_OP(NAME)                                                                              \
    {                                                                                              \
        .name = NAME, .def = "(input:string) -> (output:string) {encoding:string=''}",             \
        .infer = mf_infer_same, .grad = mf_grad_none, .prepare = case_prepare, .run = case_run,    \
        .samples = MF_SAMPLES("str[3]{aB9,HeLLo,}", "str[2]{aB\xc3\xa9,Q} ; encoding='utf-8'",     \
                              "str[0]", "str[]", "str[1] ; encoding='latin' !fails")               \
    }

const mf_op mf_ops_string[] = {
    STRING_OP("StringStrip", "(input:string) -> (output:string) {}", mf_infer_same, strip_run,
              "str[3]{a,hello,}", "str[]", "str[0,2]"),
    STRING_OP("StringLength",
              "(input:string) -> (output:int32) {unit:string='BYTE' in ['BYTE','UTF8_CHAR']}",
              mf_infer_same, string_length_run, "str[3]{a,hello,}",
              "str[2]{a\xc3\xa9,b} ; unit='UTF8_CHAR'", "str[0]"),
    CASE_OP("StringLower"),
    CASE_OP("StringUpper"),
    STRING_OP("StringJoin", "(inputs:N*string) -> (output:string) {N:int>=0, separator:string=''}",
              join_infer, string_join_run, "str[2]{a,b} str[2]{c,d}",
              "str[]{x} str[2,2] str[2,2] ; separator='-'", "str[0] str[0]", "str[]{q}",
              "str[2] str[3] !fails"),
    STRING_OP("Substr",
              "(input:string, pos:T, len:T) -> (output:string) {T:type in index, "
              "unit:string='BYTE' in ['BYTE','UTF8_CHAR']}",
              substr_infer, substr_run, "str[2]{hello,world} i32[]{1} i32[]{3}",
              "str[2]{hello,world} i64[2]{-2,0} i64[2]{9,2}",
              "str[1,2]{hello,world} i32[2,1]{1,2} i32[2,1]{2,1}",
              "str[1]{h\xc3\xa9llo} i32[]{1} i32[]{2} ; unit='UTF8_CHAR'",
              "str[1]{abc} i32[]{4} i32[]{1} !fails", "str[1]{abc} i32[]{-4} i32[]{1} !fails"),
    STRING_OP("ShardedFilename",
              "(basename:string, shard:int32, num_shards:int32) -> (filename:string) {}",
              mf_infer_scalar, sharded_run, "str[]{a/b} i32[]{3} i32[]{12}",
              "str[]{x} i32[]{0} i32[]{123456}", "str[1]{a} i32[]{3} i32[]{12} !fails"),
    STRING_OP("ShardedFilespec", "(basename:string, num_shards:int32) -> (filename:string) {}",
              mf_infer_scalar, sharded_run, "str[]{a/b} i32[]{12}"),
    { 0 },
};
