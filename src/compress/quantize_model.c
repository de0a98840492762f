/* SPDX-License-Identifier: Apache-2.0 */
/* quantize_model.c - quantized models: calibration finds the ranges of the inputs of layers on
 * samples, then kernels and inputs are rounded to int8. ops/quant/int8_product.c computes with
 * them. */
#include "compress/compress.h"
#include "tensor/int8.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

enum { BATCH = 256 };

/* ---- ranges ---- */

/* What the model observes: see models/linear.c. */
typedef struct watching {
    mf_compressed_trainer t;
    const char **fetches, **names; /* of the extremes of a batch, and of the variables that hold
                                      them */
    mf_tensor **results;
    double *values;
    int n;
    int64_t batches;
} watching;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_range(const char *name)
{
    return ends_with(name, "_low") || ends_with(name, "_high");
}

static mf_status list_ranges(watching *w, mf_arena *arena)
{
    const mf_model *m = w->t.model;

    w->fetches = MF_ARENA_ARRAY(arena, const char *, m->n_moving);
    w->names = MF_ARENA_ARRAY(arena, const char *, m->n_moving);
    w->results = MF_ARENA_ARRAY(arena, mf_tensor *, m->n_moving);
    w->values = MF_ARENA_ARRAY(arena, double, m->n_moving);
    if (!w->fetches || !w->names || !w->results || !w->values)
        return MF_NOMEM("ranges");
    for (int64_t i = 0; i < m->n_moving; i++) {
        const mf_moving *moving = &m->moving[i];

        if (!is_range(moving->weight->name))
            continue;
        w->names[w->n] = moving->weight->name;
        w->fetches[w->n] =
            mf_arena_printf(arena, "%s:%d", mf_node_name(moving->batch.node), moving->batch.port);
        if (!w->fetches[w->n++])
            return MF_NOMEM("ranges");
    }
    return w->n > 0 ? MF_OK
                    : MF_FAIL(MF_NOT_FOUND, "the model has no layer that can compute in 8-bit "
                                            "integers");
}

static void add_batch(watching *w, bool mean)
{
    for (int i = 0; i < w->n; i++) {
        const double v = (double)((const float *)w->results[i]->data)[0];

        if (mean)
            w->values[i] += v;
        else
            w->values[i] =
                ends_with(w->names[i], "_low") ? fmin(w->values[i], v) : fmax(w->values[i], v);
    }
    w->batches++;
}

static mf_status quantize_model_watch(watching *w, const mf_quantize_settings *q, mf_dataset *data)
{
    const mf_iterator_options order = { .batch = BATCH, .in_order = true, .epochs = 1 };
    mf_trainer *t = w->t.trainer;
    mf_names *names = &t->predict_names;
    mf_iterator *it = NULL;
    const mf_batch *batch;
    mf_status st = mf_iterator_new(data, &order, &it);

    for (int64_t seen = 0; st == MF_OK && seen < q->samples && seen < mf_dataset_count(data);
         seen += BATCH) {
        mf_tensor *converted = NULL;

        st = mf_iterator_next(it, &batch);
        if (st == MF_OK)
            st = mf_trainer_feed(t, names, data, batch, false, &converted);
        if (st == MF_OK)
            st = mf_session_run(t->session, NULL, names->feeds, names->values, names->n_feeds,
                                w->fetches, w->n, NULL, 0, w->results);
        if (st == MF_OK)
            add_batch(w, q->mean);
        mf_tensor_free(converted);
    }
    mf_iterator_free(it);
    return st;
}

static mf_status keep_ranges(const watching *w, bool mean, mf_compressed *s, mf_buf *report)
{
    for (int i = 0; i < w->n; i++) {
        const double value =
            mean && w->batches > 0 ? w->values[i] / (double)w->batches : w->values[i];
        mf_tensor t = { 0 };
        mf_status st;

        if (ends_with(w->names[i], "_low"))
            mf_buf_printf(report, "%.*s: from %.4g ", (int)(strlen(w->names[i]) - 4), w->names[i],
                          value);
        else
            mf_buf_printf(report, "to %.4g\n", value);
        MF_TRY(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SCALAR));
        ((float *)t.data)[0] = (float)value;
        st = mf_compressed_set(s, w->names[i], &t);
        mf_tensor_clear(&t);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status set_mode(mf_compressed *s, const mf_quantize_settings *q, const char *mode)
{
    s->quantize = mf_arena_printf(s->arena, "%s quantize=%s", q->layers, mode);
    return s->quantize ? MF_OK : MF_NOMEM("a model");
}

mf_status mf_compress_quantize(mf_compressed *s, const mf_quantize_settings *q, mf_dataset *data,
                               const mf_compile_options *options, mf_buf *report)
{
    watching w = { 0 };
    mf_status st;

    MF_TRY(set_mode(s, q, "observe"));
    st = mf_compressed_train(s, options, &w.t);
    if (st == MF_OK)
        st = list_ranges(&w, s->arena);
    if (st == MF_OK)
        st = quantize_model_watch(&w, q, data);
    if (st == MF_OK)
        st = mf_compressed_take(s, &w.t);
    if (st == MF_OK)
        st = keep_ranges(&w, q->mean, s, report);
    for (int i = 0; i < w.n; i++)
        mf_tensor_free(w.results[i]);
    mf_compressed_trainer_free(&w.t);
    return st == MF_OK ? set_mode(s, q, q->per_channel ? "int8" : "int8_tensor") : st;
}

/* ---- rounding ---- */

static mf_status round_kernel(const char *name, mf_tensor *w, bool per_channel)
{
    const int64_t n = w->shape.dims[w->shape.rank - 1], groups = per_channel ? n : 1;
    float *x = w->data;

    for (int64_t i = 0; i < w->count; i++) {
        if (!isfinite(x[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the weight '%s' has an element that is %g: a model that has diverged "
                           "cannot be compressed",
                           name, (double)x[i]);
    }
    for (int64_t g = 0; g < groups; g++) {
        float most = 0, step;

        for (int64_t i = g; i < w->count; i += groups)
            most = fmaxf(most, fabsf(x[i]));
        step = mf_int8_step(most);
        for (int64_t i = g; i < w->count; i += groups)
            x[i] = step > 0 ? (float)mf_int8_of(x[i], 1 / step) * step : 0;
    }
    return MF_OK;
}

mf_status mf_compress_round(mf_compressed *s, const mf_quantize_settings *q)
{
    mf_model *model;
    mf_status st;

    MF_TRY(mf_compressed_model(s, &model));
    st = MF_OK;
    for (int64_t i = 0; st == MF_OK && i < model->n_made; i++) {
        const mf_layer_made *made = &model->made[i];

        if (fnmatch(q->layers, made->name, 0) != 0 ||
            (strcmp(made->kind, "Dense") != 0 && strcmp(made->kind, "Conv2D") != 0))
            continue;
        for (int64_t k = 0; st == MF_OK && k < made->n_weights; k++) {
            const mf_weight *w = model->weights[made->first_weight + k];
            mf_tensor *value = mf_compressed_find(s, w->name), own = { 0 };

            if (!value || w->shape.rank < 2)
                continue;
            st = mf_tensor_clone(&own, value);
            if (st == MF_OK)
                st = round_kernel(w->name, &own, q->per_channel);
            if (st == MF_OK) {
                mf_tensor_clear(value);
                mf_tensor_move(value, &own);
            }
            mf_tensor_clear(&own);
        }
    }
    mf_model_free(model);
    return st;
}
