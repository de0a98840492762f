/* SPDX-License-Identifier: Apache-2.0 */
/* parse_example.c - parses serialized tf.Examples into tensors, for ParseExample and related ops.
 */
#include "ops/io/parse_example.h"

#include "ops/string/tensor_text.h"

#include <stdio.h>

static bool parse_example_is_single(const mf_parse *p)
{
    return p->serialized->shape.rank == 0;
}

/* ---- decoding ---- */

static bool parse_example_read_varint(const unsigned char **at, const unsigned char *end,
                                      uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char b = *(*at)++;

        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

/* TensorFlow ignores an unknown field whose length exceeds the message. Returns the length up to
 * such a field. */
static size_t without_overrun(const mf_string *s)
{
    const unsigned char *at = (const unsigned char *)s->data, *end = at + s->len;
    enum { FEATURES = 1 };

    while (at < end) {
        const unsigned char *field = at;
        uint64_t tag, len;

        if (!parse_example_read_varint(&at, end, &tag))
            break;
        if ((tag & 7) == 0 || (tag & 7) == 2) {
            if (!parse_example_read_varint(&at, end, &len))
                break;
        } else if ((tag & 7) == 5 || (tag & 7) == 1) {
            len = (tag & 7) == 5 ? 4 : 8;
        } else {
            break;
        }
        if ((tag & 7) == 0)
            continue;
        if (len > (uint64_t)(end - at))
            return (tag & 7) == 2 && tag >> 3 != FEATURES ? (size_t)((const char *)field - s->data)
                                                          : s->len;
        at += len;
    }
    return s->len;
}

/* ---- what is wrong with a feature ---- */

static const char *parse_example_name_of(const mf_parse *p, int64_t i)
{
    const mf_string *s = p->names && i < p->names->count ? mf_strings(p->names) + i : NULL;
    const char *name = s ? mf_arena_strndup(p->arena, mf_string_data(s), s->len) : NULL;

    return name ? name : "<unknown>";
}

/* The prefix of every message: "Name: a, Key: b, Index: 3.  "; for a single example "Key: b.  ". */
static const char *parse_example_place(const mf_parse *p, const mf_column *c, int64_t i,
                                       char text[512])
{
    if (parse_example_is_single(p))
        (void)snprintf(text, 512, "Key: %.200s.  ", c->key);
    else
        (void)snprintf(text, 512, "Name: %.200s, Key: %.200s, Index: %lld.  ",
                       parse_example_name_of(p, i), c->key, (long long)i);
    return text;
}

static mf_status wrong_type(const mf_parse *p, const mf_column *c, int64_t i, mf_dtype type)
{
    char text[512];

    if (parse_example_is_single(p))
        return MF_FAIL(
            MF_INVALID_ARGUMENT, "%sData types don't match. Data type: %s but expected type: %s",
            parse_example_place(p, c, i, text), mf_dtype_name(type), mf_dtype_name(c->type));
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%sData types don't match. Expected type: %s, Actual type: %s",
                   parse_example_place(p, c, i, text), mf_dtype_name(c->type), mf_dtype_name(type));
}

static mf_status is_required(const mf_parse *p, const mf_column *c, int64_t i)
{
    if (parse_example_is_single(p))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Feature: %.200s (data type: %s) is required but could not be found.",
                       c->key, mf_dtype_name(c->type));
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Name: %.200s, Feature: %.200s (data type: %s) is required but could not be "
                   "found.",
                   parse_example_name_of(p, i), c->key, mf_dtype_name(c->type));
}

