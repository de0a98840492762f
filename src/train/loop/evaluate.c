/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - the model in inference mode, over a data set. */
#include "base/buf.h"
#include "base/host_state.h"
#include "train/loop/dist.h"
#include "train/step/ema.h"
#include "train/step/trainer.h"

#include <string.h>

enum { EVAL_BATCH = 256 };

typedef mf_status visit_fn(mf_trainer *t, const mf_names *names, const mf_batch *batch, void *ctx);

/* Batches [from, to) of the set. */
typedef struct span {
    int64_t from, to;
} span;

/* The strategy, if all workers compute every batch together; NULL: this worker computes alone. */
static mf_dist *together(const mf_trainer *t)
{
    return MF_DIST_HAS(t->dist, step, infer) ? t->dist : NULL;
}

static mf_status evaluate_run_batch(mf_trainer *t, const mf_names *names)
{
    if (together(t))
        return t->dist->ops.step->infer(t->dist, names);
    return mf_session_run(t->session, NULL, names->feeds, names->values, names->n_feeds,
                          names->fetches, names->n_fetches, NULL, 0, names->results);
}

mf_status mf_trainer_next(mf_iterator *it, const mf_batch **out)
{
    const mf_status st = mf_iterator_next(it, out);
    mf_error why;

    if (st != MF_DATA_LOSS)
        return st;
    mf_error_save(st, &why);
    why.status = MF_INVALID_ARGUMENT;
    return mf_error_restore(&why);
}

/* Run `names` on every batch of the span, in order. */
static mf_status evaluate_run_all(mf_trainer *t, mf_names *names, mf_dataset *data, span of,
                                  bool with_label, visit_fn *visit, void *ctx)
{
    const mf_iterator_options order = { .batch = EVAL_BATCH, .in_order = true, .epochs = 1 };
    mf_iterator *it = NULL;
    const mf_batch *batch;
    mf_status st = mf_iterator_new(data, &order, &it);

    if (st == MF_OK && of.from > 0)
        st = mf_iterator_seek(it, 0, of.from * EVAL_BATCH);
    for (int64_t b = of.from; b < of.to && st == MF_OK; b++) {
        mf_tensor *converted = NULL;

        st = mf_trainer_next(it, &batch);
        if (st == MF_OK)
            st = mf_trainer_feed(t, names, data, batch, with_label, &converted);
        if (st == MF_OK)
            st = evaluate_run_batch(t, names);
        if (st == MF_OK)
            st = visit(t, names, batch, ctx);
        mf_tensor_free(converted);
    }
    mf_iterator_free(it);
    return st;
}

static int64_t count_batches(const mf_dataset *data)
{
    return (mf_dataset_count(data) + EVAL_BATCH - 1) / EVAL_BATCH;
}

/* Weights change places with their moving averages meanwhile. */
static bool swaps(const mf_trainer *t)
{
    return t->options.ema_eval && t->options.ema != 0.0;
}

static mf_status for_each_batch(mf_trainer *t, mf_names *names, mf_dataset *data, span of,
                                bool with_label, visit_fn *visit, void *ctx)
{
    const bool average = swaps(t);
    bool stop;
    mf_status st;

    /* Complete variables are swapped. */
    if (average && mf_dist_can(t->dist, MF_DIST_STATE_IN_SLICES) && !mf_trainer_has_variables(t))
        MF_TRY(mf_dist_settle(t->dist, &stop));
    if (average)
        mf_ema_swap(t);
    st = evaluate_run_all(t, names, data, of, with_label, visit, ctx);
    if (average)
        mf_ema_swap(t);
    return st;
}

/* ---- evaluate ---- */

/* The sums of every batch, a row of floats each; added in the order of the batches, so the result
 * does not depend on the workers that computed them. */
typedef struct sums {
    mf_buf rows;
    int64_t n_sums[MF_MAX_RESULTS]; /* by report */
    int64_t width; /* of a row: all sums */
} sums;

static mf_status evaluate_add_row(mf_trainer *t, const mf_names *names, const mf_batch *batch,
                                  void *ctx)
{
    sums *all = ctx;

    (void)t;
    (void)batch;
    all->width = 0;
    for (int i = 0; i < names->n_fetches; i++) {
        const mf_tensor *r = names->results[i];

        all->n_sums[i] = r->count;
        all->width += r->count;
        mf_buf_bytes(&all->rows, r->data, (size_t)r->count * sizeof(float));
    }
    return all->rows.failed ? MF_NOMEM("evaluating") : MF_OK;
}

/* This worker's batches. */
static span evaluate_share_of(const mf_dist *dist, int64_t batches)
{
    if (!dist)
        return (span){ 0, batches };
    return (span){ batches * dist->rank / dist->size, batches * (dist->rank + 1) / dist->size };
}

/* All-gather the rows. */
static mf_status evaluate_gather(mf_dist *dist, int64_t step, int64_t batches, sums *all)
{
    const mf_collective c = mf_dist_collective(dist, step, "the evaluation");
    const int64_t row = all->width * (int64_t)sizeof(float);
    int64_t *sizes = mf_calloc(dist->size, sizeof *sizes);
    mf_buf rows = { 0 };
    void *out = mf_buf_room(&rows, (size_t)(batches * row));
    mf_status st = sizes && out ? MF_OK : MF_NOMEM("evaluating");

    for (int r = 0; st == MF_OK && r < dist->size; r++)
        sizes[r] = (batches * (r + 1) / dist->size - batches * r / dist->size) * row;
    if (st == MF_OK)
        st = mf_all_gather(dist->group, &(mf_gather){ c, all->rows.data, sizes, out });
    mf_free(sizes);
    mf_buf_deinit(st == MF_OK ? &all->rows : &rows);
    if (st == MF_OK)
        all->rows = rows;
    return st;
}

