/* SPDX-License-Identifier: Apache-2.0 */
/* ps_update.c - pushes of workers are checked and summed, and weights are updated. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/param_server/ps_server.h"

#include <string.h>

/* ---- checking a push ---- */

/* The next block of rows of a push: their number, ids, values. */
static bool ps_update_take_rows(push *p, int64_t width, int64_t *n, const int64_t **ids,
                                const float **rows)
{
    mf_ps_reader in = { .at = p->rows, .left = p->rows_left };
    const void *count = mf_ps_reader_take(&in, 1, sizeof *n);

    *n = 0;
    if (count)
        memcpy(n, count, sizeof *n);
    *ids = mf_ps_reader_take(&in, *n, sizeof **ids);
    *rows = mf_ps_reader_take(&in, *n, (size_t)width * sizeof(float));
    p->rows = in.at;
    p->rows_left = in.left;
    return !in.bad;
}

/* The push ends after the blocks of rows. */
static bool rows_make_sense(const server *s, push p)
{
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        const mf_weight *w = s->store.graph.gradients[g].weight;
        const int64_t *ids;
        const float *rows;
        int64_t n;

        if (w->lookups &&
            !ps_update_take_rows(&p, mf_shape_span(&w->shape, 1, w->shape.rank), &n, &ids, &rows))
            return false;
    }
    return p.rows_left == 0;
}

mf_status mf_ps_look_at(const server *s, mf_mail *r, push *p)
{
    mf_ps_reader in = { .at = r->data, .left = r->frame.size };
    const void *head = mf_ps_reader_take(&in, 1, sizeof p->head);

    *p = (push){ .of = r };
    if (head)
        memcpy(&p->head, head, sizeof p->head);
    if (!head || p->head.n_parts < 0 || p->head.n_parts > mf_ps_most_parts(s) ||
        p->head.n_extra < 0 || p->head.n_extra > 1 << 24 || p->head.leaves < 1 ||
        p->head.leaves > MF_REDUCTION_TREE_LEAVES || p->head.answer >= MF_PS_ANSWERS ||
        p->head.workers < 1 || p->head.workers > s->o.n_workers || p->head.batches < 1 ||
        p->head.batches > 1 << 24)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed invalid data",
                       mf_net_name(s->o.net, r->from));
    p->parts = mf_ps_reader_take(&in, p->head.n_parts, sizeof *p->parts);
    if (p->head.in_lane >= 0) { /* the rest lies there */
        const mf_ps_shm *lane = &s->lanes[r->from];

        in.bad |= in.left > 0 || !lane->memory || p->head.in_lane > lane->room;
        in.at = in.bad ? NULL : mf_ps_shm_push(lane);
        in.left = (size_t)p->head.in_lane;
    }
    p->dense = mf_ps_reader_take(&in, p->head.n_parts * s->dense, sizeof(float));
    p->extra = mf_ps_reader_take(&in, p->head.n_parts * p->head.n_extra, sizeof(float));
    p->rows = in.at;
    p->rows_left = in.left;
    if (in.bad || !rows_make_sense(s, *p))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed %llu bytes, which is not the expected size",
                       mf_net_name(s->o.net, r->from), (unsigned long long)r->frame.size);
    return MF_OK;
}

/* ---- sums ---- */

/* Which floats of pushes. */
typedef struct part_of {
    bool extra; /* otherwise dense ones */
    int64_t at, n;
} part_of;

static const float *ps_update_floats_of(const server *s, const push *p, int64_t part,
                                        const part_of *x)
{
    return x->extra ? p->extra + part * p->head.n_extra + x->at
                    : p->dense + part * s->dense + x->at;
}

/* These floats of all parts of all pushes, in the tree. */
static mf_status sum_tree(const server *s, const push *const *all, int n_all, const part_of *x,
                          float *out)
{
    mf_reduction_tree_part *parts;
    int n_parts = 0;
    mf_status st;

    for (int i = 0; i < n_all; i++)
        n_parts += (int)all[i]->head.n_parts;
    parts = mf_calloc(n_parts, sizeof *parts);
    if (!parts)
        return MF_NOMEM("a sum");
    n_parts = 0;
    for (int i = 0; i < n_all; i++) {
        for (int64_t p = 0; p < all[i]->head.n_parts; p++)
            parts[n_parts++] =
                (mf_reduction_tree_part){ all[i]->parts[p], ps_update_floats_of(s, all[i], p, x) };
    }
    st = mf_reduction_tree_covers(all[0]->head.leaves, parts, n_parts)
             ? mf_reduction_tree_sum(all[0]->head.leaves,
                                     (mf_reduction_tree_node){ 0, all[0]->head.leaves }, parts,
                                     n_parts, MF_DTYPE_F32, x->n, out)
             : MF_FAIL(MF_INVALID_ARGUMENT, "the pushes of step %lld do not make up the batch",
                       (long long)all[0]->head.step);
    mf_free(parts);
    return st;
}

