/* SPDX-License-Identifier: Apache-2.0 */
/* ps_answer.c - replies to pushes: the new weights, the rows of tables that the worker lacks, and
 * sums. */
#include "base/mem.h"
#include "dist/param_server/ps_server.h"
#include "dist/step_flags.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static int ps_answer_by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Rows that this gradient has changed, each once: after the update, the server owns the feed. */
static int64_t changed_now(server *s, int g, int64_t *ids)
{
    const mf_tensor *at = mf_ps_store_rows(&s->store, g);
    int64_t n = 0;

    memcpy(ids, at->data, (size_t)at->count * sizeof *ids);
    qsort(ids, (size_t)at->count, sizeof *ids, ps_answer_by_number);
    for (int64_t i = 0; i < at->count; i++) {
        if (i == 0 || ids[i] != ids[i - 1])
            ids[n++] = ids[i];
    }
    return n;
}

static int64_t all_rows(int64_t n, int64_t *ids)
{
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    return n;
}

/* Rows that any worker has changed since this worker's last push. */
static int64_t changed_since(const server *s, int weight, int64_t version, int64_t *ids)
{
    const int64_t rows = s->store.model->weights[weight]->shape.dims[0];
    int64_t n = 0;

    for (int64_t i = 0; i < rows; i++) {
        if (s->touched[weight][i] > version)
            ids[n++] = i;
    }
    return n;
}

/* Rows of gradient g that the worker (-1: any) does not have yet. Owns: mf_free(*ids). */
static mf_status find_missing_rows(server *s, int g, int worker, int64_t **ids, int64_t *n)
{
    const int table = mf_ps_index_of(s, s->store.graph.gradients[g].weight);
    const int64_t rows = s->store.model->weights[table]->shape.dims[0];
    const bool some = mf_ps_store_changes_rows(&s->store, table);
    const int64_t most = worker < 0 && some ? mf_ps_store_rows(&s->store, g)->count : rows;

    *ids = mf_calloc(most + 1, sizeof **ids);
    if (!*ids)
        return MF_NOMEM("rows");
    if (worker >= 0)
        *n = changed_since(s, table, s->pulled[worker], *ids);
    else
        *n = some ? changed_now(s, g, *ids) : all_rows(rows, *ids);
    return MF_OK;
}

/* Their numbers in the complete table, of which this slice begins with row `first`. */
static void write_numbers(const int64_t *ids, int64_t n, int64_t first, mf_ps_out *out)
{
    mf_ps_out_put(out, &n, sizeof n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t global = ids[i] + first;

        mf_ps_out_put(out, &global, sizeof global);
    }
}

static void write_values(const mf_tensor *table, const int64_t *ids, int64_t n, mf_ps_out *out)
{
    const size_t row = mf_tensor_bytes(table) / (size_t)table->shape.dims[0];

    if (n == table->shape.dims[0]) { /* in order */
        mf_ps_out_put(out, table->data, mf_tensor_bytes(table));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        mf_ps_out_put(out, (const char *)table->data + (size_t)ids[i] * row, row);
}

static mf_status ps_answer_write_rows(server *s, int g, int worker, mf_ps_out *out)
{
    const mf_weight *w = s->store.graph.gradients[g].weight;
    mf_tensor value = { 0 };
    int64_t *ids, n;
    mf_status st;

    MF_TRY(mf_variable_read(s->store.variables[mf_ps_index_of(s, w)].variable, &value));
    st = find_missing_rows(s, g, worker, &ids, &n);
    if (st == MF_OK) {
        write_numbers(ids, n, mf_ps_first_row(s, w), out);
        write_values(&value, ids, n, out);
    }
    mf_tensor_clear(&value);
    mf_free(ids);
    return st;
}

/* ---- all of it ---- */

static mf_status ps_answer_write_dense(server *s, mf_ps_out *out)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        mf_tensor value = { 0 };

        if (s->store.model->weights[i]->lookups)
            continue;
        MF_TRY(mf_variable_read(s->store.variables[i].variable, &value));
        mf_ps_out_align(out);
        mf_ps_out_put(out, value.data, mf_tensor_bytes(&value));
        mf_tensor_clear(&value);
    }
    return MF_OK;
}

static mf_status ps_answer_write_body(server *s, push *const *all, int n_all, int worker,
                                      mf_ps_out *out)
{
    const int64_t extra = all[0]->head.n_extra;
    float *to;

    MF_TRY(ps_answer_write_dense(s, out));
    if (extra > 0) {
        to = mf_ps_out_room(out, (size_t)extra * sizeof(float));
        if (to)
            MF_TRY(mf_ps_sum_extra(s, all, n_all, to));
    }
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        if (s->store.graph.gradients[g].weight->lookups)
            MF_TRY(ps_answer_write_rows(s, g, worker, out));
    }
    return MF_OK;
}

mf_status mf_ps_write_reply(server *s, push *const *all, int n_all, int worker, const push *to,
                            mf_buf *message)
{
    mf_ps_reply head = { .n_extra = all[0]->head.n_extra,
                         .version = s->version,
                         .done = s->start + s->batches + s->late_batches,
                         .in_lane = -1 };
    const mf_ps_out plain = { .pool = s->t->pool, .buf = message };
    mf_ps_out out = plain;
    int step_flags = s->stop ? MF_STEP_FLAG_STOP : 0;

    for (int i = 0; i < n_all; i++)
        step_flags = mf_step_flags_join(step_flags, all[i]->head.step_flags);
    s->stop = step_flags & MF_STEP_FLAG_STOP;
    head.step_flags = (uint32_t)step_flags;
    mf_buf_clear(message);
    if (to) {
        const mf_ps_shm *lane = &s->lanes[to->of->from];

        out.at = mf_ps_shm_answer(lane, (int)to->head.answer);
        out.left = (size_t)lane->room;
        MF_TRY(ps_answer_write_body(s, all, n_all, worker, &out));
        head.in_lane = out.full ? -1 : lane->room - (int64_t)out.left;
        out = plain;
    }
    mf_buf_bytes(message, &head, sizeof head);
    if (head.in_lane < 0)
        MF_TRY(ps_answer_write_body(s, all, n_all, worker, &out));
    return mf_buf_finish(message);
}
