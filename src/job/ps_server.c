/* SPDX-License-Identifier: Apache-2.0 */
/* ps_server.c - a parameter server: requests come and are answered. An update waits for all workers
 * (synchronous), for some of them (a quorum), or for nobody. */
#include "job/ps_server.h"

#include "base/board.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/waiting.h"

#include <string.h>

/* ---- requests ---- */

static void request_free(request *r)
{
    if (!r)
        return;
    mf_free(r->data);
    mf_free(r);
}

static void take_request(void *ctx, int from, const mf_frame *f, void *data)
{
    server *s = ctx;
    request *r = mf_calloc(1, sizeof *r);

    if (!r) {
        mf_free(data); /* whoever waits for the answer will say so */
        return;
    }
    *r = (request){ .from = from, .frame = *f, .data = data };
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The first whose gradients are missing for an update that others have begun; NULL: nobody. */
static const char *missing(const server *s)
{
    int n = 0, absent = -1;

    for (int w = s->o.n_workers - 1; w >= 0; w--) {
        n += s->pushes[w].of != NULL;
        absent = s->pushes[w].of ? absent : w;
    }
    return n > 0 && absent >= 0 ? mf_net_name(s->o.net, absent) : NULL;
}

static mf_status next_request(server *s, request **out)
{
    mf_waiting waiting = { .who = mf_net_name(s->o.net, mf_net_self(s->o.net)),
                           .whom = missing(s),
                           .what = "its gradients",
                           .step = s->version };
    mf_status st = MF_OK;

    *out = NULL;
    pthread_mutex_lock(&s->lock);
    if (!s->first && waiting.whom)
        mf_waiting_begin(&waiting);
    while (!s->first && st == MF_OK) {
        (void)mf_cond_wait_until(&s->changed, &s->lock, mf_clock_ns() + 100000000);
        mf_waiting_look(&waiting);
        if (!s->first)
            st = mf_net_check(s->o.net);
        mf_net_tell(s->o.net);
    }
    mf_waiting_end(&waiting);
    *out = s->first;
    if (*out) {
        s->first = (*out)->next;
        if (!s->first)
            s->last = NULL;
        st = MF_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status reply(server *s, const request *r, const void *data, size_t size)
{
    mf_frame f = r->frame;

    f.kind = MF_MESSAGE_REPLY;
    f.size = size;
    return mf_net_send(s->o.net, r->from, &f, data, mf_clock_ns() + s->o.timeout_ns);
}

/* ---- steps ---- */

static mf_status answer_push(server *s, push *p, const mf_buf *out)
{
    mf_buf *kept = &s->last_reply[p->of->from];
    mf_status st = reply(s, p->of, out->data, out->len);

    s->last_seq[p->of->from] = p->of->frame.seq;
    s->pulled[p->of->from] = s->version;
    mf_buf_clear(kept);
    mf_buf_bytes(kept, out->data, out->len);
    request_free(p->of);
    p->of = NULL;
    return st;
}

/* An error is the workers' to say; nothing was changed. */
static void write_failure(mf_status st, mf_buf *out)
{
    const mf_ps_reply head = { .status = st };

    mf_buf_clear(out);
    mf_buf_bytes(out, &head, sizeof head);
    mf_buf_str(out, mf_error_message());
}

/* Everybody gets the same answer, except where workers differ in what they know already. All are
 * written before the first is sent: with that, the push is gone. */
static mf_status answer_all(server *s, mf_status st, push *const *all, int n_all)
{
    const bool same = s->o.mode.sync;
    mf_buf *out = mf_calloc(n_all, sizeof *out);
    mf_status sent = MF_OK;

    if (!out)
        return MF_NOMEM("answers");
    for (int i = 0; i < (same ? 1 : n_all); i++) {
        if (st == MF_OK)
            st = mf_ps_write_reply(s, all, n_all, same ? -1 : all[i]->of->from, &out[i]);
        if (st != MF_OK)
            write_failure(st, &out[i]);
    }
    for (int i = 0; i < n_all && sent == MF_OK; i++)
        sent = answer_push(s, all[i], &out[same ? 0 : i]);
    for (int i = 0; i < n_all; i++)
        mf_buf_deinit(&out[i]);
    mf_free(out);
    return sent;
}

static mf_status do_step(server *s, push *const *all, int n_all)
{
    return answer_all(s, mf_ps_apply(s, all, n_all), all, n_all);
}

/* How many pushes make an update. */
static int wanted(const server *s)
{
    const int quorum = (int)s->o.mode.quorum;

    if (s->o.mode.sync)
        return s->o.n_workers;
    return quorum < 1 ? 1 : quorum < s->active ? quorum : s->active;
}

/* Those that are here and belong to the weights of now, if they are enough. */
static mf_status try_step(server *s)
{
    push *all[MF_TREE_LEAVES];
    int n = 0;

    for (int w = 0; w < s->o.n_workers && n < MF_TREE_LEAVES; w++) {
        if (s->pushes[w].of)
            all[n++] = &s->pushes[w];
    }
    return n > 0 && n >= wanted(s) ? do_step(s, all, n) : MF_OK;
}

static mf_status take_push(server *s, request *r)
{
    if (r->from < 0 || r->from >= s->o.n_workers) {
        request_free(r);
        return MF_OK; /* not a worker's business */
    }
    if (s->last_reply[r->from].len > 0 && r->frame.seq <= s->last_seq[r->from]) {
        const mf_status st = reply(s, r, s->last_reply[r->from].data, s->last_reply[r->from].len);

        request_free(r); /* it was applied already */
        return st;
    }
    if (s->pushes[r->from].of) {
        request_free(r);
        return MF_OK;
    }
    MF_TRY(mf_ps_look_at(s, r, &s->pushes[r->from]));
    if (s->o.mode.quorum > 0 && s->pushes[r->from].head.version < s->version) {
        push *late = &s->pushes[r->from]; /* others were enough: what it did is thrown away */

        return answer_all(s, MF_OK, &late, 1);
    }
    return try_step(s);
}

/* ---- other requests ---- */

static mf_status take_set(server *s, request *r)
{
    mf_reader in = { .at = r->data, .left = r->frame.size };
    const mf_status st = mf_ps_store_read(&s->store, &in);
    const char *text = st == MF_OK ? "" : mf_error_message();
    const mf_status sent = reply(s, r, text, *text ? strlen(text) + 1 : 0);

    request_free(r);
    return sent;
}

static mf_status take_get(server *s, request *r)
{
    mf_buf out = { 0 };
    mf_status st = mf_ps_store_write(&s->store, &out);

    if (st == MF_OK)
        st = reply(s, r, out.data, out.len);
    mf_buf_deinit(&out);
    request_free(r);
    return st;
}

static mf_status take_leave(server *s, request *r)
{
    const mf_status st = reply(s, r, NULL, 0);

    s->active -= r->from < s->o.n_workers;
    request_free(r);
    return st == MF_OK ? try_step(s) : st;
}

static mf_status take_end(server *s, request *r)
{
    const int64_t staleness = mf_ps_leases_staleness(s->leases);
    const mf_status st = reply(s, r, &staleness, sizeof staleness);

    s->over = true;
    request_free(r);
    return st;
}

/* Whoever may go on now, goes on. */
static mf_status grant_leases(server *s)
{
    mf_ps_grant g;

    while (mf_ps_leases_next(s->leases, &g)) {
        mf_frame f = { .kind = MF_MESSAGE_REPLY, .group = MF_PS_LEASE, .seq = g.seq };

        f.size = sizeof g.batch;
        MF_TRY(mf_net_send(s->o.net, g.worker, &f, &g.batch, mf_clock_ns() + s->o.timeout_ns));
    }
    return MF_OK;
}

static mf_status take_lease(server *s, request *r)
{
    mf_ps_lease lease = { 0 };

    if (r->frame.size == sizeof lease)
        memcpy(&lease, r->data, sizeof lease);
    if (r->from >= 0 && r->from < s->o.n_workers)
        mf_ps_leases_ask(s->leases, r->from, r->frame.seq, &lease);
    request_free(r);
    return grant_leases(s);
}

static mf_status serve_one(server *s, request *r)
{
    switch (r->frame.group) {
    case MF_PS_PUSH:
        return take_push(s, r);
    case MF_PS_SET:
        return take_set(s, r);
    case MF_PS_GET:
        return take_get(s, r);
    case MF_PS_END:
        return take_end(s, r);
    case MF_PS_LEAVE:
        return take_leave(s, r);
    case MF_PS_LEASE:
        return take_lease(s, r);
    default:
        request_free(r);
        return MF_OK;
    }
}

static mf_status serve_and_show(server *s, request *r)
{
    const int64_t before = s->version;
    mf_status st;

    mf_board_computing(+1);
    st = serve_one(s, r);
    mf_board_computing(-1);
    if (s->version != before) {
        mf_board_step(s->version, 0, 0, 0.0);
        mf_board_phase(MF_PHASE_SERVE);
    }
    return st;
}

/* ---- the whole ---- */

static mf_status start(server *s, mf_trainer *t)
{
    MF_TRY(mf_ps_place(t, s->o.n_servers, &s->place));
    MF_TRY(mf_ps_store_init(&s->store, t, &s->place, s->o.index));
    for (int i = 0; i < s->store.n_slices; i++) {
        if (!s->store.slices[i].weight->lookups)
            s->dense += s->store.slices[i].to - s->store.slices[i].from;
    }
    s->active = s->o.n_workers;
    s->pushes = mf_calloc(s->o.n_workers, sizeof *s->pushes);
    s->last_seq = mf_calloc(s->o.n_workers, sizeof *s->last_seq);
    s->last_reply = mf_calloc(s->o.n_workers, sizeof *s->last_reply);
    s->pulled = mf_calloc(s->o.n_workers, sizeof *s->pulled);
    s->touched = mf_calloc(s->store.n_slices, sizeof *s->touched);
    if (!s->pushes || !s->last_seq || !s->last_reply || !s->pulled || !s->touched)
        return MF_NOMEM("a parameter server");
    for (int i = 0; i < s->store.n_slices; i++) {
        const mf_weight *w = s->store.model->weights[i];

        if (w->lookups)
            s->touched[i] = mf_calloc(w->shape.dims[0], sizeof *s->touched[i]);
        if (w->lookups && !s->touched[i])
            return MF_NOMEM("a parameter server");
    }
    MF_TRY(mf_ps_leases_new(s->o.n_workers, s->o.mode.staleness, &s->leases));
    MF_INFO("this parameter server holds %lld numbers", (long long)s->dense);
    mf_net_serve(s->o.net, take_request, s);
    return MF_OK;
}

static void finish(server *s)
{
    mf_net_serve(s->o.net, NULL, NULL);
    for (int w = 0; s->pushes && w < s->o.n_workers; w++)
        request_free(s->pushes[w].of);
    for (int w = 0; s->last_reply && w < s->o.n_workers; w++)
        mf_buf_deinit(&s->last_reply[w]);
    while (s->first) {
        request *r = s->first;

        s->first = r->next;
        request_free(r);
    }
    for (int i = 0; s->touched && i < s->store.n_slices; i++)
        mf_free(s->touched[i]);
    mf_free(s->touched);
    mf_free(s->pulled);
    mf_free(s->pushes);
    mf_free(s->last_seq);
    mf_free(s->last_reply);
    mf_ps_leases_free(s->leases);
    mf_ps_store_deinit(&s->store);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

mf_status mf_ps_serve(const mf_ps_server_options *o, mf_trainer *t)
{
    server s = { .o = *o };
    mf_status st;

    pthread_mutex_init(&s.lock, NULL);
    mf_cond_init(&s.changed);
    st = start(&s, t);
    mf_board_begin(0, 0);
    mf_board_phase(MF_PHASE_SERVE);
    while (st == MF_OK && !s.over) {
        request *r;

        st = next_request(&s, &r);
        if (st == MF_OK)
            st = serve_and_show(&s, r);
    }
    finish(&s);
    return st;
}
