/* SPDX-License-Identifier: Apache-2.0 */
/* ps_round.c - a round of a worker with parameter servers: a push to every server and what they
 * answer. */
#include "base/mem.h"
#include "job/ps_client.h"

#include <math.h>
#include <string.h>

/* ---- a push ---- */

static bool is_gradient(const mf_ps_client *c, int value)
{
    const mf_step_graph *g = &c->t->graph;

    for (int i = 0; i < g->n_gradients; i++) {
        if (mf_rounds_value(c->rounds, g->gradients[i].at) == value ||
            (g->gradients[i].ids >= 0 && mf_rounds_value(c->rounds, g->gradients[i].ids) == value))
            return true;
    }
    return false;
}

static const mf_gradient *dense_gradient(const mf_ps_client *c, const mf_weight *w)
{
    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (c->t->graph.gradients[i].weight == w && c->t->graph.gradients[i].ids < 0)
            return &c->t->graph.gradients[i];
    }
    return NULL;
}

static void write_extra(const mf_ps_client *c, const mf_round *r, int part, mf_buf *out)
{
    for (int v = 0; v < r->n_values; v++) {
        if (!is_gradient(c, v))
            mf_buf_bytes(out, r->values[v].part[part].data,
                         mf_tensor_bytes(&r->values[v].part[part]));
    }
}

static int64_t count_extra(const mf_ps_client *c, const mf_round *r)
{
    int64_t n = 0;

    for (int v = 0; v < r->n_values; v++)
        n += is_gradient(c, v) ? 0 : mf_shape_span(&r->values[v].shape, 0, r->values[v].shape.rank);
    return n;
}

static void write_dense(const mf_ps_client *c, const mf_round *r, int server, int part, mf_buf *out)
{
    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];
        const mf_gradient *g = dense_gradient(c, s->weight);

        if (g) {
            const mf_tensor *x = &r->values[mf_rounds_value(c->rounds, g->at)].part[part];

            mf_buf_bytes(out, (const float *)x->data + s->from,
                         (size_t)(s->to - s->from) * sizeof(float));
        }
    }
}

/* The rows that this server holds, in the order in which they were looked up. */
static mf_status write_rows(const mf_ps_client *c, const mf_round *r, int server,
                            const mf_gradient *g, mf_buf *out)
{
    const mf_tensor *rows = &r->values[mf_rounds_value(c->rounds, g->at)].part[0];
    const mf_tensor *ids = &r->values[mf_rounds_value(c->rounds, g->ids)].part[0];
    const mf_piece *s = mf_placement_find(&c->place, server, g->weight);
    const int64_t width = mf_shape_span(&g->weight->shape, 1, g->weight->shape.rank);
    const int64_t lo = s ? s->from / width : 0, hi = s ? s->to / width : 0;
    const int64_t total = r->n_parts > 0 ? ids->count : 0;
    mf_buf kept = { 0 };
    int64_t n = 0;
    mf_status st;

    for (int64_t i = 0; i < total; i++) {
        const int64_t id = (int64_t)mf_tensor_float_at(ids, i);

        if (id < lo || id >= hi)
            continue;
        n++;
        mf_buf_bytes(&kept, (const float *)rows->data + i * width, (size_t)width * sizeof(float));
    }
    mf_buf_bytes(out, &n, sizeof n);
    for (int64_t i = 0; i < total; i++) {
        const int64_t id = (int64_t)mf_tensor_float_at(ids, i);

        if (id >= lo && id < hi)
            mf_buf_bytes(out, &id, sizeof id);
    }
    st = mf_buf_finish(&kept);
    if (st == MF_OK)
        mf_buf_bytes(out, kept.data, kept.len);
    mf_buf_deinit(&kept);
    return st;
}

static bool loss_is_bad(const mf_ps_client *c, const mf_round *r)
{
    const mf_round_value *loss = &r->values[mf_rounds_value(c->rounds, 0)];

    for (int p = 0; p < r->n_parts; p++) {
        if (!isfinite(((const float *)loss->part[p].data)[0]))
            return true;
    }
    return false;
}

