/* SPDX-License-Identifier: Apache-2.0 */
/* ps_round.c - a worker's round with parameter servers: a push to every server and the replies. */
#include "base/mem.h"
#include "dist/param_server/ps_client.h"

#include <string.h>

/* ---- replies ---- */

static mf_status room_for_results(const mf_ps_client *c, mf_push_pull_round *r)
{
    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];

        mf_tensor_clear(&x->result); /* others may hold a reference */
        x->result = (mf_tensor){ 0 }; /* weights and rows arrive server by server */
        if (c->gradient[v] < 0)
            MF_TRY(mf_tensor_alloc(&x->result, x->dtype, &x->shape));
    }
    return MF_OK;
}

/* A reply that is being decoded into tensors. */
typedef struct answer {
    mf_ps_reader in;
    mf_buffer *lane; /* where it lies, to refer to; NULL: in a message */
} answer;

static void align(answer *a)
{
    const size_t over = a->lane ? (uintptr_t)a->in.at % MF_PS_ALIGN : 0;

    if (over > 0)
        (void)mf_ps_reader_take(&a->in, 1, MF_PS_ALIGN - over);
}

/* A complete weight in a lane is used in place; parts of one are assembled. */
static mf_status set_weight(const mf_ps_client *c, mf_push_pull_round_value *x, const mf_piece *s,
                            const answer *a, const void *from)
{
    mf_tensor *to = &x->result;

    if (a->lane && s->from == 0 && s->to == mf_shape_span(&x->shape, 0, x->shape.rank)) {
        *to = (mf_tensor){ .dtype = x->dtype,
                           .shape = x->shape,
                           .count = s->to,
                           .data = (void *)(uintptr_t)from,
                           .buffer = mf_buffer_ref(a->lane) };
        return MF_OK;
    }
    if (!to->data)
        MF_TRY(mf_tensor_alloc(to, x->dtype, &x->shape));
    mf_ps_copy(c->t->pool, (float *)to->data + s->from, from,
               (size_t)(s->to - s->from) * sizeof(float));
    return MF_OK;
}

static mf_status ps_round_read_dense(const mf_ps_client *c, mf_push_pull_round *r, int server,
                                     answer *a)
{
    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];
        const int v = c->of_slice[server][i];
        const void *from;

        if (v < 0)
            continue;
        align(a);
        from = mf_ps_reader_take(&a->in, s->to - s->from, sizeof(float));
        if (from)
            MF_TRY(set_weight(c, &r->values[v], s, a, from));
    }
    return MF_OK;
}

static void ps_round_read_extra(const mf_ps_client *c, mf_push_pull_round *r, mf_ps_reader *in)
{
    for (int v = 0; v < r->n_values; v++) {
        mf_tensor *x = &r->values[v].result;
        const void *from =
            c->gradient[v] >= 0 ? NULL : mf_ps_reader_take(in, x->count, sizeof(float));

        if (from)
            memcpy(x->data, from, mf_tensor_bytes(x));
    }
}

/* Append to the rows of other servers: ids, and values. */
static mf_status append_rows(const mf_ps_client *c, mf_push_pull_round *r, int gradient,
                             mf_ps_reader *in)
{
    const mf_weight *w = c->t->graph.gradients[gradient].weight;
    mf_push_pull_round_value *rows = &r->values[c->at[gradient]];
    mf_push_pull_round_value *ids = &r->values[c->ids[gradient]];
    const int64_t width = mf_shape_span(&w->shape, 1, w->shape.rank);
    const char *count = mf_ps_reader_take(in, 1, sizeof(int64_t));
    int64_t n = 0, had = ids->result.count;
    mf_shape shape = rows->shape;
    mf_tensor more_ids = { 0 }, more_rows = { 0 };
    const char *new_ids, *new_rows;
    mf_status st;

    if (count)
        memcpy(&n, count, sizeof n);
    new_ids = mf_ps_reader_take(in, n, sizeof(int64_t));
    new_rows = mf_ps_reader_take(in, n, (size_t)width * sizeof(float));
    if (in->bad)
        return MF_OK; /* the caller reports it */
    shape.dims[0] = had + n;
    MF_TRY(mf_tensor_alloc(&more_ids, ids->dtype, &MF_SHAPE(had + n)));
    st = mf_tensor_alloc(&more_rows, MF_DTYPE_F32, &shape);
    if (st != MF_OK) {
        mf_tensor_clear(&more_ids);
        return st;
    }
    if (had > 0) {
        memcpy(more_ids.data, ids->result.data, mf_tensor_bytes(&ids->result));
        memcpy(more_rows.data, rows->result.data, mf_tensor_bytes(&rows->result));
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id;

        memcpy(&id, new_ids + (size_t)i * sizeof id, sizeof id);
        mf_tensor_put(&more_ids, had + i, (double)id);
    }
    if (n > 0)
        memcpy((float *)more_rows.data + had * width, new_rows,
               (size_t)(n * width) * sizeof(float));
    mf_tensor_clear(&ids->result);
    mf_tensor_clear(&rows->result);
    ids->result = more_ids;
    rows->result = more_rows;
    return MF_OK;
}

