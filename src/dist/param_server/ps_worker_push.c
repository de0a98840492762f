/* SPDX-License-Identifier: Apache-2.0 */
/* ps_worker_push.c - what a worker pushes to a server: each gradient goes into shared memory
 * (ps_shm.h) as soon as it is computed, or, without shared memory, into a message. */
#include "base/log.h"
#include "base/mem.h"
#include "dist/param_server/ps_client.h"

#include <math.h>

/* ---- lanes ---- */

/* Of the rows of this step, if the server held all of them. */
static int64_t bytes_of_rows(const mf_ps_client *c, const mf_push_pull_round *r)
{
    int64_t bytes = 0;

    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (c->ids[i] < 0)
            continue;
        bytes += (int64_t)sizeof(int64_t);
        if (r->n_parts > 0)
            bytes += (int64_t)(mf_tensor_bytes(&r->values[c->at[i]].part[0]) +
                               (size_t)r->values[c->ids[i]].part[0].count * sizeof(int64_t));
    }
    return bytes;
}

static int64_t count_extra(const mf_ps_client *c, const mf_push_pull_round *r)
{
    int64_t n = 0;

    for (int v = 0; v < r->n_values; v++)
        n += c->gradient[v] >= 0 ? 0
                                 : mf_shape_span(&r->values[v].shape, 0, r->values[v].shape.rank);
    return n;
}

/* The larger one of push and answer. An answer has more rows than the push if other workers, or the
 * optimizer, have changed more: it is expected to be as large as the largest so far. */
static int64_t room_needed(const mf_ps_client *c, const mf_push_pull_round *r, int server)
{
    const int64_t parts = r->n_parts > 1 ? r->n_parts : 1;
    const int64_t extra = server == 0 ? count_extra(c, r) : 0;
    const int64_t push =
        parts * (c->dense[server] + extra) * (int64_t)sizeof(float) + bytes_of_rows(c, r);
    const int64_t most = push > c->replied[server] ? push : c->replied[server];

    return most + (int64_t)MF_PS_ALIGN * (c->place.n_slices[server] + 1);
}

static mf_status ask_to_open(mf_ps_client *c, int server, const mf_ps_shm *lane)
{
    mf_buf text = { 0 };
    void *answer = NULL;
    size_t size;
    mf_status st;

    c->seq++;
    mf_ps_shm_tell(lane, &text);
    st = mf_buf_finish(&text);
    if (st == MF_OK)
        st = mf_ps_ask(c, server, MF_PS_SHM, 0, &text);
    mf_buf_deinit(&text);
    if (st == MF_OK)
        st = mf_ps_answer(c, server, MF_PS_SHM, 0, &answer, &size);
    if (st == MF_OK && size > 0)
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%s: %.*s", mf_ps_server_name(c, server), (int)size,
                     (const char *)answer);
    mf_free(answer);
    return st;
}

/* A lane of at least this size, with the contents of the old one. Without memory for it the old one
 * remains, and the rest goes into messages. */
static mf_status ps_worker_push_widen(mf_ps_client *c, int server, int64_t room)
{
    mf_ps_shm *old = &c->lanes[server], lane;
    mf_status st = mf_ps_shm_make(&lane, room + room / 4);
    const bool made = st == MF_OK;

    if (st == MF_OK && old->memory)
        memcpy(mf_ps_shm_push(&lane), mf_ps_shm_push(old), (size_t)old->room);
    if (st == MF_OK) {
        st = ask_to_open(c, server, &lane);
        mf_ps_shm_hide(&lane);
    }
    if (st == MF_OK) {
        mf_ps_shm_close(old);
        *old = lane;
        return MF_OK;
    }
    mf_ps_shm_close(&lane);
    if (mf_net_check(c->net) != MF_OK)
        return st;
    if (old->memory && made && st != MF_FAILED_PRECONDITION)
        return st; /* which one does the server use? */
    MF_WARN("gradients and weights go through connections instead of shared memory: %s",
            mf_error_message());
    old->refused = true;
    return MF_OK;
}

