/* SPDX-License-Identifier: Apache-2.0 */
/* attr.c - attribute values: parsing, printing, comparison, copies. */
#include "graph/attr.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [MF_ATTR_NONE] = "none",   [MF_ATTR_STRING] = "string",
    [MF_ATTR_INT] = "int",     [MF_ATTR_FLOAT] = "float",
    [MF_ATTR_BOOL] = "bool",   [MF_ATTR_TYPE] = "type",
    [MF_ATTR_SHAPE] = "shape", [MF_ATTR_TENSOR] = "tensor",
    [MF_ATTR_FUNC] = "func",   [MF_ATTR_PLACEHOLDER] = "placeholder",
};

const char *mf_attr_kind_name(mf_attr_kind kind)
{
    return kind_names[kind];
}

bool mf_attr_kind_find(const char *text, size_t len, mf_attr_kind *kind, bool *is_list)
{
    *is_list = len > 6 && memcmp(text, "list(", 5) == 0 && text[len - 1] == ')';
    if (*is_list) {
        text += 5;
        len -= 6;
    }
    for (int k = MF_ATTR_STRING; k <= MF_ATTR_FUNC; k++) {
        if (strlen(kind_names[k]) == len && memcmp(kind_names[k], text, len) == 0) {
            *kind = (mf_attr_kind)k;
            return true;
        }
    }
    return false;
}

/* ---- reading ---- */

static void skip_space(const char **p)
{
    while (isspace((unsigned char)**p))
        (*p)++;
}

static mf_status bad_value(const char *at, mf_attr_kind kind)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "expected a value of type %s at \"%.40s\"",
                   kind_names[kind], at);
}

static size_t word_len(const char *p)
{
    size_t n = 0;

    while (isalnum((unsigned char)p[n]) || (n > 0 && strchr("_./-", p[n]) && p[n]) ||
           (n == 0 && p[n] == '_'))
        n++;
    return n;
}

static mf_status parse_string(const char **p, mf_arena *arena, mf_bytes *out)
{
    const char quote = **p;
    const char *start;
    char *data;
    size_t n = 0;

    if (quote != '\'' && quote != '"')
        return bad_value(*p, MF_ATTR_STRING);
    start = ++*p;
    while (**p && **p != quote)
        *p += **p == '\\' && (*p)[1] ? 2 : 1;
    if (**p != quote)
        return MF_FAIL(MF_INVALID_ARGUMENT, "unterminated string at \"%.40s\"", start - 1);
    data = mf_arena_alloc(arena, *p - start + 1, 1);
    if (!data)
        return MF_NOMEM("an attribute");
    for (const char *s = start; s < *p; s++) {
        if (*s == '\\') {
            s++;
            data[n++] = *s == 'n' ? '\n' : *s == 't' ? '\t' : *s;
        } else {
            data[n++] = *s;
        }
    }
    ++*p;
    *out = (mf_bytes){ data, n };
    return MF_OK;
}

static mf_status attr_parse_int(const char **p, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(*p, &end, 10);
    if (end == *p || errno != 0)
        return bad_value(*p, MF_ATTR_INT);
    *p = end;
    return MF_OK;
}

static mf_status attr_parse_float(const char **p, float *out)
{
    char *end;

    *out = strtof(*p, &end);
    if (end == *p)
        return bad_value(*p, MF_ATTR_FLOAT);
    *p = end;
    return MF_OK;
}

static mf_status parse_bool(const char **p, int64_t *out)
{
    const size_t n = word_len(*p);

    if (n == 4 && strncasecmp(*p, "true", 4) == 0)
        *out = 1;
    else if (n == 5 && strncasecmp(*p, "false", 5) == 0)
        *out = 0;
    else
        return bad_value(*p, MF_ATTR_BOOL);
    *p += n;
    return MF_OK;
}

static mf_status attr_parse_type(const char **p, int64_t *out)
{
    const size_t n = word_len(*p);
    const mf_dtype t = mf_dtype_find(*p, n);

    if (t == MF_DTYPE_INVALID)
        return bad_value(*p, MF_ATTR_TYPE);
    *out = (int64_t)t;
    *p += n;
    return MF_OK;
}

