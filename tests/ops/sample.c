/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include "base/rng.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    mf_dtype dtype;
} types[] = {
    { "f32", MF_DTYPE_F32 },    { "f64", MF_DTYPE_F64 }, { "f16", MF_DTYPE_F16 },
    { "bf16", MF_DTYPE_BF16 },  { "i8", MF_DTYPE_I8 },   { "i16", MF_DTYPE_I16 },
    { "i32", MF_DTYPE_I32 },    { "i64", MF_DTYPE_I64 }, { "u8", MF_DTYPE_U8 },
    { "u16", MF_DTYPE_U16 },    { "u32", MF_DTYPE_U32 }, { "u64", MF_DTYPE_U64 },
    { "bool", MF_DTYPE_BOOL },  { "c64", MF_DTYPE_C64 }, { "c128", MF_DTYPE_C128 },
    { "str", MF_DTYPE_STRING }, { "qi8", MF_DTYPE_QI8 }, { "qi16", MF_DTYPE_QI16 },
    { "qi32", MF_DTYPE_QI32 },  { "qu8", MF_DTYPE_QU8 }, { "qu16", MF_DTYPE_QU16 },
};

static double draw(mf_philox *p, double lo, double hi)
{
    uint32_t r[4];

    mf_philox_next(p, r);
    return lo + (hi - lo) * ((double)r[0] / 4294967296.0);
}

static mf_status parse_dims(const char **p, mf_shape *shape)
{
    *shape = MF_SCALAR;
    if (**p != '[')
        return MF_FAIL(MF_INVALID_ARGUMENT, "expected '[' at \"%.20s\"", *p);
    ++*p;
    while (**p != ']') {
        char *end;

        if (shape->rank == MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many dimensions at \"%.20s\"", *p);
        shape->dims[shape->rank++] = strtoll(*p, &end, 10);
        if (end == *p)
            return MF_FAIL(MF_INVALID_ARGUMENT, "expected a number at \"%.20s\"", *p);
        *p = end + (*end == ',');
    }
    ++*p;
    return MF_OK;
}

static mf_status fill_random(mf_tensor *t, double lo, double hi, mf_philox *rng)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (t->dtype == MF_DTYPE_STRING) {
            char text[12];
            const int len = (int)draw(rng, 0, 8);

            for (int k = 0; k < len; k++)
                text[k] = (char)('a' + (int)draw(rng, 0, 26));
            MF_TRY(mf_string_set((mf_string *)t->data + i, text, (size_t)len));
        } else if (t->dtype == MF_DTYPE_BOOL) {
            mf_tensor_put(t, i, draw(rng, 0, 1) < 0.5);
        } else if (mf_dtype_is_complex(t->dtype)) {
            mf_tensor_put(t, i, draw(rng, lo, hi));
            if (t->dtype == MF_DTYPE_C64)
                ((float *)t->data)[2 * i + 1] = (float)draw(rng, lo, hi);
            else
                ((double *)t->data)[2 * i + 1] = draw(rng, lo, hi);
        } else {
            const double v = draw(rng, lo, hi);

            mf_tensor_put(t, i, mf_dtype_is_int(t->dtype) ? __builtin_floor(v) : v);
        }
    }
    return MF_OK;
}

static mf_status fill_literal(mf_tensor *t, const char **p)
{
    int64_t i = 0;
    bool more = t->count > 0 || (*p)[1] != '}'; /* "{}" is one empty string */

    for (++*p; more; i++) {
        const size_t n = strcspn(*p, ",}");

        if (i >= t->count)
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many values at \"%.20s\"", *p);
        more = (*p)[n] == ',';
        if (t->dtype == MF_DTYPE_STRING)
            MF_TRY(mf_string_set((mf_string *)t->data + i, *p, n));
        else
            mf_tensor_put(t, i, strncmp(*p, "true", 4) == 0 ? 1 : strtod(*p, NULL));
        *p += n + (more ? 1 : 0);
    }
    if (**p == '}')
        ++*p;
    return i == t->count ? MF_OK
                         : MF_FAIL(MF_INVALID_ARGUMENT, "%lld values for %lld elements",
                                   (long long)i, (long long)t->count);
}