static mf_status wrong_count(const mf_parse *p, const mf_column *c, int64_t i, int64_t n,
                             int64_t want)
{
    const char *list = c->type == MF_DTYPE_I64   ? "int64_list"
                       : c->type == MF_DTYPE_F32 ? "float_list"
                                                 : "bytes_list";
    char text[512], shape[MF_SHAPE_TEXT];

    if (parse_example_is_single(p) && n > want)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%sCan't parse serialized Example: Some %s slice was not parsed.",
                       parse_example_place(p, c, i, text), list);
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%sNumber of %s values != expected.  Values size: %lld but output shape: %s",
                   parse_example_place(p, c, i, text), mf_dtype_name(c->type), (long long)n,
                   mf_shape_text(&c->shape, shape));
}

/* The feature of example i, of the right type; NULL: missing. */
static mf_status parse_example_find(const mf_parse *p, const mf_column *c, int64_t i,
                                    const mf_feature **out)
{
    const mf_feature *f;

    MF_TRY(mf_stop_after(50 + 10 * p->examples[i].n));
    f = mf_example_find(&p->examples[i], c->key);
    *out = f && f->type != MF_DTYPE_INVALID ? f : NULL;
    return *out && f->type != c->type ? wrong_type(p, c, i, f->type) : MF_OK;
}

static bool parse_example_is_open(const mf_column *c)
{
    return c->shape.rank > 0 && c->shape.dims[0] < 0;
}

/* Number of values of one example, or of one row of a column with an unknown first dimension. */
static int64_t stride_of(const mf_column *c)
{
    return mf_shape_span(&c->shape, parse_example_is_open(c) ? 1 : 0, c->shape.rank);
}

static mf_status parse_example_check_dense(const mf_parse *p, const mf_column *c, int64_t i)
{
    const int64_t n = stride_of(c);
    char text[512], shape[MF_SHAPE_TEXT];
    const mf_feature *f;

    MF_TRY(parse_example_find(p, c, i, &f));
    if (!f)
        return !parse_example_is_open(c) && c->missing->count == 0 && n > 0 ? is_required(p, c, i)
                                                                            : MF_OK;
    if (!parse_example_is_open(c))
        return f->n != n ? wrong_count(p, c, i, f->n, n) : MF_OK;
    if (f->n % n != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%sNumber of %s values is not a multiple of stride length. Saw %lld values "
                       "but output shape is: %s",
                       parse_example_place(p, c, i, text), mf_dtype_name(c->type), (long long)f->n,
                       mf_shape_text(&c->shape, shape));
    return MF_OK;
}

static mf_status check_example(const mf_parse *p, int64_t i)
{
    const mf_feature *f;

    for (int d = 0; d < p->n_dense; d++)
        MF_TRY(parse_example_check_dense(p, &p->dense[d], i));
    for (int s = 0; s < p->n_sparse; s++)
        MF_TRY(parse_example_find(p, &p->sparse[s], i, &f));
    for (int r = 0; r < p->n_ragged; r++)
        MF_TRY(parse_example_find(p, &p->ragged[r], i, &f));
    return MF_OK;
}

/* Sequentially, so that the first invalid example is reported. */
static mf_status parse_example_decode(mf_parse *p)
{
    const mf_string *messages = mf_strings(p->serialized);

    p->examples = MF_ARENA_ARRAY(p->arena, mf_example, p->serialized->count + 1);
    if (!p->examples)
        return MF_NOMEM("examples");
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_string *s = &messages[i];

        if (mf_example_decode(mf_string_data(s), s->len ? without_overrun(s) : 0, p->arena,
                              &p->examples[i]) != MF_OK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Could not parse example input, value: '%.*s'",
                           (int)(s->len < 200 ? s->len : 200), mf_string_data(s));
        MF_TRY(check_example(p, i));
    }
    return MF_OK;
}

/* ---- values ---- */

static mf_status parse_example_put_values(mf_tensor *out, int64_t at, const mf_feature *f)
{
    if (f->type == MF_DTYPE_F32 && f->n > 0)
        memcpy((float *)out->data + at, f->floats, (size_t)f->n * sizeof(float));
    else if (f->type == MF_DTYPE_I64 && f->n > 0)
        memcpy((int64_t *)out->data + at, f->ints, (size_t)f->n * sizeof(int64_t));
    for (int64_t i = 0; f->type == MF_DTYPE_STRING && i < f->n; i++)
        MF_TRY(
            mf_string_set((mf_string *)out->data + at + i, f->strings[i].data, f->strings[i].len));
    return MF_OK;
}

