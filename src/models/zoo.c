/* SPDX-License-Identifier: Apache-2.0 */
/* zoo.c - looks up models by name, and their inputs among the columns of the data. */
#include "models/zoo.h"

#include "base/did_you_mean.h"
#include "models/layer_overrides.h"

#include <stdio.h>
#include <string.h>

extern const mf_zoo_kind mf_zoo_image[], mf_zoo_text[], mf_zoo_table[], mf_zoo_contrast[],
    mf_zoo_detect[];

const mf_zoo_kind *const mf_zoo_families[] = { mf_zoo_image,    mf_zoo_text,   mf_zoo_table,
                                               mf_zoo_contrast, mf_zoo_detect, NULL };

/* ---- by name ---- */

const mf_zoo_kind *mf_zoo_find(const char *name)
{
    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++) {
            if (strcmp(k->name, name) == 0)
                return k;
        }
    }
    return NULL;
}

static mf_status zoo_unknown(const char *name)
{
    mf_did_you_mean close = mf_did_you_mean_to(name);

    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++)
            mf_did_you_mean_try(&close, k->name);
    }
    return mf_model_unknown("model", name, close.best, "");
}

static mf_status zoo_build(mf_zoo_call *z, const char *text)
{
    mf_arena *arena = z->model->graph->arena;
    const char *head, *rest, *settings;

    MF_TRY(mf_options_head(text, arena, &head, &rest));
    z->kind = mf_zoo_find(head);
    if (!z->kind)
        return zoo_unknown(head);
    settings = mf_arena_printf(arena, "{changes: string = ''%s%s",
                               z->kind->settings[1] == '}' ? "" : ", ", z->kind->settings + 1);
    if (!settings)
        return MF_NOMEM("a model");
    MF_TRY(mf_options_parse(z->kind->name, settings, rest, arena, &z->o));
    z->model->changes = mf_options_string(&z->o, "changes");
    z->model->loss = z->kind->loss;
    z->model->metrics = z->kind->metrics;
    mf_model_output(z->model, z->kind->build(z)); /* build() may choose others */
    MF_TRY(mf_layer_overrides_check(z->model));
    return mf_model_status(z->model);
}

mf_status mf_zoo_build(const char *text, const mf_column *columns, int n_columns, int64_t classes,
                       mf_model **out)
{
    mf_zoo_call z = { .columns = columns, .n_columns = n_columns, .classes = classes };
    mf_status st;

    *out = NULL;
    MF_TRY(mf_model_new(&z.model));
    st = zoo_build(&z, text);
    if (st == MF_OK)
        *out = z.model;
    else
        mf_model_free(z.model);
    return st;
}

/* ---- columns ---- */

const mf_column *mf_zoo_column(const mf_zoo_call *z, const char *name)
{
    for (int i = 0; i < z->n_columns; i++) {
        if (strcmp(z->columns[i].name, name) == 0)
            return &z->columns[i];
    }
    return NULL;
}

static void zoo_print_columns(const mf_zoo_call *z, mf_buf *out)
{
    for (int i = 0; i < z->n_columns; i++) {
        const mf_column *c = &z->columns[i];

        mf_buf_printf(out, "%s%s %s[", i ? ", " : "", c->name, mf_dtype_name(c->dtype));
        for (int d = 0; d < c->rank; d++)
            mf_buf_printf(out, "%s%lld", d ? "," : "", (long long)c->dims[d]);
        mf_buf_str(out, "]");
    }
}

mf_output mf_zoo_fail(mf_zoo_call *z, const char *fmt, ...)
{
    char text[300];
    mf_buf columns = { 0 };
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    zoo_print_columns(z, &columns);
    if (!z->model->graph->failed)
        mf_graph_fail(z->model->graph,
                      MF_FAIL(MF_INVALID_ARGUMENT, "%s needs %s: the data has %.300s",
                              z->kind->name, text, columns.len ? columns.data : "no columns"));
    mf_buf_deinit(&columns);
    return (mf_output){ 0 };
}

mf_output mf_zoo_input(mf_zoo_call *z, const char *name, int min_rank, int max_rank)
{
    const mf_column *c = mf_zoo_column(z, name);

    if (!c || c->rank < min_rank || c->rank > max_rank)
        return mf_zoo_fail(z, "a column '%s' (%s)", name, z->kind->needs);
    return mf_model_input(z->model, c->name, c->dtype, c->dims, c->rank);
}