/* Pushes that are batches of their own: their mean, in the order of the workers. */
static mf_status ps_update_mean_of(const server *s, const push *const *all, int n_all,
                                   const part_of *x, float *out)
{
    float *one = mf_calloc(x->n, sizeof *one);
    mf_status st = one ? sum_tree(s, all, 1, x, out) : MF_NOMEM("a mean");

    for (int i = 1; i < n_all && st == MF_OK; i++) {
        st = sum_tree(s, all + i, 1, x, one);
        for (int64_t k = 0; k < x->n && st == MF_OK; k++)
            out[k] += one[k];
    }
    for (int64_t k = 0; k < x->n && st == MF_OK; k++)
        out[k] *= 1.0f / (float)n_all;
    mf_free(one);
    return st;
}

static mf_status ps_update_sum_of(const server *s, const push *const *all, int n_all,
                                  const part_of *x, float *out)
{
    return s->o.mode.sync || n_all == 1 ? sum_tree(s, all, n_all, x, out)
                                        : ps_update_mean_of(s, all, n_all, x, out);
}

mf_status mf_ps_sum_extra(const server *s, push *const *all, int n_all, float *out)
{
    const part_of extra = { .extra = true, .n = all[0]->head.n_extra };

    return ps_update_sum_of(s, (const push *const *)all, n_all, &extra, out);
}

/* One part that is everything needs no sum: the gradient is where it was pushed to. */
static bool is_whole(const push *const *all, int n_all)
{
    return n_all == 1 && all[0]->head.n_parts == 1 && all[0]->parts[0].lo == 0 &&
           all[0]->parts[0].hi == all[0]->head.leaves;
}

static mf_status ps_update_borrow(const float *from, const mf_shape *shape, mf_tensor *out)
{
    *out = (mf_tensor){ .dtype = MF_DTYPE_F32,
                        .shape = *shape,
                        .count = mf_shape_span(shape, 0, shape->rank),
                        .data = (void *)(uintptr_t)from };
    return mf_buffer_wrap(out->data, (size_t)out->count * sizeof(float), NULL, NULL, &out->buffer);
}

/* Aggregate the gradients of one slice in all pushes; shards: NULL, or the individual shards. */
static mf_status sum_slice(server *s, const push *const *all, int n_all, const part_of *part,
                           const mf_ps_shards *shards, const mf_shape *shape, mf_tensor *out)
{
    mf_tensor_clear(out);
    if (!shards && is_whole(all, n_all))
        return ps_update_borrow(ps_update_floats_of(s, all[0], 0, part), shape, out);
    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_F32, shape));
    return shards ? mf_ps_shards_aggregate(shards, part->at, part->n, out->data)
                  : ps_update_sum_of(s, all, n_all, part, out->data);
}

static mf_status sum_dense(server *s, const push *const *all, int n_all, const mf_ps_shards *shards)
{
    part_of part = { 0 };
    int g = 0;

    for (int i = 0; i < s->store.n_slices; i++, part.at += part.n) {
        const mf_weight *w = s->store.model->weights[i];

        for (; g < s->store.graph.n_gradients && s->store.graph.gradients[g].weight != w; g++)
            ;
        part.n = w->lookups ? 0 : mf_shape_span(&w->shape, 0, w->shape.rank);
        if (w->lookups)
            continue;
        MF_TRY(
            sum_slice(s, all, n_all, &part, shards, &w->shape, mf_ps_store_gradient(&s->store, g)));
    }
    return MF_OK;
}

static mf_status aggregate_dense(server *s, const push *const *all, int n_all)
{
    mf_ps_shards shards = { 0 };
    mf_status st;

    if (!mf_aggregate_is_apart(s->o.mode.aggregation.how))
        return sum_dense(s, all, n_all, NULL);
    st = mf_ps_shards_init(&shards, s, all, n_all);
    if (st == MF_OK)
        st = sum_dense(s, all, n_all, &shards);
    mf_ps_shards_deinit(&shards);
    return st;
}

/* ---- rows ---- */

int mf_ps_index_of(const server *s, const mf_weight *w)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        if (s->store.model->weights[i] == w)
            return i;
    }
    return 0;
}

