/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - columns and classes of a trained model's data, and the check of other data against
 * them. */
#include "data/schema.h"

#include "data/source.h"
#include "formats/number.h"

#include <math.h>
#include <string.h>

enum { SHOWN = 20 }; /* maximum number of classes in a message */

const mf_schema_column *mf_schema_find(const mf_schema *schema, const char *name)
{
    for (int i = 0; schema && i < schema->n; i++) {
        if (strcmp(schema->columns[i].is.name, name) == 0)
            return &schema->columns[i];
    }
    return NULL;
}

const mf_schema_column *mf_schema_label(const mf_schema *schema)
{
    for (int i = 0; schema && i < schema->n; i++) {
        if (schema->columns[i].is_label)
            return &schema->columns[i];
    }
    return NULL;
}

mf_status mf_schema_of(const mf_dataset *set, mf_arena *arena, mf_schema *out)
{
    *out = (mf_schema){ .n = set->n_columns };
    out->columns = MF_ARENA_ARRAY(arena, mf_schema_column, set->n_columns);
    if (!out->columns)
        return MF_NOMEM("a schema");
    for (int i = 0; i < set->n_columns; i++) {
        mf_schema_column *c = &out->columns[i];

        *c = (mf_schema_column){ .is = set->columns[i] };
        c->is_label = strcmp(c->is.name, "label") == 0;
        if (c->is_label) {
            c->classes = set->classes;
            c->class_names = set->class_names;
        } else if (i == 0) {
            c->fields = set->fields;
            c->n_fields = set->n_fields;
        }
    }
    return MF_OK;
}

/* ---- classes ---- */

static mf_status unknown_class(const mf_schema_column *label, const char *text)
{
    mf_buf known = { 0 };
    mf_status st;

    for (int64_t i = 0; label->class_names && i < label->classes && i < SHOWN; i++)
        mf_buf_printf(&known, "%s%.60s", i > 0 ? ", " : "", label->class_names[i]);
    if (!label->class_names)
        mf_buf_printf(&known, "0 to %lld", (long long)label->classes - 1);
    else if (label->classes > SHOWN)
        mf_buf_printf(&known, " and %lld more", (long long)label->classes - SHOWN);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "the model does not know the class '%.100s'; it knows %s",
                 text, known.data ? known.data : "none");
    mf_buf_deinit(&known);
    return st;
}

static bool same_value(const char *a, const char *b)
{
    float x, y;

    return mf_number_float(a, strlen(a), &x) && mf_number_float(b, strlen(b), &y) && x == y;
}

static mf_status class_number(const mf_schema_column *label, const char *text, int32_t *out)
{
    int64_t v;

    if (!mf_number_int(text, strlen(text), &v) || v < 0 || v >= label->classes)
        return unknown_class(label, text);
    *out = (int32_t)v;
    return MF_OK;
}

mf_status mf_schema_class(const mf_schema_column *label, const char *text, int32_t *out)
{
    if (!label->class_names)
        return class_number(label, text, out);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < label->classes; i++) {
            const char *name = label->class_names[i];

            *out = (int32_t)i;
            if (pass == 0 ? strcmp(name, text) == 0 : same_value(name, text))
                return MF_OK;
        }
    }
    return unknown_class(label, text);
}

/* ---- check data ---- */

static void schema_print_column(const mf_column *c, mf_buf *out)
{
    mf_buf_printf(out, "%s %s [", c->name, mf_dtype_name(c->dtype));
    for (int i = 0; i < c->rank; i++)
        mf_buf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)c->dims[i]);
    mf_buf_str(out, "]");
}

static mf_status other_column(const mf_column *want, const mf_column *is, const char *data)
{
    mf_buf a = { 0 }, b = { 0 };
    mf_status st;

    schema_print_column(want, &a);
    if (is)
        schema_print_column(is, &b);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "the model was trained on %s, but '%.200s' has %s",
                 a.data ? a.data : "", data, b.data ? b.data : "no such column");
    mf_buf_deinit(&a);
    mf_buf_deinit(&b);
    return st;
}

static mf_status schema_check_column(const mf_column *want, const mf_dataset *set, const char *data)
{
    const int at = mf_dataset_find_column(set, want->name);
    const mf_column *is = at >= 0 ? &set->columns[at] : NULL;

    if (is && is->dtype == want->dtype && is->rank == want->rank &&
        memcmp(is->dims, want->dims, (size_t)is->rank * sizeof *is->dims) == 0)
        return MF_OK;
    return other_column(want, is, data);
}

bool mf_schema_is_class_number(const mf_column *c)
{
    return c->rank == 0 && (c->dtype == MF_DTYPE_I32 || c->dtype == MF_DTYPE_F32);
}

double mf_schema_class_number(const mf_column *c, const void *value)
{
    return c->dtype == MF_DTYPE_I32 ? *(const int32_t *)value : (double)*(const float *)value;
}

/* The first sample whose label is not a class of the model: out of range, or a fraction. */
static mf_status find_unknown(const mf_schema_column *label, const mf_dataset *set,
                              const char *data)
{
    const int at = mf_dataset_find_column(set, "label");
    void *columns[MF_DATASET_COLUMNS] = { NULL };
    union {
        int32_t i;
        float f;
    } value;

    if (!mf_schema_is_class_number(&set->columns[at]))
        return MF_OK; /* reported when the samples are used */
    columns[at] = &value;
    for (int64_t i = 0; i < set->count; i++) {
        double class;

        MF_TRY(set->ops->read(set, 0, i, columns));
        class = mf_schema_class_number(&set->columns[at], &value);
        if (class >= 0 && class < (double)label->classes && class == floor(class))
            continue;
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%.200s', sample %lld: the model does not know the class %.9g; it knows 0 "
                       "to %lld",
                       data, (long long)i, class, (long long)label->classes - 1);
    }
    return MF_OK;
}

/* Finds class names of the set that the model lacks or numbers differently. */
static mf_status check_classes(const mf_schema_column *label, const mf_dataset *set,
                               const char *data)
{
    const mf_column *is = &set->columns[mf_dataset_find_column(set, "label")];

    if (label->classes == 0)
        return MF_OK;
    if (is->dtype == MF_DTYPE_F32)
        return find_unknown(label, set, data);
    if (set->classes == 0)
        return MF_OK;
    for (int64_t i = 0; label->class_names && set->class_names && i < set->classes; i++) {
        const char *name = set->class_names[i];
        int32_t class;
        mf_status st = mf_schema_class(label, name, &class);

        if (st == MF_OK && class != i)
            st = MF_FAIL(MF_INVALID_ARGUMENT, "class %lld is '%.100s', in the model it is class %d",
                         (long long)i, name, class);
        if (st != MF_OK)
            return mf_path_wrong(st, data);
    }
    return set->classes > label->classes ? find_unknown(label, set, data) : MF_OK;
}

mf_status mf_schema_check(const mf_schema *schema, const mf_dataset *set, const char *data)
{
    const mf_schema_column *label = mf_schema_label(schema);

    for (int i = 0; i < schema->n; i++) {
        if (!schema->columns[i].is_label)
            MF_TRY(schema_check_column(&schema->columns[i].is, set, data));
    }
    return label && mf_dataset_find_column(set, "label") >= 0 ? check_classes(label, set, data)
                                                              : MF_OK;
}