mf_status mf_ps_open_lanes(mf_ps_client *c, const mf_push_pull_round *r)
{
    for (int s = 0; s < c->n_servers; s++) {
        const int64_t room = room_needed(c, r, s);

        if (c->lanes[s].refused || room <= c->lanes[s].room || c->place.n_slices[s] == 0 ||
            !mf_ps_shm_may_be(c->net, c->first_server + s))
            continue;
        MF_TRY(ps_worker_push_widen(c, s, room));
    }
    return MF_OK;
}

/* ---- dense gradients ---- */

/* Value v of part p, for the servers that hold some of its weight. */
static bool ps_worker_push_fits(const mf_ps_client *c, int v, int n_parts)
{
    for (int s = 0; s < c->n_servers; s++) {
        const bool holds =
            mf_placement_find(&c->place, s, c->t->graph.gradients[c->gradient[v]].weight) != NULL;

        if (holds && n_parts * c->dense[s] * (int64_t)sizeof(float) > c->lanes[s].room)
            return false;
    }
    return true;
}

static void ps_worker_push_put_dense(const mf_ps_client *c, int server, int v, const mf_tensor *x,
                                     float *part)
{
    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];

        if (c->of_slice[server][i] == v)
            mf_ps_copy(c->t->pool, part, (const float *)x->data + s->from,
                       (size_t)(s->to - s->from) * sizeof(float));
        part += c->of_slice[server][i] >= 0 ? s->to - s->from : 0;
    }
}

bool mf_ps_take(void *ctx, int v, int part, int n_parts, const mf_tensor *x)
{
    mf_ps_client *c = ctx;

    if (c->mode.period > 1 || c->host_aggregate.group || c->factor != 1.0f || c->gradient[v] < 0 ||
        c->ids[c->gradient[v]] >= 0 || !ps_worker_push_fits(c, v, n_parts))
        return false;
    for (int s = 0; s < c->n_servers; s++) {
        if (c->lanes[s].memory)
            ps_worker_push_put_dense(c, s, v, x,
                                     (float *)mf_ps_shm_push(&c->lanes[s]) + part * c->dense[s]);
    }
    return true;
}

/* The values given to mf_ps_take() are in the lane already. */
static void ps_worker_push_write_dense(const mf_ps_client *c, const mf_push_pull_round *r,
                                       int server, int part, mf_ps_out *out)
{
    const mf_ps_shm *lane = &c->lanes[server];
    const float *taken =
        lane->memory ? (const float *)mf_ps_shm_push(lane) + part * c->dense[server] : NULL;

    for (int i = 0; i < c->place.n_slices[server]; i++) {
        const mf_piece *s = &c->place.slices[server][i];
        const size_t bytes = (size_t)(s->to - s->from) * sizeof(float);
        const int v = c->of_slice[server][i];

        if (v < 0)
            continue;
        if (r->values[v].part[part].data)
            mf_ps_out_put(out, (const float *)r->values[v].part[part].data + s->from, bytes);
        else if (out->at)
            (void)mf_ps_out_room(out, bytes);
        else
            mf_ps_out_put(out, taken, bytes);
        if (taken)
            taken += s->to - s->from;
    }
}

/* ---- the rest ---- */

static void write_extra(const mf_ps_client *c, const mf_push_pull_round *r, int part,
                        mf_ps_out *out)
{
    for (int v = 0; v < r->n_values; v++) {
        if (c->gradient[v] < 0)
            mf_ps_out_put(out, r->values[v].part[part].data,
                          mf_tensor_bytes(&r->values[v].part[part]));
    }
}

