/* SPDX-License-Identifier: Apache-2.0 */
/* units.c - removes whole filters and units. The weights that this affects are found by experiment:
 * the model is built with one unit less, and each weight with another shape is affected. Channels
 * are the last dimension everywhere, also where images become rows: element i of a dimension that
 * was flattened from n channels belongs to channel i % n. */
#include "compress/compress.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MULTIPLE = 8 }; /* of the remaining units: the width of a vector */

typedef struct units {
    mf_compressed *s;
    const mf_units_settings *how;
    mf_buf *report;
} units;

/* A layer to be pruned. */
typedef struct cutting {
    const char *layer;
    const char *setting; /* "units" */
    int64_t n; /* units before */
    int64_t *kept, n_kept; /* indices of the remaining units, ascending */
} cutting;

/* ---- which units ---- */

typedef struct importance {
    double square;
    int64_t unit;
} importance;

static int most_important_first(const void *a, const void *b)
{
    const importance *x = a, *y = b;

    if (x->square != y->square)
        return x->square > y->square ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static int units_ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t units_to_keep(int64_t n, double share)
{
    int64_t stay = llround((double)n * (1 - share));

    if (share == 0)
        return n;
    if (n >= 2 * MULTIPLE)
        stay = llround((double)stay / MULTIPLE) * MULTIPLE;
    if (stay < 1)
        stay = n >= 2 * MULTIPLE ? MULTIPLE : 1;
    return stay < n ? stay : n;
}

static mf_status units_choose(const units *u, cutting *c, const mf_tensor *kernel)
{
    const float *w = kernel->data;
    importance *all = MF_ARENA_ARRAY(u->s->arena, importance, c->n);

    c->n_kept = units_to_keep(c->n, u->how->share);
    c->kept = MF_ARENA_ARRAY(u->s->arena, int64_t, c->n);
    if (!all || !c->kept)
        return MF_NOMEM("units");
    for (int64_t i = 0; i < c->n; i++)
        all[i].unit = i;
    for (int64_t i = 0; i < kernel->count; i++)
        all[i % c->n].square += (double)w[i] * (double)w[i];
    qsort(all, (size_t)c->n, sizeof *all, most_important_first);
    for (int64_t i = 0; i < c->n_kept; i++)
        c->kept[i] = all[i].unit;
    qsort(c->kept, (size_t)c->n_kept, sizeof *c->kept, units_ascending);
    return MF_OK;
}

/* ---- pruning ---- */

/* Prunes dimension `dim`, in which each unit has `times` elements. */
static mf_status cut_tensor(const cutting *c, const mf_tensor *from, int dim, int64_t times,
                            mf_tensor *to)
{
    const size_t cell = mf_dtype_size(from->dtype);
    mf_shape shape = from->shape;
    const int64_t before = mf_shape_span(&shape, 0, dim);
    const int64_t behind = mf_shape_span(&shape, dim + 1, shape.rank);
    char *out;

    shape.dims[dim] = c->n_kept * times;
    MF_TRY(mf_tensor_alloc(to, from->dtype, &shape));
    out = to->data;
    for (int64_t b = 0; b < before; b++) {
        for (int64_t t = 0; t < times; t++) {
            for (int64_t k = 0; k < c->n_kept; k++, out += (size_t)behind * cell)
                memcpy(out,
                       (const char *)from->data +
                           (size_t)(((b * times + t) * c->n + c->kept[k]) * behind) * cell,
                       (size_t)behind * cell);
        }
    }
    return MF_OK;
}

static mf_status cannot(const cutting *c, const char *why)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "units of layer '%s' cannot be removed: %s", c->layer, why);
}

/* The shape of the weight with one unit less shows the affected dimension. */
static mf_status cut_weight(const cutting *c, const mf_shape *less, mf_tensor *value)
{
    for (int d = 0; d < less->rank; d++) {
        const int64_t times = value->shape.dims[d] - less->dims[d];
        mf_tensor cut = { 0 };

        if (times == 0)
            continue;
        if (times < 0 || value->shape.dims[d] != times * c->n)
            return cannot(c, "their consumer mixes them with others");
        MF_TRY(cut_tensor(c, value, d, times, &cut));
        mf_tensor_clear(value);
        mf_tensor_move(value, &cut);
    }
    return MF_OK;
}