static mf_status parse_input(const char **p, mf_philox *rng, mf_sample_input *in)
{
    mf_dtype dtype = MF_DTYPE_INVALID;
    mf_shape shape;
    double lo, hi;
    size_t n;

    if (strncmp(*p, "var:", 4) == 0) {
        in->is_variable = true;
        *p += 4;
    }
    n = strcspn(*p, "[");
    for (int i = 0; i < MF_COUNT(types); i++) {
        if (strlen(types[i].name) == n && strncmp(*p, types[i].name, n) == 0)
            dtype = types[i].dtype;
    }
    if (dtype == MF_DTYPE_INVALID)
        return MF_FAIL(MF_INVALID_ARGUMENT, "expected a type at \"%.20s\"", *p);
    *p += n;
    MF_TRY(parse_dims(p, &shape));
    MF_TRY(mf_tensor_alloc(&in->value, dtype, &shape));
    lo = mf_dtype_is_int(dtype) ? -4 : -2;
    hi = mf_dtype_is_int(dtype) ? 5 : 2;
    if (dtype == MF_DTYPE_U8 || dtype == MF_DTYPE_U16 || dtype == MF_DTYPE_U32 ||
        dtype == MF_DTYPE_U64)
        lo = 0;
    if (**p == '@') {
        char *end;

        lo = strtod(*p + 1, &end);
        hi = *end == ':' ? strtod(end + 1, &end) : lo;
        *p = end;
    }
    MF_TRY(**p == '{' ? fill_literal(&in->value, p) : fill_random(&in->value, lo, hi, rng));
    if (**p == '~') {
        in->no_grad = true;
        ++*p;
    }
    return **p == '\0' || **p == ' ' ? MF_OK
                                     : MF_FAIL(MF_INVALID_ARGUMENT, "unexpected \"%.20s\"", *p);
}

static mf_status parse_flag(const char **p, mf_sample *out)
{
    const size_t n = strcspn(*p, " ");

    if (strncmp(*p, "!nograd", n) == 0)
        out->no_grad = true;
    else if (strncmp(*p, "!fails", n) == 0)
        out->fails = true;
    else if (strncmp(*p, "!notf", n) == 0)
        out->no_tf = true;
    else if (strncmp(*p, "!unordered", n) == 0)
        out->unordered = true;
    else if (strncmp(*p, "!tol:", 5) == 0)
        out->tolerance = strtod(*p + 5, NULL);
    else
        return MF_FAIL(MF_INVALID_ARGUMENT, "unknown flag \"%.20s\"", *p);
    *p += n;
    return MF_OK;
}

mf_status mf_sample_parse(const char *text, uint64_t seed, mf_sample *out)
{
    mf_philox rng = mf_philox_init(seed, 17);
    const char *p = text;

    *out = (mf_sample){ 0 };
    for (;;) {
        p += strspn(p, " ");
        if (!*p)
            return MF_OK;
        if (*p == '!') {
            MF_TRY(parse_flag(&p, out));
        } else if (*p == ';') {
            const char *flags = strstr(p + 1, " !");
            const size_t n = flags ? (size_t)(flags - p - 1) : strlen(p + 1);

            (void)snprintf(out->attrs, sizeof out->attrs, "%.*s", (int)n, p + 1);
            p += 1 + n;
        } else {
            if (out->n_in == MF_SAMPLE_INPUTS)
                return MF_FAIL(MF_INVALID_ARGUMENT, "too many inputs");
            MF_TRY(parse_input(&p, &rng, &out->in[out->n_in++]));
        }
    }
}

void mf_sample_deinit(mf_sample *sample)
{
    for (int i = 0; i < sample->n_in; i++)
        mf_tensor_clear(&sample->in[i].value);
}
