/* SPDX-License-Identifier: Apache-2.0 */
/* ps_server.c - a parameter server: receives requests and replies. An update waits for all workers
 * (synchronous), for some of them (a quorum), or for none. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/param_server/ps_quorum.h"
#include "observe/status_page.h"
#include "observe/wait_report.h"

#include <string.h>

/* ---- replies ---- */

mf_status mf_ps_send_reply(server *s, const mf_mail *r, const void *data, size_t size)
{
    mf_frame f = r->frame;

    f.kind = MF_MESSAGE_REPLY;
    f.size = size;
    return mf_net_send(s->o.net, r->from, &f, data, mf_clock_ns() + s->o.timeout_ns);
}

/* ---- requests of workers and servers ---- */

static mf_status take_lane(server *s, mf_mail *r)
{
    const char *text = "";
    mf_status st;

    if (r->from >= s->o.n_workers)
        text = "only workers push";
    else if (s->pushes[r->from].of) /* and may lie in the lane that would be closed */
        text = "a push is waiting";
    else if (mf_ps_shm_open(&s->lanes[r->from], r->data) != MF_OK)
        text = mf_error_message();
    st = mf_ps_send_reply(s, r, text, strlen(text));
    mf_mail_free(r);
    return st;
}

/* A training begins: the state of an earlier one is discarded, and workers restart their request
 * counters. */
static void begin_training(server *s, int64_t start)
{
    for (int w = 0; w < s->o.n_workers; w++) {
        mf_buf_clear(&s->last_reply[w]);
        s->last_seq[w] = 0;
        s->pulled[w] = 0;
    }
    for (int i = 0; i < s->store.n_slices; i++) {
        if (s->touched[i])
            memset(s->touched[i], 0,
                   (size_t)s->store.model->weights[i]->shape.dims[0] * sizeof *s->touched[i]);
    }
    mf_ps_leases_reset(s->leases);
    mf_ps_dedup_reset(&s->done, start);
    s->start = start;
    s->version = s->batches = s->repeated = s->late = s->late_batches = 0;
    s->generation = s->o.generation;
    s->moment = start;
    s->active = s->o.n_workers;
    s->stop = false;
    s->begun = true;
}

static mf_status take_set(server *s, mf_mail *r)
{
    mf_ps_reader in = { .at = r->data, .left = r->frame.size };
    const mf_status read = mf_ps_store_read(&s->store, &in);
    const char *text = read == MF_OK ? "" : mf_error_message();
    mf_status st = MF_OK;

    begin_training(s, r->frame.step);
    if (read == MF_OK)
        st = mf_ps_keep_copy(s);
    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, text, *text ? strlen(text) + 1 : 0);
    mf_mail_free(r);
    return st;
}

static mf_status take_get(server *s, mf_mail *r)
{
    mf_buf out = { 0 };
    mf_status st =
        mf_ps_store_write(&s->store, false, &(mf_ps_out){ .pool = s->t->pool, .buf = &out });

    if (st == MF_OK)
        st = mf_buf_finish(&out);
    if (st == MF_OK && r->from < s->o.n_workers) /* rows, too */
        s->pulled[r->from] = s->version;
    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, out.data, out.len);
    mf_buf_deinit(&out);
    mf_mail_free(r);
    return st;
}

static mf_status take_stand(server *s, mf_mail *r)
{
    mf_ps_progress standing = { .begun = s->begun,
                                .start = s->start,
                                .version = s->version,
                                .batches = s->batches,
                                .repeated = s->repeated,
                                .late = s->late,
                                .done = s->start + s->batches + s->late_batches,
                                .staleness = mf_ps_leases_staleness(s->leases),
                                .holds = mf_ps_copy_at_hand(s) };
    mf_status st = mf_ps_store_steps(&s->store, &standing.steps);

    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, &standing, sizeof standing);
    mf_mail_free(r);
    return st;
}