static mf_status write_push(const mf_ps_client *c, const mf_round *r, int server, mf_buf *out)
{
    const int64_t shards = c->t->options.shards;
    const mf_ps_push head = {
        .step = r->step,
        .samples = r->samples,
        .leaves = r->samples < shards ? r->samples : shards,
        .n_parts = r->n_parts,
        .n_extra = server == 0 ? count_extra(c, r) : 0,
        .version = c->version[server],
        .learning_rate = mf_schedule_at(&c->t->schedule, r->step),
        .flags = (loss_is_bad(c, r) ? MF_PS_BAD : 0) | (r->wants_stop ? MF_PS_STOP : 0),
    };

    mf_buf_bytes(out, &head, sizeof head);
    mf_buf_bytes(out, r->parts, (size_t)r->n_parts * sizeof r->parts[0]);
    for (int p = 0; p < r->n_parts; p++) {
        write_dense(c, r, server, p, out);
        if (server == 0)
            write_extra(c, r, p, out);
    }
    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (c->t->graph.gradients[i].ids >= 0)
            MF_TRY(write_rows(c, r, server, &c->t->graph.gradients[i], out));
    }
    return mf_buf_finish(out);
}

/* ---- what comes back ---- */

static mf_status room_for_results(mf_round *r)
{
    for (int v = 0; v < r->n_values; v++) {
        mf_round_value *x = &r->values[v];

        mf_tensor_clear(&x->result); /* others may hold it */
        x->result = (mf_tensor){ 0 }; /* rows come one server after the other */
        if (!x->concat)
            MF_TRY(mf_tensor_alloc(&x->result, x->dtype, &x->shape));
    }
    return MF_OK;
}

static void read_dense(const mf_ps_client *c, mf_round *r, int server, mf_reader *in)
{
    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];
        const mf_gradient *g = dense_gradient(c, s->weight);
        const void *from = g ? mf_reader_take(in, s->to - s->from, sizeof(float)) : NULL;

        if (from)
            memcpy((float *)r->values[mf_rounds_value(c->rounds, g->at)].result.data + s->from,
                   from, (size_t)(s->to - s->from) * sizeof(float));
    }
}

static void read_extra(const mf_ps_client *c, mf_round *r, mf_reader *in)
{
    for (int v = 0; v < r->n_values; v++) {
        mf_tensor *x = &r->values[v].result;
        const void *from = is_gradient(c, v) ? NULL : mf_reader_take(in, x->count, sizeof(float));

        if (from)
            memcpy(x->data, from, mf_tensor_bytes(x));
    }
}

/* Behind the rows that other servers have sent: ids, and values. */
static mf_status append_rows(const mf_ps_client *c, mf_round *r, const mf_gradient *g,
                             mf_reader *in)
{
    mf_round_value *rows = &r->values[mf_rounds_value(c->rounds, g->at)];
    mf_round_value *ids = &r->values[mf_rounds_value(c->rounds, g->ids)];
    const int64_t width = mf_shape_span(&g->weight->shape, 1, g->weight->shape.rank);
    const char *count = mf_reader_take(in, 1, sizeof(int64_t));
    int64_t n = 0, had = ids->result.count;
    mf_shape shape = rows->shape;
    mf_tensor more_ids = { 0 }, more_rows = { 0 };
    const char *new_ids, *new_rows;

    if (count)
        memcpy(&n, count, sizeof n);
    new_ids = mf_reader_take(in, n, sizeof(int64_t));
    new_rows = mf_reader_take(in, n, (size_t)width * sizeof(float));
    if (in->bad)
        return MF_OK; /* said by the caller */
    shape.dims[0] = had + n;
    MF_TRY(mf_tensor_alloc(&more_ids, ids->dtype, &MF_SHAPE(had + n)));
    MF_TRY(mf_tensor_alloc(&more_rows, MF_DTYPE_F32, &shape));
    for (int64_t i = 0; i < had + n; i++) {
        int64_t id;

        if (i >= had)
            memcpy(&id, new_ids + (size_t)(i - had) * sizeof id, sizeof id);
        else
            id = (int64_t)mf_tensor_float_at(&ids->result, i);
        mf_tensor_put(&more_ids, i, (double)id);
    }
    if (had > 0)
        memcpy(more_rows.data, rows->result.data, mf_tensor_bytes(&rows->result));
    if (n > 0)
        memcpy((float *)more_rows.data + had * width, new_rows,
               (size_t)(n * width) * sizeof(float));
    mf_tensor_clear(&ids->result);
    mf_tensor_clear(&rows->result);
    ids->result = more_ids;
    rows->result = more_rows;
    return MF_OK;
}

