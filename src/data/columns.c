/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - parses the columns of a tf.Example data set, and decodes an example by them. */
#include "data/columns.h"

#include "formats/number.h"

#include <string.h>

/* ---- parse ---- */

static mf_status columns_wrong(const char *word, size_t len)
{
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "columns: expected name:type[dimensions] or name=feature:type, not \"%.*s\"",
                   (int)(len < 80 ? len : 80), word);
}

/* "[28,28,1]" or empty. */
static bool columns_parse_shape(const char *p, const char *end, mf_shape *out)
{
    *out = MF_SCALAR;
    if (p == end)
        return true;
    if (*p != '[' || end[-1] != ']' || end - p < 3)
        return false;
    for (p++; p < end;) {
        const size_t n = strcspn(p, ",]");

        if (out->rank == MF_MAX_RANK - 1 || !mf_number_int(p, n, &out->dims[out->rank]) ||
            out->dims[out->rank++] < 0)
            return false;
        p += n + 1;
    }
    return true;
}

static mf_status parse_field(const char *word, size_t len, mf_arena *arena, mf_field *f)
{
    const char *end = word + len, *colon = memrchr(word, ':', len), *equal, *type, *bracket;

    if (!colon || colon == word)
        return columns_wrong(word, len);
    equal = memchr(word, '=', (size_t)(colon - word));
    type = colon + 1;
    bracket = memchr(type, '[', (size_t)(end - type));
    bracket = bracket ? bracket : end;
    *f = (mf_field){ 0 };
    f->column = mf_arena_strndup(arena, word, (size_t)((equal ? equal : colon) - word));
    f->feature =
        equal ? mf_arena_strndup(arena, equal + 1, (size_t)(colon - equal - 1)) : f->column;
    if (!f->column || !f->feature)
        return MF_NOMEM("columns");
    f->image = bracket - type == 5 && memcmp(type, "image", 5) == 0;
    f->dtype = f->image ? MF_DTYPE_U8 : mf_dtype_find(type, (size_t)(bracket - type));
    if (f->dtype == MF_DTYPE_INVALID || !mf_dtype_is_plain(f->dtype) ||
        !columns_parse_shape(bracket, end, &f->shape))
        return columns_wrong(word, len);
    if (f->image && (f->shape.rank != 3 || (f->shape.dims[2] != 1 && f->shape.dims[2] != 3)))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "columns: %s is an image and needs [height,width,1] or [height,width,3]",
                       f->column);
    return MF_OK;
}

mf_status mf_fields_parse(const char *text, mf_arena *arena, mf_field *out, int *n)
{
    *n = 0;
    for (;;) {
        size_t len;

        text += strspn(text, " \t\n");
        len = strcspn(text, " \t\n");
        if (len == 0)
            return MF_OK;
        if (*n == MF_DATASET_COLUMNS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "columns: more than %d", MF_DATASET_COLUMNS);
        MF_TRY(parse_field(text, len, arena, &out[(*n)++]));
        text += len;
    }
}

/* ---- guess from a record ---- */

static mf_status guess_bytes(const mf_example *e, const mf_feature *f, mf_arena *arena,
                             mf_field *out)
{
    const char *name = mf_arena_printf(arena, "%s/shape", f->name);
    const mf_feature *shape = name ? mf_example_find(e, name) : NULL;
    mf_image i;

    if (!name)
        return MF_NOMEM("columns");
    if (f->n != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "feature '%s' has %lld texts, which cannot become a column: set "
                       "columns=...",
                       f->name, (long long)f->n);
    out->dtype = MF_DTYPE_U8;
    if (mf_image_is(f->strings[0].data, f->strings[0].len)) {
        MF_TRY(mf_image_info(f->strings[0].data, f->strings[0].len, &i));
        out->image = out->guessed = true;
        out->shape = MF_SHAPE(i.height, i.width, i.channels < 3 ? 1 : 3);
    } else if (shape && shape->type == MF_DTYPE_I64) {
        MF_TRY(mf_shape_from_dims(shape->ints, shape->n, &out->shape));
    } else {
        out->shape = MF_SHAPE((int64_t)f->strings[0].len);
    }
    return MF_OK;
}

static bool is_shape(const char *name)
{
    const size_t n = strlen(name);

    return n > 6 && strcmp(name + n - 6, "/shape") == 0;
}