/* Replace the state by a copy: of this slice, as of its last reply. */
static mf_status ps_server_become(server *s, const mf_mail *r)
{
    mf_ps_reader in = { .at = r->data, .left = r->frame.size };
    const void *from = mf_ps_reader_take(&in, 1, sizeof(mf_ps_copy_of));
    mf_ps_copy_of about = { .slices = -1 };

    if (from)
        memcpy(&about, from, sizeof about);
    if (s->o.mode.sync || about.slices != s->o.n_servers || about.slice != s->o.index)
        return MF_FAIL(MF_INVALID_ARGUMENT, "this is not a copy of this server's slice");
    s->begun = false;
    MF_TRY(mf_ps_image_read(s, &in));
    s->generation = about.generation;
    s->moment = about.step;
    s->begun = true;
    return mf_ps_leases_revoke_all(s->leases, s->o.n_workers);
}

static mf_status take_copy_of_self(server *s, mf_mail *r)
{
    const mf_status read = r->frame.size > 0 ? ps_server_become(s, r) : MF_OK;
    const char *text = read == MF_OK ? "" : mf_error_message();
    mf_status st = MF_OK;

    if (read == MF_OK)
        st = mf_ps_keep_copy(s);
    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, text, *text ? strlen(text) + 1 : 0);
    mf_mail_free(r);
    return st;
}

static mf_status take_end(server *s, mf_mail *r)
{
    const int64_t staleness = mf_ps_leases_staleness(s->leases);
    const mf_status st = mf_ps_send_reply(s, r, &staleness, sizeof staleness);

    s->over = true;
    mf_mail_free(r);
    return st;
}

/* Grant all leases that can be granted now. */
static mf_status grant_leases(server *s)
{
    mf_ps_grant g;

    while (mf_ps_leases_next(s->leases, &g)) {
        mf_frame f = { .kind = MF_MESSAGE_REPLY,
                       .epoch = mf_net_epoch(s->o.net),
                       .group = MF_PS_LEASE,
                       .seq = g.seq };

        if (g.batch == MF_PS_NO_BLOCK && s->stop)
            g.batch = MF_PS_NONE_LEFT;
        f.size = sizeof g.batch;
        MF_TRY(mf_net_send(s->o.net, g.worker, &f, &g.batch, mf_clock_ns() + s->o.timeout_ns));
    }
    return MF_OK;
}

/* When no worker pushes any more. */
static mf_status try_save(server *s)
{
    mf_mail *r = s->save;
    const char *text;
    mf_status st;

    if (!r || s->active > 0)
        return MF_OK;
    text = mf_ps_save_part(s, r->data) == MF_OK ? "" : mf_error_message();
    st = mf_ps_send_reply(s, r, text, strlen(text));
    mf_mail_free(r);
    s->save = NULL;
    return st;
}

static mf_status take_save(server *s, mf_mail *r)
{
    mf_mail_free(s->save);
    s->save = r;
    return try_save(s);
}

/* Updates and leases no longer wait for it. */
static mf_status take_leave(server *s, mf_mail *r)
{
    const mf_status st = mf_ps_send_reply(s, r, NULL, 0);

    if (r->from < s->o.n_workers) {
        s->active--;
        mf_ps_leases_leave(s->leases, r->from);
    }
    mf_mail_free(r);
    MF_TRY(st);
    MF_TRY(grant_leases(s));
    MF_TRY(mf_ps_try_step(s));
    return try_save(s);
}

static mf_status ps_server_take_lease(server *s, mf_mail *r)
{
    mf_ps_lease lease = { 0 };
    mf_status st = MF_OK;

    if (r->frame.size == sizeof lease)
        memcpy(&lease, r->data, sizeof lease);
    if (r->from >= 0 && r->from < s->o.n_workers)
        st = mf_ps_leases_ask(s->leases, r->from, r->frame.seq, &lease);
    mf_mail_free(r);
    return st == MF_OK ? grant_leases(s) : st;
}