/* Total number of values, and maximum per example. */
static mf_status parse_example_count_values(const mf_parse *p, const mf_column *c, int64_t *total,
                                            int64_t *most)
{
    *total = *most = 0;
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_feature *f;

        MF_TRY(parse_example_find(p, c, i, &f));
        *total += f ? f->n : 0;
        if (f && f->n > *most)
            *most = f->n;
    }
    return MF_OK;
}

/* All values, example by example. */
static mf_status parse_example_put_all(const mf_parse *p, const mf_column *c, int output,
                                       int64_t total)
{
    mf_tensor *out;
    int64_t at = 0;

    MF_TRY(mf_kernel_out(p->k, output, &MF_SHAPE(total), &out));
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_feature *f;

        MF_TRY(parse_example_find(p, c, i, &f));
        if (f)
            MF_TRY(parse_example_put_values(out, at, f));
        at += f ? f->n : 0;
    }
    return MF_OK;
}

/* ---- sparse columns ---- */

static mf_status parse_example_put_indices(const mf_parse *p, const mf_column *c, int output,
                                           int64_t total)
{
    const int width = parse_example_is_single(p) ? 1 : 2;
    mf_tensor *out;
    int64_t *to;

    MF_TRY(mf_kernel_out(p->k, output, &MF_SHAPE(total, width), &out));
    to = out->data;
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_feature *f;

        MF_TRY(parse_example_find(p, c, i, &f));
        for (int64_t k = 0; f && k < f->n; k++) {
            if (width == 2)
                *to++ = i;
            *to++ = k;
        }
    }
    return MF_OK;
}

static mf_status put_sparse(const mf_parse *p, int s)
{
    const mf_column *c = &p->sparse[s];
    const int width = parse_example_is_single(p) ? 1 : 2;
    int64_t total, most;
    mf_tensor *shape;

    MF_TRY(parse_example_count_values(p, c, &total, &most));
    MF_TRY(parse_example_put_indices(p, c, s, total));
    MF_TRY(parse_example_put_all(p, c, p->n_sparse + s, total));
    MF_TRY(mf_kernel_out(p->k, 2 * p->n_sparse + s, &MF_SHAPE(width), &shape));
    *(int64_t *)shape->data = p->serialized->count;
    ((int64_t *)shape->data)[width - 1] = most;
    return MF_OK;
}

/* ---- ragged columns ---- */

static mf_status put_ragged(const mf_parse *p, int r)
{
    const mf_column *c = &p->ragged[r];
    const int output = 3 * p->n_sparse + p->n_dense + r;
    int64_t total, most, at = 0;
    mf_tensor *splits;

    MF_TRY(parse_example_count_values(p, c, &total, &most));
    MF_TRY(parse_example_put_all(p, c, output, total));
    MF_TRY(mf_kernel_out(p->k, output + p->n_ragged,
                         &MF_SHAPE(parse_example_is_single(p) ? 0 : p->serialized->count + 1),
                         &splits));
    for (int64_t i = 0; i < splits->count; i++) {
        const mf_feature *f = NULL;

        if (splits->dtype == MF_DTYPE_I32)
            ((int32_t *)splits->data)[i] = (int32_t)at;
        else
            ((int64_t *)splits->data)[i] = at;
        if (i + 1 < splits->count)
            MF_TRY(parse_example_find(p, c, i, &f));
        at += f ? f->n : 0;
    }
    return MF_OK;
}

/* ---- dense columns ---- */