/* The rest of the answer lies there. */
static mf_status look_into_lane(const mf_ps_client *c, int server, const mf_ps_reply *head,
                                answer *a)
{
    const mf_ps_shm *lane = &c->lanes[server];
    const int i = c->answer[server];

    if (i < 0 || head->in_lane > lane->room || a->in.left > 0)
        return MF_FAIL(MF_DATA_LOSS, "%s replied with memory that is not shared",
                       mf_ps_server_name(c, server));
    a->lane = lane->answers[i];
    a->in = (mf_ps_reader){ .at = mf_ps_shm_answer(lane, i), .left = (size_t)head->in_lane };
    return MF_OK;
}

static mf_status read_reply(mf_ps_client *c, mf_push_pull_round *r, int server, answer *a)
{
    const void *at = mf_ps_reader_take(&a->in, 1, sizeof(mf_ps_reply));
    mf_ps_reply head;

    if (!at)
        return MF_OK;
    memcpy(&head, at, sizeof head);
    if (head.status != MF_OK)
        return MF_FAIL((mf_status)head.status, "%.*s", (int)a->in.left, a->in.at);
    c->step_flags = (int)head.step_flags; /* all servers got the same flags */
    c->version[server] = head.version;
    c->done = server == 0 ? head.done : c->done;
    c->pulled += head.in_lane > 0 ? head.in_lane : 0;
    if (head.in_lane >= 0)
        MF_TRY(look_into_lane(c, server, &head, a));
    MF_TRY(ps_round_read_dense(c, r, server, a));
    if (server == 0)
        ps_round_read_extra(c, r, &a->in);
    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (mf_ps_has_rows(c, server, i))
            MF_TRY(append_rows(c, r, i, &a->in));
    }
    return MF_OK;
}

static mf_status take_reply(mf_ps_client *c, mf_push_pull_round *r, int server)
{
    void *data;
    size_t size;
    answer a;
    mf_status st;

    MF_TRY(mf_ps_answer_push(c, server, r->step, &data, &size));
    c->pulled += (int64_t)size;
    c->replied[server] = (int64_t)size > c->replied[server] ? (int64_t)size : c->replied[server];
    a = (answer){ .in = { .at = data, .left = size } };
    st = read_reply(c, r, server, &a);
    if (st == MF_OK && (a.in.bad || a.in.left > 0))
        st = MF_FAIL(MF_DATA_LOSS, "%s answered %zu bytes that make no sense",
                     mf_ps_server_name(c, server), size);
    mf_free(data);
    return st;
}

/* ---- steps between two pushes ---- */

static mf_status ps_round_hold(mf_ps_client *c, const mf_push_pull_round *r)
{
    for (int v = 0; v < r->n_values && r->n_parts > 0; v++) {
        if (c->gradient[v] >= 0)
            MF_TRY(mf_ps_accumulate_add(&c->held, r, v));
    }
    c->held.steps++;
    return MF_OK;
}

static mf_status ps_round_give(mf_ps_client *c, mf_push_pull_round *r)
{
    const mf_step_graph *g = &c->t->graph;

    for (int i = 0; i < g->n_gradients && r->n_parts > 0; i++) {
        MF_TRY(mf_ps_accumulate_give(&c->held, r, c->at[i], false));
        if (c->ids[i] >= 0)
            MF_TRY(mf_ps_accumulate_give(&c->held, r, c->ids[i], true));
    }
    c->batches = c->held.steps;
    c->held.steps = 0;
    return MF_OK;
}