static mf_status serve_one(server *s, mf_mail *r)
{
    switch (r->frame.group) {
    case MF_PS_PUSH:
        return mf_ps_take_push(s, r);
    case MF_PS_SHM:
        return take_lane(s, r);
    case MF_PS_SET:
        return take_set(s, r);
    case MF_PS_GET:
        return take_get(s, r);
    case MF_PS_END:
        return take_end(s, r);
    case MF_PS_LEAVE:
        return take_leave(s, r);
    case MF_PS_SAVE:
        return take_save(s, r);
    case MF_PS_LEASE:
        return ps_server_take_lease(s, r);
    case MF_PS_TRACE:
        return mf_ps_take_trace(s, r);
    case MF_PS_PROGRESS:
        return take_stand(s, r);
    case MF_PS_DECISION:
        return mf_ps_take_decision(s, r);
    case MF_PS_TAKE:
        return take_copy_of_self(s, r);
    case MF_PS_COPY:
    case MF_PS_REPLICATION:
    case MF_PS_FETCH:
        return mf_ps_serve_copies(s, r);
    default:
        mf_mail_free(r);
        return MF_OK;
    }
}

static void show_version(const server *s)
{
    mf_status_page_holds(mf_net_name(s->o.net, mf_net_self(s->o.net)), mf_ps_copy_at_hand(s).step);
    mf_ps_show_copies(s);
}

static mf_status serve_and_show(server *s, mf_mail *r)
{
    const int64_t before = s->version, start = s->start;
    mf_status st;

    mf_status_page_computing(+1);
    st = serve_one(s, r);
    mf_status_page_computing(-1);
    if (s->version != before || s->start != start)
        show_version(s);
    if (s->version != before) {
        mf_status_page_step(s->version, 0, 0, 0.0);
        mf_status_page_phase(MF_PHASE_SERVE);
    }
    return st;
}

/* ---- serving ---- */

static void ps_server_wake(void *ctx)
{
    mf_mailbox_wake(ctx);
}

/* The variables of this server. */
static mf_status ps_server_hold(server *s, mf_trainer *t)
{
    MF_TRY(mf_ps_place(t, s->o.n_servers, &s->o.mode, &s->place));
    MF_TRY(mf_ps_store_init(&s->store, t, &s->place, s->o.index));
    for (int i = 0; i < s->store.n_slices; i++) {
        if (!s->store.slices[i].weight->lookups)
            s->dense += s->store.slices[i].to - s->store.slices[i].from;
    }
    s->touched = mf_calloc(s->store.n_slices, sizeof *s->touched);
    if (!s->touched)
        return MF_NOMEM("a parameter server");
    for (int i = 0; i < s->store.n_slices; i++) {
        const mf_weight *w = s->store.model->weights[i];

        if (w->lookups)
            s->touched[i] = mf_calloc(w->shape.dims[0], sizeof *s->touched[i]);
        if (w->lookups && !s->touched[i])
            return MF_NOMEM("a parameter server");
    }
    MF_TRY(mf_ps_leases_new(s->o.n_workers, s->o.mode.staleness, &s->leases));
    MF_TRY(mf_ps_leases_cut(s->leases, s->o.mode.blocks));
    MF_INFO("this parameter server holds %lld numbers", (long long)s->dense);
    return MF_OK;
}