static mf_status cut_all(units *u, const cutting *c, const mf_model *less)
{
    mf_compressed *s = u->s;

    for (int64_t i = 0; i < less->n_weights; i++) {
        mf_tensor *value = mf_compressed_find(s, less->weights[i]->name);

        if (!value || value->shape.rank != less->weights[i]->shape.rank)
            return cannot(c, "the model would have other weights");
        MF_TRY(cut_weight(c, &less->weights[i]->shape, value));
    }
    return MF_OK;
}

/* Builds the model with n units in this layer. */
static mf_status build_with(const units *u, const cutting *c, int64_t n, mf_model **out)
{
    mf_compressed trial = *u->s;
    const char *setting = mf_arena_printf(trial.arena, "%s=%lld", c->setting, (long long)n);

    *out = NULL;
    if (!setting)
        return MF_NOMEM("a model");
    MF_TRY(mf_compressed_change(&trial, c->layer, setting));
    return mf_compressed_model(&trial, out);
}

static mf_status cut_layer(units *u, cutting *c)
{
    mf_model *less = NULL;
    const char *setting;
    mf_compressed whole = { 0 };
    mf_status st = build_with(u, c, c->n - 1, &less);

    if (st != MF_OK)
        return cannot(c, mf_error_message());
    st =
        mf_compressed_copy(&whole, u->s); /* a later weight may fail when earlier ones are pruned */
    if (st == MF_OK)
        st = cut_all(u, c, less);
    mf_model_free(less);
    if (st != MF_OK) {
        for (int64_t i = 0; i < whole.n; i++)
            mf_tensor_set(mf_compressed_find(u->s, whole.weights[i].name), &whole.weights[i].value);
        mf_compressed_deinit(&whole);
        return st;
    }
    mf_compressed_deinit(&whole);
    setting = mf_arena_printf(u->s->arena, "%s=%lld", c->setting, (long long)c->n_kept);
    mf_buf_printf(u->report, "%s: kept %lld of %lld %s\n", c->layer, (long long)c->n_kept,
                  (long long)c->n, c->setting);
    return setting ? mf_compressed_change(u->s, c->layer, setting) : MF_NOMEM("a model");
}

/* ---- all layers ---- */

static const char *setting_of(const mf_layer_made *made)
{
    if (strcmp(made->kind, "Dense") == 0)
        return "units";
    return strcmp(made->kind, "Conv2D") == 0 ? "filters" : NULL;
}

static mf_status units_visit(units *u, const mf_layer_made *made)
{
    const char *name = mf_arena_printf(u->s->arena, "%s/kernel", made->name);
    const mf_tensor *kernel = name ? mf_compressed_find(u->s, name) : NULL;
    cutting c = { .layer = made->name, .setting = setting_of(made) };
    mf_status st;

    if (!kernel)
        return MF_OK;
    c.n = kernel->shape.dims[kernel->shape.rank - 1];
    MF_TRY(units_choose(u, &c, kernel));
    if (c.n_kept == c.n)
        return MF_OK;
    st = cut_layer(u, &c);
    if (st == MF_INVALID_ARGUMENT && strchr(u->how->layers, '*')) {
        mf_buf_printf(u->report, "%s: skipped\n", c.layer);
        return MF_OK;
    }
    return st;
}

static mf_status no_layer(const char *pattern)
{
    return MF_FAIL(MF_NOT_FOUND,
                   "no layer whose units can be removed is called '%.60s': dense layers and "
                   "convolutions can, but not the last one",
                   pattern);
}

mf_status mf_compress_units(mf_compressed *s, const mf_units_settings *how, mf_buf *report)
{
    units u = { .s = s, .how = how, .report = report };
    mf_model *model = NULL;
    bool any = false;
    mf_status st;

    MF_TRY(mf_compressed_model(s, &model));
    st = MF_OK;
    for (int64_t i = 0; st == MF_OK && i < model->n_made; i++) {
        const mf_layer_made *made = &model->made[i];

        if (!setting_of(made) || made->output.node == model->output.node ||
            fnmatch(how->layers, made->name, 0) != 0)
            continue;
        any = true;
        st = units_visit(&u, made);
    }
    if (st == MF_OK && !any)
        st = no_layer(how->layers);
    mf_model_free(model);
    return st;
}
