/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - the model in inference mode, over a whole data set. */
#include "train/ema.h"
#include "train/trainer.h"

#include <string.h>

enum { EVAL_BATCH = 256 };

typedef mf_status visit_fn(mf_trainer *t, const mf_names *names, const mf_batch *batch, void *ctx);

/* Run `names` on every batch, in order. */
static mf_status run_all(mf_trainer *t, mf_names *names, mf_dataset *data, bool with_label,
                         visit_fn *visit, void *ctx)
{
    const mf_iterator_options order = { .batch = EVAL_BATCH, .in_order = true, .epochs = 1 };
    mf_iterator *it = NULL;
    const mf_batch *batch;
    mf_status st = mf_iterator_new(data, &order, &it);

    while (st == MF_OK) {
        mf_tensor *converted = NULL;

        st = mf_iterator_next(it, &batch);
        if (st == MF_OK)
            st = mf_trainer_feed(t, names, data, batch, with_label, &converted);
        if (st == MF_OK)
            st = mf_session_run(t->session, NULL, names->feeds, names->values, names->n_feeds,
                                names->fetches, names->n_fetches, NULL, 0, names->results);
        if (st == MF_OK)
            st = visit(t, names, batch, ctx);
        mf_tensor_free(converted);
    }
    mf_iterator_free(it);
    return st == MF_OUT_OF_RANGE ? MF_OK : st;
}

static mf_status for_each_batch(mf_trainer *t, mf_names *names, mf_dataset *data, bool with_label,
                                visit_fn *visit, void *ctx)
{
    const bool average = t->options.ema_eval && t->options.ema != 0.0;
    mf_status st;

    if (average)
        mf_ema_swap(t);
    st = run_all(t, names, data, with_label, visit, ctx);
    if (average)
        mf_ema_swap(t);
    return st;
}

/* ---- evaluate ---- */

typedef struct totals {
    float *sums[MF_MAX_RESULTS];
    int64_t n_sums[MF_MAX_RESULTS];
    int64_t samples;
} totals;

static mf_status add_up(mf_trainer *t, const mf_names *names, const mf_batch *batch, void *ctx)
{
    totals *all = ctx;

    (void)t;
    for (int i = 0; i < names->n_fetches; i++) {
        const mf_tensor *r = names->results[i];

        if (!all->sums[i]) {
            all->sums[i] = mf_calloc(r->count, sizeof(float));
            all->n_sums[i] = r->count;
            if (!all->sums[i])
                return MF_NOMEM("evaluating");
        }
        for (int64_t k = 0; k < r->count; k++)
            all->sums[i][k] += ((const float *)r->data)[k];
    }
    all->samples += batch->n;
    return MF_OK;
}

mf_status mf_evaluate(mf_trainer *t, mf_dataset *data, mf_result *results, int *n_results)
{
    totals all = { 0 };
    mf_status st = for_each_batch(t, &t->eval_names, data, true, add_up, &all);

    *n_results = 0;
    if (st == MF_OK && all.samples == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the data set to evaluate on is empty");
    for (int i = 0; st == MF_OK && i < t->graph.n_reports; i++)
        results[(*n_results)++] = (mf_result){
            t->graph.reports[i].name,
            mf_report_value(&t->graph.reports[i], all.sums[i], all.n_sums[i], all.samples),
        };
    for (int i = 0; i < MF_MAX_RESULTS; i++)
        mf_free(all.sums[i]);
    return st;
}

/* ---- predict ---- */

typedef struct predictions {
    mf_tensor *all;
    int64_t samples, done;
} predictions;

static mf_status append(mf_trainer *t, const mf_names *names, const mf_batch *batch, void *ctx)
{
    const mf_tensor *r = names->results[0];
    predictions *p = ctx;

    (void)t;
    if (r->shape.rank < 1 || r->shape.dims[0] != batch->n)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "the model's output has not one row for each sample, and cannot be predicted");
    if (!p->all) {
        int64_t dims[MF_MAX_RANK];

        memcpy(dims, r->shape.dims, sizeof dims);
        dims[0] = p->samples;
        MF_TRY(mf_tensor_new(r->dtype, dims, r->shape.rank, &p->all));
    }
    memcpy((char *)p->all->data + (size_t)p->done * (mf_tensor_bytes(r) / (size_t)batch->n),
           r->data, mf_tensor_bytes(r));
    p->done += batch->n;
    return MF_OK;
}

mf_status mf_predict(mf_trainer *t, mf_dataset *data, mf_tensor **out)
{
    predictions p = { .samples = mf_dataset_count(data) };
    mf_status st = for_each_batch(t, &t->predict_names, data, false, append, &p);

    *out = NULL;
    if (st == MF_OK && !p.all)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the data set to predict is empty");
    if (st != MF_OK)
        mf_tensor_free(p.all);
    else
        *out = p.all;
    return st;
}
