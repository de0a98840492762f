/* SPDX-License-Identifier: Apache-2.0 */
/* ps_client.c - a worker's side of parameter servers: requests and answers. */
#include "dist/param_server/ps_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "train/loop/variable_query.h"

#include <stdio.h>
#include <string.h>

MF_PARAM_INT(ps_push_retry_ms, 3000,
             "a push without a reply is retransmitted after this time in ms");

mf_push_pull *mf_ps_client_rounds(mf_ps_client *c)
{
    return c->rounds;
}

mf_trainer *mf_ps_client_trainer(mf_ps_client *c)
{
    return c->t;
}

const mf_placement *mf_ps_client_placement(const mf_ps_client *c)
{
    return &c->place;
}

int mf_ps_client_step_flags(mf_ps_client *c)
{
    return c->step_flags;
}

void mf_ps_client_traffic(const mf_ps_client *c, int64_t *pushed, int64_t *pulled)
{
    *pushed = c->pushed;
    *pulled = c->pulled;
}

/* ---- requests ---- */

static mf_frame ps_client_frame_of(const mf_ps_client *c, mf_ps_request what, uint16_t kind,
                                   int64_t step)
{
    return (mf_frame){
        .kind = kind, .epoch = mf_net_epoch(c->net), .group = what, .seq = c->seq, .step = step
    };
}

mf_status mf_ps_ask(mf_ps_client *c, int server, mf_ps_request what, int64_t step,
                    const mf_buf *data)
{
    mf_frame f = ps_client_frame_of(c, what, MF_MESSAGE_REQUEST, step);

    f.size = data ? data->len : 0;
    return mf_net_send(c->net, c->first_server + server, &f, data ? data->data : NULL,
                       mf_clock_ns() + c->timeout_ns);
}

mf_status mf_ps_answer_by(mf_ps_client *c, int64_t deadline_ns, int server, mf_ps_request what,
                          int64_t step, void **data, size_t *size)
{
    const mf_frame f = ps_client_frame_of(c, what, MF_MESSAGE_REPLY, step);

    return mf_net_take(c->net, c->first_server + server, &f, data, size, deadline_ns, "an answer");
}

mf_status mf_ps_answer(mf_ps_client *c, int server, mf_ps_request what, int64_t step, void **data,
                       size_t *size)
{
    return mf_ps_answer_by(c, mf_clock_ns() + c->timeout_ns, server, what, step, data, size);
}

mf_status mf_ps_answer_done(mf_ps_client *c, int server, mf_ps_request what, int64_t step)
{
    void *text;
    size_t size;
    mf_status st = MF_OK;

    MF_TRY(mf_ps_answer(c, server, what, step, &text, &size));
    if (size > 0)
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%s: %.*s", mf_ps_server_name(c, server), (int)size,
                     (const char *)text);
    mf_free(text);
    return st;
}

static mf_frame push_frame(const mf_ps_client *c, int server, int64_t step)
{
    mf_frame f = ps_client_frame_of(c, MF_PS_PUSH, MF_MESSAGE_REQUEST, step);

    f.size = c->push[server].len;
    return f;
}

mf_status mf_ps_ask_push(mf_ps_client *c, int server, int64_t step)
{
    const mf_frame f = push_frame(c, server, step);

    return mf_net_send(c->net, c->first_server + server, &f, c->push[server].data,
                       mf_clock_ns() + c->timeout_ns);
}

mf_status mf_ps_answer_push(mf_ps_client *c, int server, int64_t step, void **data, size_t *size)
{
    const mf_frame asked = push_frame(c, server, step);
    const mf_frame f = ps_client_frame_of(c, MF_PS_PUSH, MF_MESSAGE_REPLY, step);
    const mf_net_retry again = { .frame = &asked,
                                 .data = c->push[server].data,
                                 .after_ns = MF_PARAM(ps_push_retry_ms) * 1000000,
                                 .times = &c->again };

    return mf_net_take_with_retry(c->net, c->first_server + server, &f, &again, data, size,
                                  mf_clock_ns() + c->timeout_ns, "the new weights");
}