/* [2,?,3] */
static mf_status parse_dims(const char **p, mf_shape *out)
{
    if (**p != '[')
        return bad_value(*p, MF_ATTR_SHAPE);
    ++*p;
    *out = MF_SCALAR;
    for (skip_space(p); **p != ']'; skip_space(p)) {
        int64_t dim = MF_UNKNOWN_DIM;

        if (**p == '?')
            ++*p;
        else
            MF_TRY(attr_parse_int(p, &dim));
        if (out->rank == MF_MAX_RANK || dim < -1)
            return bad_value(*p, MF_ATTR_SHAPE);
        out->dims[out->rank++] = dim;
        skip_space(p);
        if (**p == ',')
            ++*p;
        else if (**p != ']')
            return bad_value(*p, MF_ATTR_SHAPE);
    }
    ++*p;
    return MF_OK;
}

/* shape? | shape[2,?,3] */
static mf_status attr_parse_shape(const char **p, mf_shape *out)
{
    if (strncmp(*p, "shape", 5) != 0)
        return bad_value(*p, MF_ATTR_SHAPE);
    *p += 5;
    if (**p == '?') {
        ++*p;
        *out = MF_SHAPE_UNKNOWN;
        return MF_OK;
    }
    return parse_dims(p, out);
}

/* uint8[4]{255,0,0,255}, of plain numbers. Its elements are in the arena, not in counted storage.
 */
static mf_status parse_tensor(const char **p, mf_arena *arena, mf_tensor **out)
{
    mf_shape shape;
    int64_t type = 0, count;

    MF_TRY(attr_parse_type(p, &type));
    if (**p != '[' || !mf_dtype_is_plain((mf_dtype)type))
        return bad_value(*p, MF_ATTR_TENSOR);
    MF_TRY(parse_dims(p, &shape));
    MF_TRY(mf_shape_count(&shape, &count));
    *out = MF_ARENA_NEW(arena, mf_tensor);
    if (!*out || count > 1 << 20)
        return MF_NOMEM("an attribute");
    **out = (mf_tensor){ .dtype = (mf_dtype)type, .shape = shape, .count = count };
    (*out)->data = mf_arena_alloc(arena, count, mf_dtype_size((mf_dtype)type));
    if (!(*out)->data)
        return MF_NOMEM("an attribute");
    if (**p != '{')
        return bad_value(*p, MF_ATTR_TENSOR);
    ++*p;
    for (int64_t i = 0; i < (*out)->count; i++) {
        char *end;

        mf_tensor_put(*out, i, strtod(*p, &end));
        if (end == *p)
            return bad_value(*p, MF_ATTR_TENSOR);
        *p = end + (*end == ',');
    }
    if (**p != '}')
        return bad_value(*p, MF_ATTR_TENSOR);
    ++*p;
    return MF_OK;
}

static mf_status parse_func(const char **p, mf_arena *arena, mf_func_ref *out)
{
    size_t n;

    if (**p != '@' || (n = word_len(*p + 1)) == 0)
        return bad_value(*p, MF_ATTR_FUNC);
    *out = (mf_func_ref){ .name = mf_arena_strndup(arena, *p + 1, n) };
    *p += n + 1;
    return out->name ? MF_OK : MF_NOMEM("an attribute");
}

static mf_status attr_parse_single(const char **p, mf_attr_kind kind, mf_arena *arena, mf_attr *out)
{
    int64_t v = 0;

    *out = (mf_attr){ .kind = kind, .n = 1 };
    switch (kind) {
    case MF_ATTR_STRING:
        return parse_string(p, arena, &out->s);
    case MF_ATTR_INT:
        return attr_parse_int(p, &out->i);
    case MF_ATTR_FLOAT:
        return attr_parse_float(p, &out->f);
    case MF_ATTR_BOOL:
        MF_TRY(parse_bool(p, &v));
        out->b = v != 0;
        return MF_OK;
    case MF_ATTR_TYPE:
        MF_TRY(attr_parse_type(p, &v));
        out->type = (mf_dtype)v;
        return MF_OK;
    case MF_ATTR_SHAPE:
        out->shape = MF_ARENA_NEW(arena, mf_shape);
        return out->shape ? attr_parse_shape(p, out->shape) : MF_NOMEM("an attribute");
    case MF_ATTR_FUNC:
        out->func = MF_ARENA_NEW(arena, mf_func_ref);
        return out->func ? parse_func(p, arena, out->func) : MF_NOMEM("an attribute");
    case MF_ATTR_TENSOR:
        return parse_tensor(p, arena, &out->tensor);
    default:
        return bad_value(*p, kind);
    }
}

