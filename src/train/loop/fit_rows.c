/* SPDX-License-Identifier: Apache-2.0 */
/* fit_rows.c - only those rows of a batch are read that the strategy needs in this process. */
#include "train/loop/fit_private.h"

#include <string.h>

/* Hooks may fetch any tensor at any step. */
static bool is_run_alone(const mf_fit_ctx *f)
{
    for (int i = 0; i < f->loop.n_hooks; i++) {
        if (f->hooks[i].before_run)
            return false;
    }
    return true;
}

/* Of the next batches: the full size, and that of an epoch's last batch, if there will be one. */
static int fit_rows_find_sizes(const mf_fit_ctx *f, int64_t sizes[MF_NEEDED])
{
    const int64_t count = mf_dataset_count(f->train), last = count % f->batch;
    const int64_t left = (count - f->t->first + f->batch - 1) / f->batch;
    int n = 0;

    sizes[n++] = f->batch;
    if (last > 0 && f->total - f->t->step >= left)
        sizes[n++] = last;
    return n;
}

/* The feeds of a step of so many samples, without values. */
static mf_status describe_feeds(const mf_fit_ctx *f, int64_t samples, mf_tensor *feeds)
{
    const mf_trainer *t = f->t;
    const int n_in = (int)t->model->n_inputs;
    const mf_dtype rest[] = { MF_DTYPE_I64, MF_DTYPE_F32, MF_DTYPE_F32 };

    for (int i = 0; i <= n_in; i++) {
        const mf_node *in = i < n_in ? t->model->inputs[i].node : t->graph.label.node;
        const int at = mf_dataset_find_column(f->train, in->name);
        const mf_column *c = at < 0 ? NULL : &f->train->columns[at];

        if (!c)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the model needs a column '%s', which the data lacks", in->name);
        feeds[i].dtype = in->out_types[0];
        feeds[i].shape = (mf_shape){ .rank = c->rank + 1, .dims = { samples } };
        memcpy(feeds[i].shape.dims + 1, c->dims, (size_t)c->rank * sizeof c->dims[0]);
    }
    for (int i = 0; i < MF_COUNT(rest); i++) {
        feeds[n_in + 1 + i].dtype = rest[i];
        feeds[n_in + 1 + i].shape = i == 0 ? MF_SHAPE(3) : MF_SCALAR;
    }
    return MF_OK;
}

static mf_status fit_rows_ask(const mf_fit_ctx *f, int64_t samples, mf_ranges *rows)
{
    mf_trainer *t = f->t;
    const mf_names *n = &t->step_names;
    const char *target = mf_node_name(t->graph.train);
    mf_tensor *feeds = mf_calloc(n->n_feeds, sizeof *feeds);
    const mf_tensor **list = mf_calloc(n->n_feeds, sizeof *list);
    const mf_loop_call call = { n->feeds,   list,         n->fetches, &target,
                                n->n_feeds, n->n_fetches, 1,          NULL };
    mf_status st = feeds && list ? describe_feeds(f, samples, feeds) : MF_NOMEM("feeds");

    for (int i = 0; list && i < n->n_feeds; i++)
        list[i] = &feeds[i];
    if (st == MF_OK)
        st = t->dist->ops.step->rows(t->dist, &call, (int)t->model->n_inputs + 1, samples, rows);
    mf_free(list);
    mf_free(feeds);
    return st;
}

mf_status mf_fit_find_rows(mf_fit_ctx *f, mf_needed needed[MF_NEEDED], int *n)
{
    int64_t sizes[MF_NEEDED];
    int n_sizes;

    *n = 0;
    if (!MF_DIST_HAS(f->t->dist, step, rows) || !is_run_alone(f))
        return MF_OK;
    n_sizes = fit_rows_find_sizes(f, sizes);
    for (int i = 0; i < n_sizes; i++) {
        const mf_status st = fit_rows_ask(f, sizes[i], &needed[*n].rows);

        needed[*n].whole = sizes[i];
        ++*n;
        if (st == MF_OK)
            continue;
        while (--*n >= 0)
            mf_ranges_deinit(&needed[*n].rows);
        return st;
    }
    for (int i = 0; i < MF_NEEDED; i++)
        f->cut_sizes[i] = i < n_sizes ? sizes[i] : 0;
    f->cuts = f->t->dist->rows.version;
    return MF_OK;
}

mf_status mf_fit_read_rows(mf_fit_ctx *f)
{
    mf_needed needed[MF_NEEDED] = { { 0 } };
    int n;

    if (!MF_DIST_HAS(f->t->dist, step, rows) || f->cuts == f->t->dist->rows.version)
        return MF_OK;
    MF_TRY(mf_fit_find_rows(f, needed, &n));
    return mf_iterator_need(f->it, needed, n);
}

void mf_fit_note_rows(mf_fit_ctx *f, const mf_batch *batch)
{
    mf_dist *dist = f->t->dist;

    dist->rows.n_feeds = 0;
    for (int i = 0; i < MF_NEEDED; i++) {
        if (batch->whole == f->cut_sizes[i])
            dist->rows.n_feeds = (int)f->t->model->n_inputs + 1;
    }
    dist->samples.total += batch->whole;
    dist->samples.read += batch->n;
}