/* One integer. */
static mf_status answer_int(mf_ps_client *c, int server, mf_ps_request what, int64_t *out)
{
    void *data;
    size_t size;

    MF_TRY(mf_ps_answer(c, server, what, 0, &data, &size));
    if (size == sizeof *out)
        memcpy(out, data, sizeof *out);
    mf_free(data);
    if (size != sizeof *out)
        return MF_FAIL(MF_DATA_LOSS, "%s sent an invalid reply", mf_ps_server_name(c, server));
    return MF_OK;
}

mf_status mf_ps_client_end(mf_ps_client *c, int64_t *staleness)
{
    c->seq++;
    *staleness = 0;
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(mf_ps_ask(c, s, MF_PS_END, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        int64_t seen;

        MF_TRY(answer_int(c, s, MF_PS_END, &seen));
        *staleness = seen > *staleness ? seen : *staleness;
    }
    return MF_OK;
}

mf_status mf_ps_client_progress(mf_ps_client *c, mf_ps_progress *each)
{
    c->seq++;
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(mf_ps_ask(c, s, MF_PS_PROGRESS, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        void *data;
        size_t size;

        MF_TRY(mf_ps_answer(c, s, MF_PS_PROGRESS, 0, &data, &size));
        if (size == sizeof *each)
            memcpy(&each[s], data, sizeof *each);
        mf_free(data);
        if (size != sizeof *each)
            return MF_FAIL(MF_DATA_LOSS, "%s sent an invalid reply", mf_ps_server_name(c, s));
        c->version[s] = each[s].version;
        c->done = s == 0 || each[s].done < c->done ? each[s].done : c->done;
    }
    return MF_OK;
}

int64_t mf_ps_client_done(const mf_ps_client *c)
{
    return c->done;
}

mf_status mf_ps_client_leave(mf_ps_client *c)
{
    void *data;
    size_t size;

    c->seq++;
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(mf_ps_ask(c, s, MF_PS_LEAVE, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        MF_TRY(mf_ps_answer(c, s, MF_PS_LEAVE, 0, &data, &size));
        mf_free(data);
    }
    return MF_OK;
}

mf_status mf_ps_client_lease(mf_ps_client *c, const mf_ps_lease *lease, int64_t *batch)
{
    mf_ps_lease ours = *lease;
    mf_buf out = { 0 };
    mf_status st;

    c->seq++;
    ours.held = c->held.steps;
    mf_buf_bytes(&out, &ours, sizeof ours);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_ps_ask(c, 0, MF_PS_LEASE, 0, &out);
    mf_buf_deinit(&out);
    return st == MF_OK ? answer_int(c, 0, MF_PS_LEASE, batch) : st;
}

/* ---- making and freeing ---- */

static mf_status map_slices(mf_ps_client *c, int server)
{
    const mf_step_graph *g = &c->t->graph;

    c->of_slice[server] = MF_ARENA_ARRAY(c->t->arena, int, c->place.n_slices[server] + 1);
    if (!c->of_slice[server])
        return MF_NOMEM("parameter servers");
    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];

        c->of_slice[server][i] = -1;
        for (int k = 0; k < g->n_gradients; k++) {
            if (g->gradients[k].weight == s->weight && c->ids[k] < 0)
                c->of_slice[server][i] = c->at[k];
        }
        c->dense[server] += c->of_slice[server][i] >= 0 ? s->to - s->from : 0;
    }
    return MF_OK;
}

/* Which value of a round belongs to which gradient. */
static mf_status map_values(mf_ps_client *c)
{
    const mf_step_graph *g = &c->t->graph;
    mf_arena *a = c->t->arena;

    c->at = MF_ARENA_ARRAY(a, int, g->n_gradients + 1);
    c->ids = MF_ARENA_ARRAY(a, int, g->n_gradients + 1);
    c->gradient = MF_ARENA_ARRAY(a, int, g->n_results + 1);
    c->of_slice = MF_ARENA_ARRAY(a, int *, c->n_servers);
    c->dense = MF_ARENA_ARRAY(a, int64_t, c->n_servers);
    c->answer = MF_ARENA_ARRAY(a, int, c->n_servers);
    if (!c->answer || !c->at || !c->ids || !c->gradient || !c->of_slice || !c->dense)
        return MF_NOMEM("parameter servers");
    for (int v = 0; v < g->n_results; v++)
        c->gradient[v] = -1;
    for (int i = 0; i < g->n_gradients; i++) {
        const bool rows = g->gradients[i].ids >= 0;

        c->at[i] = mf_push_pull_value(c->rounds, g->gradients[i].at);
        c->ids[i] = rows ? mf_push_pull_value(c->rounds, g->gradients[i].ids) : -1;
        c->gradient[c->at[i]] = i;
        if (rows)
            c->gradient[c->ids[i]] = i;
    }
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(map_slices(c, s));
    return MF_OK;
}

mf_status mf_ps_client_new(mf_net *net, int first_server, int n_servers, mf_trainer *t,
                           const mf_ps_mode *mode, int64_t first, int64_t count, int64_t timeout_ns,
                           mf_ps_client **out)
{
    const bool apart = mf_aggregate_is_apart(mode->aggregation.how);
    mf_ps_client *c = mf_calloc(1, sizeof *c);
    mf_status st;

    *out = NULL;
    if (!c)
        return MF_NOMEM("parameter servers");
    c->net = net;
    c->first_server = first_server;
    c->n_servers = n_servers;
    c->t = t;
    c->timeout_ns = timeout_ns;
    c->mode = *mode;
    c->batches = 1;
    c->factor = 1.0f;
    c->version = mf_calloc(n_servers, sizeof *c->version);
    c->replied = mf_calloc(n_servers, sizeof *c->replied);
    c->lanes = mf_calloc(n_servers, sizeof *c->lanes);
    c->push = mf_calloc(n_servers, sizeof *c->push);
    st = c->version && c->replied && c->lanes && c->push
             ? mf_ps_place(t, n_servers, mode, &c->place)
             : MF_NOMEM("parameter servers");
    if (st == MF_OK)
        st = mf_ps_accumulate_init(&c->held, t->graph.n_results);
    if (st == MF_OK)
        st = mf_push_pull_new(&(mf_push_pull_options){ .first = first,
                                                       .count = count,
                                                       .shards = t->options.shards,
                                                       .grain = apart ? 1 : 0,
                                                       .bucket = t->graph.bucket,
                                                       .n_results = t->graph.n_results,
                                                       .n_buckets = t->graph.n_buckets,
                                                       .round = mf_ps_round,
                                                       .take = mf_ps_take,
                                                       .ctx = c },
                              &c->rounds);
    if (st == MF_OK)
        st = map_values(c);
    if (st != MF_OK)
        mf_ps_client_free(c);
    else
        *out = c;
    return st;
}

void mf_ps_client_weigh(mf_ps_client *c, float factor)
{
    c->factor = factor;
}

void mf_ps_client_use_host_aggregate(mf_ps_client *c, const mf_ps_host_aggregate *host_aggregate)
{
    c->host_aggregate = *host_aggregate;
}

void mf_ps_client_free(mf_ps_client *c)
{
    if (!c)
        return;
    mf_push_pull_free(c->rounds);
    mf_ps_accumulate_deinit(&c->held);
    for (int s = 0; c->lanes && s < c->n_servers; s++)
        mf_ps_shm_close(&c->lanes[s]);
    for (int s = 0; c->push && s < c->n_servers; s++)
        mf_buf_deinit(&c->push[s]);
    mf_free(c->push);
    mf_free(c->lanes);
    mf_free(c->replied);
    mf_free(c->version);
    mf_free(c);
}

/* ---- holders ---- */

void mf_ps_client_holders(const mf_ps_client *c, const char *variable, mf_holders *out)
{
    const mf_model *model = c->t->model;

    for (int64_t w = 0; w < model->n_weights; w++) {
        if (strcmp(model->weights[w]->name, variable) != 0)
            continue;
        for (int s = 0; s < c->n_servers; s++) {
            const mf_piece *piece = mf_placement_find(&c->place, s, model->weights[w]);
            char slice[64];

            if (!piece)
                continue;
            (void)snprintf(slice, sizeof slice, "elements %lld:%lld", (long long)piece->from,
                           (long long)piece->to);
            mf_holders_add(out, mf_ps_server_name(c, s), slice, c->version[s]);
        }
    }
}