/* No reply: weights do not change, sums are this worker's own. */
static mf_status keep_weights(mf_ps_client *c, mf_push_pull_round *r)
{
    const mf_step_graph *g = &c->t->graph;

    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];
        mf_shape none = x->shape;

        none.dims[0] = x->concat ? 0 : none.dims[0];
        if (x->concat)
            MF_TRY(mf_tensor_alloc(&x->result, x->dtype, &none));
        else if (c->gradient[v] < 0 && r->n_parts > 0 && x->result.data)
            memcpy(x->result.data, x->part[0].data, mf_tensor_bytes(&x->result));
    }
    for (int i = 0; i < g->n_gradients; i++) {
        mf_tensor *result = &r->values[c->at[i]].result;

        if (c->ids[i] >= 0)
            continue;
        mf_tensor_clear(result);
        MF_TRY(mf_variable_read(mf_trainer_find(c->t, g->gradients[i].weight->name)->variable,
                                result));
    }
    return MF_OK;
}

static mf_status ask_servers(mf_ps_client *c, mf_push_pull_round *r)
{
    mf_status st = room_for_results(c, r);

    if (st == MF_OK)
        st = mf_ps_open_lanes(c, r);
    c->seq++;
    c->step_flags = 0;
    for (int s = 0; s < c->n_servers && st == MF_OK; s++) {
        mf_buf_clear(&c->push[s]);
        st = mf_ps_write_push(c, r, s, &c->push[s]);
        if (st == MF_OK)
            st = mf_ps_ask_push(c, s, r->step);
    }
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = take_reply(c, r, s);
    return st;
}

/* The first worker of the host asks for all. */
static mf_status ask_for_host(mf_ps_client *c, mf_push_pull_round *r)
{
    mf_push_pull_round all;
    mf_status st = mf_ps_host_aggregate_gather(&c->host_aggregate, c->t->options.shards, r, &all);

    if (st == MF_OK && mf_ps_host_aggregate_is_first(&c->host_aggregate)) {
        st = ask_servers(c, &all);
        for (int v = 0; v < r->n_values && st == MF_OK; v++)
            mf_tensor_move(&r->values[v].result, &all.values[v].result);
    }
    mf_push_pull_round_deinit(&all);
    return st == MF_OK ? mf_ps_host_aggregate_share(&c->host_aggregate, r, &c->step_flags) : st;
}

static void weigh_value(mf_push_pull_round *r, int v, float factor)
{
    const int n_parts = r->values[v].concat && r->n_parts > 0 ? 1 : r->n_parts;

    for (int p = 0; p < n_parts; p++) {
        const mf_tensor *x = &r->values[v].part[p];

        for (int64_t i = 0; i < x->count; i++)
            ((float *)x->data)[i] *= factor;
    }
}

/* As mf_gradient_allreduce_weigh() does, so the bits are the same. */
static void weigh(const mf_ps_client *c, mf_push_pull_round *r)
{
    for (int i = 0; i < c->t->graph.n_gradients && c->factor != 1.0f; i++)
        weigh_value(r, c->at[i], c->factor);
}

static mf_status push_and_pull(mf_ps_client *c, mf_push_pull_round *r)
{
    const mf_status st = c->host_aggregate.group ? ask_for_host(c, r) : ask_servers(c, r);

    if (st != MF_OK)
        mf_net_abort(c->net, st);
    return st;
}

mf_status mf_ps_client_flush(mf_ps_client *c)
{
    mf_push_pull_round *r = c->held.steps > 0 ? mf_push_pull_last(c->rounds) : NULL;

    if (!r)
        return MF_OK;
    MF_TRY(ps_round_give(c, r));
    return push_and_pull(c, r);
}

mf_status mf_ps_round(void *ctx, mf_push_pull_round *r)
{
    mf_ps_client *c = ctx;

    weigh(c, r);
    if (c->mode.period <= 1)
        return push_and_pull(c, r);
    MF_TRY(ps_round_hold(c, r));
    if (c->held.steps < c->mode.period) {
        MF_TRY(room_for_results(c, r));
        return keep_weights(c, r);
    }
    MF_TRY(ps_round_give(c, r));
    return push_and_pull(c, r);
}