/* The workers of this server. */
static mf_status ps_server_connect(server *s)
{
    const int n = s->o.n_workers;

    mf_mailbox_init(&s->requests);
    s->active = n;
    if (s->o.mode.sync)
        s->generation = s->o.generation; /* slices are set again */
    s->pushes = mf_calloc(n, sizeof *s->pushes);
    s->last_seq = mf_calloc(n, sizeof *s->last_seq);
    s->last_reply = mf_calloc(n, sizeof *s->last_reply);
    s->pulled = mf_calloc(n, sizeof *s->pulled);
    s->lanes = mf_calloc(n, sizeof *s->lanes);
    s->copies_in = mf_calloc(s->o.n_servers, sizeof *s->copies_in);
    if (!s->pushes || !s->last_seq || !s->last_reply || !s->pulled || !s->lanes || !s->copies_in)
        return MF_NOMEM("a parameter server");
    MF_TRY(mf_ps_leases_revoke_all(s->leases, n));
    mf_status_page_holds("", 0);
    show_version(s);
    mf_net_serve(s->o.net, mf_mailbox_put, &s->requests);
    s->watch = (mf_net_watch){ .fn = ps_server_wake, .ctx = &s->requests, .questions = true };
    mf_net_watch_add(s->o.net, &s->watch);
    return MF_OK;
}

static void disconnect(server *s)
{
    if (s->watch.fn)
        mf_net_watch_remove(s->o.net, &s->watch);
    s->watch.fn = NULL;
    mf_net_serve(s->o.net, NULL, NULL);
    mf_ps_trace_end(s);
    for (int w = 0; s->pushes && w < s->o.n_workers; w++)
        mf_mail_free(s->pushes[w].of);
    for (int w = 0; s->last_reply && w < s->o.n_workers; w++)
        mf_buf_deinit(&s->last_reply[w]);
    for (int w = 0; s->lanes && w < s->o.n_workers; w++)
        mf_ps_shm_close(&s->lanes[w]);
    mf_mail_free(s->save);
    s->save = NULL;
    mf_ps_shm_close(&s->copies_out);
    for (int i = 0; s->copies_in && i < s->o.n_servers; i++)
        mf_ps_shm_close(&s->copies_in[i]);
    mf_ps_quorum_reset(s);
    mf_free(s->copies_in);
    mf_free(s->lanes);
    mf_free(s->pulled);
    mf_free(s->pushes);
    mf_free(s->last_seq);
    mf_free(s->last_reply);
    mf_mailbox_deinit(&s->requests);
}

void mf_ps_server_free(server *s)
{
    if (!s)
        return;
    for (int i = 0; s->touched && i < s->store.n_slices; i++)
        mf_free(s->touched[i]);
    mf_free(s->touched);
    mf_ps_dedup_deinit(&s->done);
    mf_ps_leases_free(s->leases);
    mf_ps_store_deinit(&s->store);
    mf_free(s);
}

/* The server of the last epoch, if its slices are the same; otherwise a new one. */
static mf_status find_server(const mf_ps_server_options *o, mf_trainer *t, server **out)
{
    server *s = o->kept ? *o->kept : NULL;
    mf_status st;

    if (o->kept)
        *o->kept = NULL;
    if (s && s->o.n_servers == o->n_servers && s->o.index == o->index) {
        s->o = *o;
        *out = s;
        return MF_OK;
    }
    mf_ps_server_free(s);
    s = mf_calloc(1, sizeof *s);
    if (!s)
        return MF_NOMEM("a parameter server");
    s->o = *o;
    s->t = t;
    st = ps_server_hold(s, t);
    if (st == MF_OK)
        *out = s;
    else
        mf_ps_server_free(s);
    return st;
}

mf_status mf_ps_serve(const mf_ps_server_options *o, mf_trainer *t)
{
    server *s;
    mf_status st;

    MF_TRY(find_server(o, t, &s));
    st = ps_server_connect(s);
    mf_status_page_begin(0, 0);
    mf_status_page_phase(MF_PHASE_SERVE);
    while (st == MF_OK && !s->over) {
        mf_mail *r;

        st = mf_ps_next_request(s, &r);
        if (st == MF_OK)
            st = serve_and_show(s, r);
    }
    disconnect(s);
    if (o->kept)
        *o->kept = s;
    else
        mf_ps_server_free(s);
    return st;
}