/* The rows that this server holds, in lookup order. */
static void ps_worker_push_write_rows(const mf_ps_client *c, const mf_push_pull_round *r,
                                      int server, int gradient, mf_ps_out *out)
{
    const mf_weight *w = c->t->graph.gradients[gradient].weight;
    const mf_tensor *rows = &r->values[c->at[gradient]].part[0];
    const mf_tensor *ids = &r->values[c->ids[gradient]].part[0];
    const mf_piece *s = mf_placement_find(&c->place, server, w);
    const int64_t width = mf_shape_span(&w->shape, 1, w->shape.rank);
    const int64_t lo = s ? s->from / width : 0, hi = s ? s->to / width : 0;
    const int64_t total = r->n_parts > 0 ? ids->count : 0;
    int64_t n = 0;

    for (int64_t i = 0; i < total; i++) {
        const int64_t id = mf_tensor_int_at(ids, i);

        n += id >= lo && id < hi;
    }
    mf_ps_out_put(out, &n, sizeof n);
    for (int64_t i = 0; i < total; i++) {
        const int64_t id = mf_tensor_int_at(ids, i);

        if (id >= lo && id < hi)
            mf_ps_out_put(out, &id, sizeof id);
    }
    for (int64_t i = 0; i < total; i++) {
        const int64_t id = mf_tensor_int_at(ids, i);

        if (id >= lo && id < hi)
            mf_ps_out_put(out, (const float *)rows->data + i * width,
                          (size_t)width * sizeof(float));
    }
}

static bool loss_is_bad(const mf_ps_client *c, const mf_push_pull_round *r)
{
    const mf_push_pull_round_value *loss = &r->values[mf_push_pull_value(c->rounds, 0)];

    for (int p = 0; p < r->n_parts; p++) {
        if (!isfinite(((const float *)loss->part[p].data)[0]))
            return true;
    }
    return false;
}

static void ps_worker_push_write_body(const mf_ps_client *c, const mf_push_pull_round *r,
                                      int server, mf_ps_out *out)
{
    for (int p = 0; p < r->n_parts; p++)
        ps_worker_push_write_dense(c, r, server, p, out);
    for (int p = 0; p < r->n_parts && server == 0; p++)
        write_extra(c, r, p, out);
    for (int i = 0; i < c->t->graph.n_gradients; i++) {
        if (mf_ps_has_rows(c, server, i))
            ps_worker_push_write_rows(c, r, server, i, out);
    }
}

mf_status mf_ps_write_push(mf_ps_client *c, const mf_push_pull_round *r, int server,
                           mf_buf *message)
{
    const int64_t shards = c->t->options.shards;
    const mf_ps_shm *lane = &c->lanes[server];
    const bool in_lane = lane->memory && room_needed(c, r, server) <= lane->room;
    mf_ps_out out = { .pool = c->t->pool, .buf = message };
    mf_ps_push head = {
        .step = r->step,
        .samples = r->samples,
        .leaves = r->samples < shards ? r->samples : shards,
        .n_parts = r->n_parts,
        .n_extra = server == 0 ? count_extra(c, r) : 0,
        .version = c->version[server],
        .workers = c->host_aggregate.group ? c->host_aggregate.group->size : 1,
        .batches = c->batches,
        .learning_rate = mf_schedule_at(&c->t->schedule, r->step),
        .flags = loss_is_bad(c, r) ? MF_PS_BAD : 0,
        .step_flags = (uint16_t)r->step_flags,
        .in_lane = -1,
        .answer = in_lane ? mf_ps_shm_free_answer(lane) : -1,
    };

    c->answer[server] = (int)head.answer;
    if (in_lane) {
        out.at = mf_ps_shm_push(lane);
        out.left = (size_t)lane->room;
        ps_worker_push_write_body(c, r, server, &out);
        head.in_lane = lane->room - (int64_t)out.left;
    }
    mf_buf_bytes(message, &head, sizeof head);
    mf_buf_bytes(message, r->parts, (size_t)r->n_parts * sizeof r->parts[0]);
    if (!in_lane)
        ps_worker_push_write_body(c, r, server, &out);
    MF_ASSERT(!out.full); /* there was room_needed() */
    MF_TRY(mf_buf_finish(message));
    c->pushed += (int64_t)message->len + (in_lane ? head.in_lane : 0);
    return MF_OK;
}