static mf_output class_scores(mf_zoo_call *z, mf_output x)
{
    return mf_layer(z->model, "Dense", MF_IN(x), "units=%lld dim=classes", (long long)z->classes);
}

/* label NULL: no label; the output is one number. */
static mf_output zoo_numbers(mf_zoo_call *z, mf_output x, const mf_column *label)
{
    if (label && label->rank > 1)
        return mf_zoo_fail(z, "a label of one number, or of a row of numbers");
    z->model->loss = "mean_squared_error";
    z->model->metrics = "mean_absolute_error";
    return mf_layer(z->model, "Dense", MF_IN(x), "units=%lld",
                    (long long)(label && label->rank == 1 ? label->dims[0] : 1));
}

mf_output mf_zoo_scores(mf_zoo_call *z, mf_output x, bool alone)
{
    const mf_column *label = mf_zoo_column(z, "label");

    /* A single score is always the maximum, so losses and accuracies would be meaningless. */
    if (z->classes == 1 && label && mf_dtype_is_int(label->dtype))
        return mf_zoo_fail(z, "at least two classes, but the labels have one");
    if (z->classes > 0 && (!label || label->rank == 0 || label->dims[0] == z->classes))
        return class_scores(z, x); /* a class number, or a row of probabilities */
    if (label ? mf_dtype_is_float(label->dtype) : alone)
        return zoo_numbers(z, x, label);
    if (label && z->classes > 0)
        return mf_zoo_fail(z, "one class for each sample, not a row of classes");
    return mf_zoo_fail(z, label ? "the number of classes of the label (--set classes=N for "
                                  "records)"
                                : "a label (--set label=COLUMN for tables)");
}

/* ---- columns from text ---- */

static mf_status read_column(const char *name, const char *value, mf_arena *arena, mf_column *out)
{
    mf_attr type, dims;
    const char *p = value;

    *out = (mf_column){ .name = name };
    if (mf_attr_parse(&p, MF_ATTR_TYPE, false, arena, &type) != MF_OK ||
        mf_attr_parse(&p, MF_ATTR_INT, true, arena, &dims) != MF_OK || *p || dims.n >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "column '%s': expected a type and a shape (uint8[28,28,1]), not '%.60s'",
                       name, value);
    out->dtype = type.type;
    out->rank = (int)dims.n;
    for (int i = 0; i < out->rank; i++) {
        out->dims[i] = dims.ints[i];
        if (dims.ints[i] < 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "column '%s': dimension %d is %lld", name, i,
                           (long long)dims.ints[i]);
    }
    return MF_OK;
}

static mf_status zoo_read_word(const char *word, mf_arena *arena, mf_column *columns, int *n,
                               int64_t *classes)
{
    const char *equals = strchr(word, '=');
    const char *name = equals ? mf_arena_strndup(arena, word, (size_t)(equals - word)) : NULL;
    mf_attr count;

    if (!equals || equals == word)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "expected name=type[dims] or classes=number, not '%.60s'", word);
    if (!name)
        return MF_NOMEM("columns");
    equals++;
    if (strcmp(name, "classes") != 0)
        return read_column(name, equals, arena, &columns[(*n)++]);
    MF_TRY(mf_attr_parse(&equals, MF_ATTR_INT, false, arena, &count));
    *classes = count.i;
    return MF_OK;
}

mf_status mf_zoo_columns(const char *text, mf_arena *arena, mf_column **columns, int *n_columns,
                         int64_t *classes)
{
    const int64_t most = (int64_t)strlen(text) / 2 + 1;

    *n_columns = 0;
    *classes = 0;
    *columns = MF_ARENA_ARRAY(arena, mf_column, most);
    if (!*columns)
        return MF_NOMEM("columns");
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        const size_t len = strcspn(text, " ");
        const char *word = mf_arena_strndup(arena, text, len);

        if (!word)
            return MF_NOMEM("columns");
        MF_TRY(zoo_read_word(word, arena, *columns, n_columns, classes));
        text += len;
    }
    return MF_OK;
}