/* Store a parsed single value as element i of a list with room for it. */
static void list_put(mf_attr *list, int64_t i, const mf_attr *one)
{
    switch (list->kind) {
    case MF_ATTR_STRING:
        list->strings[i] = one->s;
        break;
    case MF_ATTR_FLOAT:
        list->floats[i] = one->f;
        break;
    case MF_ATTR_SHAPE:
        list->shapes[i] = *one->shape;
        break;
    case MF_ATTR_FUNC:
        list->funcs[i] = *one->func;
        break;
    case MF_ATTR_BOOL:
        list->ints[i] = one->b;
        break;
    case MF_ATTR_TYPE:
        list->ints[i] = (int64_t)one->type;
        break;
    default:
        list->ints[i] = one->i;
        break;
    }
}

static size_t element_size(mf_attr_kind kind)
{
    switch (kind) {
    case MF_ATTR_STRING:
        return sizeof(mf_bytes);
    case MF_ATTR_FLOAT:
        return sizeof(float);
    case MF_ATTR_SHAPE:
        return sizeof(mf_shape);
    case MF_ATTR_FUNC:
        return sizeof(mf_func_ref);
    case MF_ATTR_TENSOR:
        return sizeof(mf_tensor *);
    default:
        return sizeof(int64_t);
    }
}

mf_status mf_attr_parse(const char **text, mf_attr_kind kind, bool is_list, mf_arena *arena,
                        mf_attr *out)
{
    int64_t cap = 1;

    skip_space(text);
    if (!is_list)
        return attr_parse_single(text, kind, arena, out);
    if (**text != '[')
        return MF_FAIL(MF_INVALID_ARGUMENT, "expected a list of %s at \"%.40s\"", kind_names[kind],
                       *text);
    for (const char *c = *text; *c && *c != '\0'; c++)
        cap += *c == ','; /* an upper bound */
    *out = (mf_attr){ .kind = kind, .is_list = true };
    out->ints = mf_arena_alloc(arena, cap, element_size(kind));
    if (!out->ints)
        return MF_NOMEM("an attribute");
    ++*text;
    for (skip_space(text); **text != ']'; skip_space(text)) {
        mf_attr one;

        MF_TRY(attr_parse_single(text, kind, arena, &one));
        list_put(out, out->n++, &one);
        skip_space(text);
        if (**text == ',')
            ++*text;
        else if (**text != ']')
            return MF_FAIL(MF_INVALID_ARGUMENT, "expected ',' or ']' at \"%.40s\"", *text);
    }
    ++*text;
    return MF_OK;
}

/* ---- writing ---- */

static void attr_print_float(float f, mf_buf *out)
{
    if (isnan(f))
        mf_buf_str(out, "nan");
    else if (isinf(f))
        mf_buf_str(out, f < 0 ? "-inf" : "inf");
    else
        mf_buf_printf(out, "%.9g", (double)f);
}

static void print_string(mf_bytes s, mf_buf *out)
{
    mf_buf_str(out, "'");
    for (size_t i = 0; i < s.len; i++) {
        const char c = s.data[i];

        if (c == '\'' || c == '\\')
            mf_buf_str(out, "\\");
        if (c == '\n')
            mf_buf_str(out, "\\n");
        else
            mf_buf_bytes(out, &c, 1);
    }
    mf_buf_str(out, "'");
}

static void print_shape(const mf_shape *s, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_printf(out, "shape%s", s->rank < 0 ? "?" : mf_shape_text(s, text));
}