mf_status mf_fields_guess(const mf_example *e, mf_arena *arena, mf_field *out, int *n)
{
    *n = 0;
    for (int64_t i = 0; i < e->n; i++) {
        const mf_feature *f = &e->features[i];
        mf_field *to = &out[*n];

        if (f->type == MF_DTYPE_INVALID || is_shape(f->name))
            continue;
        if (*n == MF_DATASET_COLUMNS)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "a record has more than %d features: set columns=...",
                           MF_DATASET_COLUMNS);
        *to = (mf_field){ .column = mf_arena_strdup(arena, f->name), .dtype = f->type };
        to->feature = to->column;
        if (!to->column)
            return MF_NOMEM("columns");
        to->shape = f->n == 1 ? MF_SCALAR : MF_SHAPE(f->n);
        if (f->type == MF_DTYPE_STRING)
            MF_TRY(guess_bytes(e, f, arena, to));
        else if (f->type == MF_DTYPE_I64 && strcmp(f->name, "label") == 0)
            to->dtype = MF_DTYPE_I32;
        ++*n;
    }
    return *n > 0 ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "the first record has no features");
}

/* ---- values ---- */

static mf_status columns_does_not_fit(const mf_field *f, const mf_feature *v)
{
    char text[MF_SHAPE_TEXT];

    return MF_FAIL(MF_INVALID_ARGUMENT, "feature '%s' has %lld %s, which are no %s %s", f->feature,
                   (long long)v->n,
                   v->type == MF_DTYPE_I64   ? "integers"
                   : v->type == MF_DTYPE_F32 ? "floats"
                                             : "texts",
                   mf_dtype_name(f->dtype), mf_shape_text(&f->shape, text));
}

/* If the first record is grey, later ones in colour are an error unless columns= says so. */
static mf_status columns_check_colours(const mf_field *f, const mf_string *s)
{
    mf_image own;

    if (!f->guessed || f->shape.dims[2] != 1 || mf_image_info(s->data, s->len, &own) != MF_OK ||
        own.channels < 3)
        return MF_OK; /* damaged images are reported by the decoder */
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "the image is in colour, but the first record's is grey: set "
                   "columns='%s:image[%lld,%lld,1] ...' to drop the colours, or ,3]",
                   f->feature, (long long)f->shape.dims[0], (long long)f->shape.dims[1]);
}

static mf_status columns_read_image(const mf_field *f, const mf_string *s, void *to)
{
    const mf_image want = { f->shape.dims[0], f->shape.dims[1], f->shape.dims[2] };
    mf_buf pixels = { 0 };
    mf_image got;
    mf_status st;

    MF_TRY(columns_check_colours(f, s));
    st = mf_image_decode(s->data, s->len, (int)want.channels, &pixels, &got);

    if (st != MF_OK) {
        (void)mf_error_wrap(st, ": ", "");
        (void)mf_error_wrap(st, f->feature, "");
    } else if (got.height == want.height && got.width == want.width) {
        memcpy(to, pixels.data, pixels.len);
    } else {
        mf_image_resize((const unsigned char *)pixels.data, &got, to, &want);
    }
    mf_buf_deinit(&pixels);
    return st;
}

static mf_status read_ints(const mf_field *f, const mf_feature *v, void *to)
{
    for (int64_t i = 0; i < v->n; i++) {
        const int64_t x = v->ints[i];

        if (f->dtype == MF_DTYPE_I64) {
            ((int64_t *)to)[i] = x;
        } else if (f->dtype == MF_DTYPE_I32) {
            if (x != (int32_t)x)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "feature '%s' is %lld, which does not fit "
                               "into an int32",
                               f->feature, (long long)x);
            ((int32_t *)to)[i] = (int32_t)x;
        } else {
            ((bool *)to)[i] = x != 0;
        }
    }
    return MF_OK;
}

mf_status mf_field_read(const mf_field *f, const mf_example *e, void *to)
{
    const mf_feature *v = mf_example_find(e, f->feature);
    const int64_t count = mf_shape_span(&f->shape, 0, f->shape.rank);

    if (!v)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no feature '%s'", f->feature);
    if (v->type == MF_DTYPE_STRING && v->n == 1 && f->image)
        return columns_read_image(f, v->strings, to);
    if (v->type == MF_DTYPE_STRING && v->n == 1 &&
        v->strings[0].len == (size_t)count * mf_dtype_size(f->dtype)) {
        if (count > 0)
            memcpy(to, v->strings[0].data, v->strings[0].len);
        return MF_OK;
    }
    if (v->n != count)
        return columns_does_not_fit(f, v);
    if (v->type == MF_DTYPE_F32 && f->dtype == MF_DTYPE_F32) {
        if (count > 0)
            memcpy(to, v->floats, (size_t)count * sizeof(float));
        return MF_OK;
    }
    if (v->type == MF_DTYPE_I64 &&
        (f->dtype == MF_DTYPE_I64 || f->dtype == MF_DTYPE_I32 || f->dtype == MF_DTYPE_BOOL))
        return read_ints(f, v, to);
    return columns_does_not_fit(f, v);
}