static mf_status evaluate_collect(mf_trainer *t, mf_dataset *data, int64_t batches, sums *all)
{
    mf_dist *dist = mf_dist_can(t->dist, MF_DIST_LOCKSTEP) && !together(t) ? t->dist : NULL;
    const span ours = evaluate_share_of(dist, batches);

    MF_TRY(for_each_batch(t, &t->eval_names, data, ours, true, evaluate_add_row, all));
    if (ours.from == ours.to) { /* a worker without batches needs the length of a row */
        MF_TRY(
            for_each_batch(t, &t->eval_names, data, (span){ 0, 1 }, true, evaluate_add_row, all));
        mf_buf_clear(&all->rows);
    }
    return dist ? evaluate_gather(dist, t->step, batches, all) : MF_OK;
}

/* Report by report: the column of all rows that begins at *at. */
static mf_status evaluate_add_up(const mf_report *report, const sums *all, int64_t n,
                                 int64_t batches, int64_t *at, int64_t samples, double *value)
{
    const float *rows = (const float *)(const void *)all->rows.data;
    float *total = mf_calloc(n, sizeof *total);

    if (!total)
        return MF_NOMEM("evaluating");
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t k = 0; k < n; k++)
            total[k] += rows[b * all->width + *at + k];
    }
    *value = mf_report_value(report, total, n, samples);
    *at += n;
    mf_free(total);
    return MF_OK;
}

static mf_status evaluate_once(mf_trainer *t, mf_dataset *data, double *values)
{
    const int64_t batches = count_batches(data), samples = mf_dataset_count(data);
    sums all = { 0 };
    int64_t at = 0;
    mf_status st = evaluate_collect(t, data, batches, &all);

    for (int i = 0; st == MF_OK && i < t->graph.n_reports; i++)
        st = evaluate_add_up(&t->graph.reports[i], &all, all.n_sums[i], batches, &at, samples,
                             &values[i]);
    mf_buf_deinit(&all.rows);
    return st;
}

/* With the remaining workers; or this worker has received the results of others, which were done
 * already. */
static mf_status evaluate_together(mf_trainer *t, mf_dataset *data)
{
    const int64_t before = t->progress.evaluations;
    mf_status st = MF_OK;

    if (mf_dist_may_recover(t->dist) && !t->dist->group)
        st = mf_dist_rendezvous(t->dist, t, MF_OK);
    while (st == MF_OK && t->progress.evaluations == before) {
        st = evaluate_once(t, data, t->progress.evaluation);
        if (st == MF_OK)
            t->progress.evaluations++;
        else if (mf_dist_may_recover(t->dist))
            st = mf_dist_rendezvous(t->dist, t, st);
    }
    return st;
}

mf_status mf_evaluate(mf_trainer *t, mf_dataset *data, mf_result *results, int *n_results)
{
    MF_ENTRY;
    MF_NEED(t, data, results, n_results);
    if (t->dist)
        MF_TRY(mf_trainer_need_no_fit(t));
    MF_ALONE(&t->turns);

    *n_results = 0;
    if (mf_dataset_count(data) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set to evaluate on is empty");
    MF_TRY(evaluate_together(t, data));
    for (int i = 0; i < t->graph.n_reports; i++)
        results[i] = (mf_result){ t->graph.reports[i].name, t->progress.evaluation[i] };
    *n_results = t->graph.n_reports;
    return MF_OK;
}

/* ---- predict ---- */

typedef struct predictions {
    mf_tensor *all;
    int64_t samples, done;
} predictions;

static mf_status evaluate_append(mf_trainer *t, const mf_names *names, const mf_batch *batch,
                                 void *ctx)
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

static mf_status evaluate_predict(mf_trainer *t, mf_dataset *data, mf_tensor **out)
{
    predictions p = { .samples = mf_dataset_count(data) };
    mf_names names;
    mf_status st;

    MF_TRY(mf_names_copy(&t->predict_names, &names));
    st = for_each_batch(t, &names, data, (span){ 0, count_batches(data) }, false, evaluate_append,
                        &p);
    mf_names_copy_deinit(&names);
    if (st != MF_OK)
        mf_tensor_free(p.all);
    else
        *out = p.all;
    return st;
}

mf_status mf_predict(mf_trainer *t, mf_dataset *data, mf_tensor **out)
{
    MF_ENTRY;
    MF_NEED(t, data, out);

    *out = NULL;
    if (mf_dataset_count(data) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set to predict is empty");
    if (together(t)) /* all workers compute each batch */
        MF_TRY(mf_trainer_need_no_fit(t));
    if (together(t) || swaps(t)) {
        MF_ALONE(&t->turns);
        return evaluate_predict(t, data, out);
    }
    MF_SHARE(&t->turns);
    return evaluate_predict(t, data, out);
}

mf_status mf_trainer_infer(mf_trainer *t, const mf_tensor *const *inputs, const mf_tensor **out)
{
    mf_names *names = &t->predict_names;

    *out = NULL;
    for (int i = 0; i < names->n_feeds; i++)
        names->values[i] = inputs[i];
    MF_TRY(evaluate_run_batch(t, names));
    *out = names->results[0];
    return MF_OK;
}