/* In the syntax of parse_tensor(), if it is small and of numbers. */
static void print_tensor(const mf_tensor *t, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    if (t->count > 16 || !mf_dtype_is_plain(t->dtype) || mf_dtype_is_complex(t->dtype)) {
        mf_tensor_print(t, 4, out);
        return;
    }
    mf_buf_printf(out, "%s%s{", mf_dtype_name(t->dtype), mf_shape_text(&t->shape, text));
    for (int64_t i = 0; i < t->count; i++)
        mf_buf_printf(out, "%s%.9g", i ? "," : "", mf_tensor_float_at(t, i));
    mf_buf_str(out, "}");
}

static void attr_print_element(const mf_attr *a, int64_t i, mf_buf *out)
{
    const bool l = a->is_list;

    switch (a->kind) {
    case MF_ATTR_STRING:
        print_string(l ? a->strings[i] : a->s, out);
        break;
    case MF_ATTR_INT:
        mf_buf_printf(out, "%" PRId64, l ? a->ints[i] : a->i);
        break;
    case MF_ATTR_FLOAT:
        attr_print_float(l ? a->floats[i] : a->f, out);
        break;
    case MF_ATTR_BOOL:
        mf_buf_str(out, (l ? a->ints[i] != 0 : a->b) ? "true" : "false");
        break;
    case MF_ATTR_TYPE:
        mf_buf_str(out, mf_dtype_name(l ? (mf_dtype)a->ints[i] : a->type));
        break;
    case MF_ATTR_SHAPE:
        print_shape(l ? &a->shapes[i] : a->shape, out);
        break;
    case MF_ATTR_TENSOR:
        print_tensor(l ? a->tensors[i] : a->tensor, out);
        break;
    case MF_ATTR_FUNC:
        mf_buf_printf(out, "@%s", l ? a->funcs[i].name : a->func->name);
        break;
    case MF_ATTR_PLACEHOLDER:
        mf_buf_printf(out, "$%s", a->s.data);
        break;
    case MF_ATTR_NONE:
        break;
    }
}

void mf_attr_print(const mf_attr *attr, mf_buf *out)
{
    if (!attr->is_list) {
        attr_print_element(attr, 0, out);
        return;
    }
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < attr->n; i++) {
        if (i > 0)
            mf_buf_str(out, ",");
        attr_print_element(attr, i, out);
    }
    mf_buf_str(out, "]");
}

/* ---- comparing and copying ---- */

static bool bytes_equal(mf_bytes a, mf_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool tensor_equal(const mf_tensor *a, const mf_tensor *b)
{
    if (a->dtype != b->dtype || !mf_shape_equal(&a->shape, &b->shape))
        return false;
    if (a->data == b->data)
        return true;
    if (mf_dtype_is_plain(a->dtype))
        return memcmp(a->data, b->data, (size_t)a->count * mf_dtype_size(a->dtype)) == 0;
    if (a->dtype != MF_DTYPE_STRING)
        return false;
    for (int64_t i = 0; i < a->count; i++) {
        const mf_string *x = (const mf_string *)a->data + i, *y = (const mf_string *)b->data + i;

        if (!bytes_equal((mf_bytes){ x->data, x->len }, (mf_bytes){ y->data, y->len }))
            return false;
    }
    return true;
}

static bool func_equal(const mf_func_ref *a, const mf_func_ref *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_attrs != b->n_attrs)
        return false;
    for (int i = 0; i < a->n_attrs; i++) {
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 ||
            !mf_attr_equal(&a->attrs[i].value, &b->attrs[i].value))
            return false;
    }
    return true;
}