static mf_status read_reply(mf_ps_client *c, mf_round *r, int server, mf_reader *in)
{
    const void *at = mf_reader_take(in, 1, sizeof(mf_ps_reply));
    mf_ps_reply head;

    if (!at)
        return MF_OK;
    memcpy(&head, at, sizeof head);
    if (head.status != MF_OK)
        return MF_FAIL((mf_status)head.status, "%.*s", (int)in->left, in->at);
    c->stop |= (head.flags & MF_PS_STOP) != 0;
    c->version[server] = head.version;
    read_dense(c, r, server, in);
    if (server == 0)
        read_extra(c, r, in);
    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (c->t->graph.gradients[i].ids >= 0)
            MF_TRY(append_rows(c, r, &c->t->graph.gradients[i], in));
    }
    return MF_OK;
}

static mf_status take_reply(mf_ps_client *c, mf_round *r, int server)
{
    void *data;
    size_t size;
    mf_reader in;
    mf_status st;

    MF_TRY(mf_ps_answer(c, server, MF_PS_PUSH, r->step, &data, &size));
    in = (mf_reader){ .at = data, .left = size };
    st = read_reply(c, r, server, &in);
    if (st == MF_OK && (in.bad || in.left > 0))
        st = MF_FAIL(MF_DATA_LOSS, "%s answered %zu bytes that make no sense",
                     mf_ps_server_name(c, server), size);
    mf_free(data);
    return st;
}

/* ---- steps between two pushes ---- */

static mf_status hold(mf_ps_client *c, const mf_round *r)
{
    for (int v = 0; v < r->n_values && r->n_parts > 0; v++) {
        if (is_gradient(c, v))
            MF_TRY(mf_ps_held_add(&c->held, r, v));
    }
    c->held.steps++;
    return MF_OK;
}

static mf_status give(mf_ps_client *c, mf_round *r)
{
    const mf_step_graph *g = &c->t->graph;

    for (int i = 0; i < g->n_gradients && r->n_parts > 0; i++) {
        MF_TRY(mf_ps_held_give(&c->held, r, mf_rounds_value(c->rounds, g->gradients[i].at), false));
        if (g->gradients[i].ids >= 0)
            MF_TRY(mf_ps_held_give(&c->held, r, mf_rounds_value(c->rounds, g->gradients[i].ids),
                                   true));
    }
    c->held.steps = 0;
    return MF_OK;
}

/* Nothing comes back: weights stay as they are, sums are our own. */
static mf_status keep_weights(mf_ps_client *c, mf_round *r)
{
    const mf_step_graph *g = &c->t->graph;

    for (int v = 0; v < r->n_values; v++) {
        mf_round_value *x = &r->values[v];
        mf_shape none = x->shape;

        none.dims[0] = x->concat ? 0 : none.dims[0];
        if (x->concat)
            MF_TRY(mf_tensor_alloc(&x->result, x->dtype, &none));
        else if (!is_gradient(c, v) && r->n_parts > 0)
            memcpy(x->result.data, x->part[0].data, mf_tensor_bytes(&x->result));
    }
    for (int i = 0; i < g->n_gradients; i++) {
        mf_tensor *result = &r->values[mf_rounds_value(c->rounds, g->gradients[i].at)].result;

        if (g->gradients[i].ids >= 0)
            continue;
        mf_tensor_clear(result);
        MF_TRY(mf_variable_read(mf_trainer_find(c->t, g->gradients[i].weight->name)->variable,
                                result));
    }
    return MF_OK;
}

static mf_status push_and_pull(mf_ps_client *c, mf_round *r)
{
    mf_buf out = { 0 };
    mf_status st = room_for_results(r);

    c->seq++;
    c->stop = false;
    for (int s = 0; s < c->n_servers && st == MF_OK; s++) {
        mf_buf_clear(&out);
        st = write_push(c, r, s, &out);
        if (st == MF_OK)
            st = mf_ps_ask(c, s, MF_PS_PUSH, r->step, &out);
    }
    mf_buf_deinit(&out);
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = take_reply(c, r, s);
    if (st != MF_OK)
        mf_net_abort(c->net, st);
    return st;
}

mf_status mf_ps_round(void *ctx, mf_round *r)
{
    mf_ps_client *c = ctx;

    if (c->mode.period <= 1)
        return push_and_pull(c, r);
    MF_TRY(hold(c, r));
    if (c->held.steps < c->mode.period) {
        MF_TRY(room_for_results(r));
        return keep_weights(c, r);
    }
    MF_TRY(give(c, r));
    return push_and_pull(c, r);
}