/* Prepends the number of examples to the shape of one, unless there is a single example. */
static mf_shape with_batch(const mf_parse *p, const mf_shape *one)
{
    mf_shape s = { .rank = one->rank + 1, .dims = { p->serialized->count } };

    if (parse_example_is_single(p))
        return *one;
    memcpy(s.dims + 1, one->dims, (size_t)one->rank * sizeof(int64_t));
    return s;
}

static mf_status put_fixed(const mf_parse *p, const mf_column *c, int output)
{
    const mf_shape shape = with_batch(p, &c->shape);
    const int64_t n = stride_of(c);
    mf_tensor *out;

    MF_TRY(mf_kernel_out(p->k, output, &shape, &out));
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_feature *f;

        MF_TRY(parse_example_find(p, c, i, &f));
        MF_TRY(f ? parse_example_put_values(out, i * n, f)
                 : mf_cells_copy(c->type, out->data, i * n, c->missing->data, 0, n));
    }
    return MF_OK;
}

/* As many rows as the longest example has; the others are padded. */
static mf_status put_open(const mf_parse *p, const mf_column *c, int output)
{
    mf_shape one = c->shape, shape;
    int64_t total, most;
    mf_tensor *out;

    MF_TRY(parse_example_count_values(p, c, &total, &most));
    one.dims[0] = most / stride_of(c);
    shape = with_batch(p, &one);
    MF_TRY(mf_kernel_out(p->k, output, &shape, &out));
    for (int64_t i = 0; i < p->serialized->count; i++) {
        const mf_feature *f;

        MF_TRY(parse_example_find(p, c, i, &f));
        if (f)
            MF_TRY(parse_example_put_values(out, i * most, f));
        for (int64_t at = f ? f->n : 0; at < most; at++)
            MF_TRY(mf_cells_copy(c->type, out->data, i * most + at, c->missing->data, 0, 1));
    }
    return MF_OK;
}

static mf_status parse_example_put_dense(const mf_parse *p, int d)
{
    const mf_column *c = &p->dense[d];
    const int output = 3 * p->n_sparse + d;

    return parse_example_is_open(c) ? put_open(p, c, output) : put_fixed(p, c, output);
}

/* Checks that the shape and the default value can be output. */
static mf_status parse_example_check_column(const mf_column *c, int d)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (c->shape.rank < 0 || c->shape.rank >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "dense_shapes[%d] has no known rank below %d", d,
                       MF_MAX_RANK);
    for (int i = 1; i < c->shape.rank; i++) {
        if (c->shape.dims[i] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "of dense_shapes[%d] only the first dimension may be unknown", d);
    }
    if (parse_example_is_open(c) && (stride_of(c) == 0 || c->missing->count != 1))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "dense_shapes[%d] is a variable length shape: rows must have elements, and "
                       "the default is one value to pad with",
                       d);
    if (!parse_example_is_open(c) && c->missing->count > 0 &&
        !mf_shape_equal(&c->missing->shape, &c->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s",
                       d, mf_shape_text(&c->missing->shape, a), d, mf_shape_text(&c->shape, b));
    return MF_OK;
}

/* ---- all ---- */

mf_status mf_parse_run(mf_parse *p)
{
    if (p->serialized->shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected serialized to be a scalar or vector, got %d dimensions",
                       p->serialized->shape.rank);
    if (p->names && p->names->count > 0 && p->names->count != p->serialized->count)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld names for %lld examples",
                       (long long)p->names->count, (long long)p->serialized->count);
    for (int i = 0; i < p->n_dense; i++)
        MF_TRY(parse_example_check_column(&p->dense[i], i));
    MF_TRY(parse_example_decode(p));
    for (int i = 0; i < p->n_dense; i++)
        MF_TRY(parse_example_put_dense(p, i));
    for (int i = 0; i < p->n_sparse; i++)
        MF_TRY(put_sparse(p, i));
    for (int i = 0; i < p->n_ragged; i++)
        MF_TRY(put_ragged(p, i));
    return MF_OK;
}