static uint32_t float_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static bool element_equal(const mf_attr *a, const mf_attr *b, int64_t i)
{
    const bool l = a->is_list;

    switch (a->kind) {
    case MF_ATTR_STRING:
    case MF_ATTR_PLACEHOLDER:
        return l ? bytes_equal(a->strings[i], b->strings[i]) : bytes_equal(a->s, b->s);
    case MF_ATTR_INT:
        return l ? a->ints[i] == b->ints[i] : a->i == b->i;
    case MF_ATTR_FLOAT: /* bitwise: NaN equals itself, -0 differs from 0 */
        return float_bits(l ? a->floats[i] : a->f) == float_bits(l ? b->floats[i] : b->f);
    case MF_ATTR_BOOL:
        return l ? a->ints[i] == b->ints[i] : a->b == b->b;
    case MF_ATTR_TYPE:
        return l ? a->ints[i] == b->ints[i] : a->type == b->type;
    case MF_ATTR_SHAPE:
        return mf_shape_equal(l ? &a->shapes[i] : a->shape, l ? &b->shapes[i] : b->shape);
    case MF_ATTR_TENSOR:
        return tensor_equal(l ? a->tensors[i] : a->tensor, l ? b->tensors[i] : b->tensor);
    case MF_ATTR_FUNC:
        return func_equal(l ? &a->funcs[i] : a->func, l ? &b->funcs[i] : b->func);
    case MF_ATTR_NONE:
        return true;
    }
    return false;
}

bool mf_attr_equal(const mf_attr *a, const mf_attr *b)
{
    if (a->is_list != b->is_list || a->n != b->n)
        return false;
    if (a->is_list && a->n == 0)
        return true;
    if (a->kind != b->kind)
        return false;
    for (int64_t i = 0; i < a->n; i++) {
        if (!element_equal(a, b, i))
            return false;
    }
    return true;
}

static mf_status copy_bytes(mf_bytes *s, mf_arena *arena)
{
    s->data = mf_arena_strndup(arena, s->data ? s->data : "", s->len);
    return s->data ? MF_OK : MF_NOMEM("an attribute");
}

static mf_status copy_func(mf_func_ref *f, mf_arena *arena)
{
    mf_named_attr *attrs = MF_ARENA_ARRAY(arena, mf_named_attr, f->n_attrs);

    f->name = mf_arena_strdup(arena, f->name);
    if (!f->name || !attrs)
        return MF_NOMEM("an attribute");
    for (int i = 0; i < f->n_attrs; i++) {
        attrs[i].name = mf_arena_strdup(arena, f->attrs[i].name);
        if (!attrs[i].name)
            return MF_NOMEM("an attribute");
        MF_TRY(mf_attr_copy(&f->attrs[i].value, arena, &attrs[i].value));
    }
    f->attrs = attrs;
    return MF_OK;
}

static mf_status attr_copy_list(mf_attr *a, mf_arena *arena)
{
    const size_t size = element_size(a->kind);
    void *copy = mf_arena_alloc(arena, a->n, size);

    if (!copy)
        return MF_NOMEM("an attribute");
    if (a->n > 0)
        memcpy(copy, a->ints, (size_t)a->n * size);
    a->ints = copy;
    for (int64_t i = 0; i < a->n; i++) {
        if (a->kind == MF_ATTR_STRING)
            MF_TRY(copy_bytes(&a->strings[i], arena));
        else if (a->kind == MF_ATTR_FUNC)
            MF_TRY(copy_func(&a->funcs[i], arena));
    }
    return MF_OK;
}

mf_status mf_attr_copy(const mf_attr *src, mf_arena *arena, mf_attr *out)
{
    mf_attr a = *src;

    if (a.is_list) {
        MF_TRY(attr_copy_list(&a, arena));
    } else if (a.kind == MF_ATTR_STRING || a.kind == MF_ATTR_PLACEHOLDER) {
        MF_TRY(copy_bytes(&a.s, arena));
    } else if (a.kind == MF_ATTR_SHAPE) {
        a.shape = MF_ARENA_NEW(arena, mf_shape);
        if (!a.shape)
            return MF_NOMEM("an attribute");
        *a.shape = *src->shape;
    } else if (a.kind == MF_ATTR_FUNC) {
        a.func = MF_ARENA_NEW(arena, mf_func_ref);
        if (!a.func)
            return MF_NOMEM("an attribute");
        *a.func = *src->func;
        MF_TRY(copy_func(a.func, arena));
    }
    *out = a;
    return MF_OK;
}