int64_t mf_ps_first_row(const server *s, const mf_weight *w)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        if (s->store.model->weights[i] == w)
            return s->store.slices[i].from / mf_shape_span(&w->shape, 1, w->shape.rank);
    }
    return 0;
}

/* Gradient g: the rows of all pushes, worker after worker. */
static mf_status ps_update_join_rows(server *s, push *const *all, int n_all, int g,
                                     int64_t first_row)
{
    const mf_weight *w = s->store.graph.gradients[g].weight;
    const int64_t width = mf_shape_span(&w->shape, 1, w->shape.rank);
    mf_buf ids = { 0 }, rows = { 0 };
    mf_shape shape = w->shape;
    mf_tensor *x = mf_ps_store_gradient(&s->store, g), *at = mf_ps_store_rows(&s->store, g);
    mf_status st = MF_OK;

    for (int i = 0; i < n_all && st == MF_OK; i++) {
        const int64_t *id;
        const float *row;
        int64_t n;

        if (!ps_update_take_rows(all[i], width, &n, &id, &row))
            st = MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed too few rows",
                         mf_net_name(s->o.net, all[i]->of->from));
        for (int64_t k = 0; k < n && st == MF_OK; k++) {
            int64_t local;

            memcpy(&local, (const char *)id + (size_t)k * sizeof local, sizeof local);
            local -= first_row;
            if (local < 0 || local >= w->shape.dims[0])
                st = MF_FAIL(MF_INVALID_ARGUMENT, "row %lld of %s is not here",
                             (long long)(local + first_row), w->name);
            mf_buf_bytes(&ids, &local, sizeof local);
        }
        if (st == MF_OK)
            mf_buf_bytes(&rows, row, (size_t)(n * width) * sizeof(float));
    }
    mf_tensor_clear(x);
    mf_tensor_clear(at);
    shape.dims[0] = (int64_t)(ids.len / sizeof(int64_t));
    if (st == MF_OK)
        st = mf_tensor_alloc(x, MF_DTYPE_F32, &shape);
    if (st == MF_OK)
        st = mf_tensor_alloc(at, MF_DTYPE_I64, &MF_SHAPE(shape.dims[0]));
    if (st == MF_OK && shape.dims[0] > 0) {
        memcpy(x->data, rows.data, rows.len);
        memcpy(at->data, ids.data, ids.len);
        for (int64_t k = 0; k < x->count && !s->o.mode.sync && n_all > 1; k++)
            ((float *)x->data)[k] *= 1.0f / (float)n_all;
    }
    mf_buf_deinit(&ids);
    mf_buf_deinit(&rows);
    return st;
}

static void touch_rows(server *s, int g)
{
    const mf_weight *w = s->store.graph.gradients[g].weight;
    const mf_tensor *at = mf_ps_store_rows(&s->store, g);
    const int table = mf_ps_index_of(s, w);
    const bool some = mf_ps_store_changes_rows(&s->store, table);
    const int64_t n = some ? at->count : w->shape.dims[0];

    for (int64_t i = 0; i < n; i++)
        s->touched[table][some ? ((const int64_t *)at->data)[i] : i] = s->version;
}

static void touch_tables(server *s)
{
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        if (s->store.graph.gradients[g].weight->lookups)
            touch_rows(s, g);
    }
}

/* ---- a step ---- */

mf_status mf_ps_apply(server *s, push *const *all, int n_all)
{
    int64_t start = mf_clock_ns();

    for (int i = 0; i < n_all; i++) {
        if (all[i]->head.flags & MF_PS_BAD)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "check_loss: the loss is NaN/Inf: nothing was updated");
        if (all[i]->head.leaves != all[0]->head.leaves ||
            all[i]->head.n_extra != all[0]->head.n_extra)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s and %s do not do the same step",
                           mf_net_name(s->o.net, all[i]->of->from),
                           mf_net_name(s->o.net, all[0]->of->from));
    }
    MF_TRY(aggregate_dense(s, (const push *const *)all, n_all));
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        const mf_weight *w = s->store.graph.gradients[g].weight;

        if (w->lookups)
            MF_TRY(ps_update_join_rows(s, all, n_all, g, mf_ps_first_row(s, w)));
    }
    mf_ps_note(s, "aggregate", "gradients of all pushes", start);
    start = mf_clock_ns();
    MF_TRY(mf_ps_store_update(&s->store, all[0]->head.step, all[0]->head.learning_rate));
    mf_ps_note(s, "update", "weights and slots", start);
    s->version++;
    touch_tables(s);
    return MF_OK;
}
