/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c - see collective.h. Pieces that were sent are never written again, so nobody waits
 * until they are fetched. What comes goes on in the pool: to send a piece may take until its
 * receiver reads, and whoever takes answers must not wait for somebody who does the same. */
#include "server/collective.h"

#include "base/clock.h"
#include "proto/buf_message.h"
#include "proto/worker.pb-c.h"
#include "server/assembly.h"
#include "server/circle.h"
#include "server/peers.h"
#include "server/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One that is under way. */
typedef struct run {
    mf_cancel_hook hook; /* first: the step is cancelled */
    const mf_meeting *meeting;
    mf_collect *collect;
    mf_kernel *kernel;
    mf_shape shape;
    int64_t deadline_ns; /* 0: none */
    mf_arena *arena;
    mf_circle *circle;
    mf_routes routes;
    mf_tensor out; /* pieces of it are written by their trips */
    mf_tensor size; /* the group's, in the values' type */
    mf_cancel cancel; /* ends all that is asked */

    pthread_mutex_t lock; /* all below */
    int pending; /* trips, and whoever is at it */
    bool ends;
    mf_error why;
} run;

/* A piece on its way. */
typedef struct trip {
    mf_task task; /* first: it goes on */
    run *run;
    const mf_route *route;
    int leg;
    mf_part come; /* what was received, until it is used */
    mf_tensor value;
} trip;

/* ---- beginning and ending ---- */

static void run_free(run *r)
{
    mf_tensor_clear(&r->out);
    mf_tensor_clear(&r->size);
    mf_object_unref(r->circle ? &r->circle->base : NULL);
    mf_arena_free(r->arena);
    mf_cancel_deinit(&r->cancel);
    pthread_mutex_destroy(&r->lock);
    mf_free(r);
}

/* What is known of the group serves the next step, unless it has failed. */
static void remember(run *r, bool well)
{
    mf_collect *c = r->collect;
    mf_object *old = NULL;

    pthread_mutex_lock(&c->lock);
    if (!well || !c->known) {
        old = c->known;
        c->known = well && r->circle ? mf_object_ref(&r->circle->base) : NULL;
    }
    pthread_mutex_unlock(&c->lock);
    mf_object_unref(old);
}

static mf_circle *recall(mf_collect *c)
{
    mf_object *known;

    pthread_mutex_lock(&c->lock);
    known = mf_object_ref(c->known);
    pthread_mutex_unlock(&c->lock);
    return (mf_circle *)(void *)known;
}

static void finish(run *r)
{
    mf_kernel *k = r->kernel;
    mf_error why = r->why;

    (void)mf_cancel_remove(k->step->cancel, &r->hook);
    remember(r, why.status == MF_OK);
    if (why.status == MF_OK)
        mf_kernel_set(k, 0, &r->out);
    run_free(r);
    mf_kernel_done(k, why.status == MF_OK ? MF_OK : mf_error_restore(&why));
}

static void release(run *r)
{
    bool last;

    pthread_mutex_lock(&r->lock);
    last = --r->pending == 0;
    r->ends = r->ends || last;
    pthread_mutex_unlock(&r->lock);
    if (last)
        finish(r);
}

/* The first tells why; others only follow from it. */
static void fail(run *r, mf_status st)
{
    pthread_mutex_lock(&r->lock);
    if (r->why.status == MF_OK)
        mf_error_save(st, &r->why);
    pthread_mutex_unlock(&r->lock);
    mf_cancel_raise(&r->cancel);
}

static void step_cancelled(mf_cancel_hook *hook)
{
    run *r = (run *)(void *)hook;
    bool ends;

    pthread_mutex_lock(&r->lock);
    ends = r->ends;
    if (!ends)
        r->pending++;
    pthread_mutex_unlock(&r->lock);
    if (ends)
        return;
    mf_cancel_raise(&r->cancel);
    release(r);
}

/* ---- pieces ---- */

static void make_key(const run *r, const mf_leg_key *k, char key[MF_COLLECTIVE_KEY])
{
    (void)snprintf(key, MF_COLLECTIVE_KEY,
                   "%" PRId32 ":%" PRId32 ":%" PRIu64 ":%" PRId64 ":%d:%d:%d", r->collect->group,
                   r->collect->instance, r->kernel->frame, r->kernel->iteration, k->part[0],
                   k->part[1], k->part[2]);
}

/* This member's part, without a copy. */
static void take_own(const run *r, const mf_route *route, mf_tensor *out)
{
    const mf_tensor *in = r->kernel->in[0];

    mf_tensor_set(out, in);
    out->shape = MF_SHAPE(route->count);
    out->count = route->count;
    if (in->data)
        out->data = (char *)in->data + route->own * (int64_t)mf_dtype_cell(in->dtype);
}

static mf_status merge(const run *r, const mf_route *route, const void *come, mf_tensor *value)
{
    mf_tensor own = { 0 };

    MF_TRY(mf_tensor_alloc(value, r->collect->dtype, &MF_SHAPE(route->count)));
    take_own(r, route, &own);
    r->collect->merge(
        &(mf_span){ .in = { own.data, come }, .out = value->data, .n = route->count });
    mf_tensor_clear(&own);
    return MF_OK;
}

static void divide(const run *r, mf_tensor *value)
{
    if (r->collect->divide)
        r->collect->divide(&(mf_span){ .in = { value->data, r->size.data },
                                       .scalar = { false, true },
                                       .out = value->data,
                                       .n = value->count });
}

static mf_status send(const run *r, const mf_leg *leg, const mf_tensor *value)
{
    for (int i = 0; i < leg->n_sends; i++) {
        char key[MF_COLLECTIVE_KEY], place[MF_COLLECTIVE_PLACE];

        make_key(r, &leg->sends[i], key);
        mf_collective_place(key, place);
        MF_TRY(mf_room_send(r->meeting->room, place, value));
    }
    return MF_OK;
}

/* This piece of the result. */
static void take_result(const run *r, const mf_route *route, mf_tensor *out)
{
    mf_tensor_set(out, &r->out);
    out->shape = MF_SHAPE(route->count);
    out->count = route->count;
    out->data = (char *)r->out.data + route->first * (int64_t)mf_dtype_cell(r->out.dtype);
}

/* The piece is as it will stay. */
static void keep(const run *r, const mf_route *route, const void *data)
{
    const size_t bytes = mf_dtype_cell(r->out.dtype);

    if (route->count > 0)
        memcpy((char *)r->out.data + (size_t)route->first * bytes, data,
               (size_t)route->count * bytes);
}

/* ---- trips ---- */

static void receive(trip *t, const mf_leg *leg);

static void trip_end(trip *t, mf_status st)
{
    run *r = t->run;

    mf_tensor_clear(&t->value);
    if (st != MF_OK)
        fail(r, st);
    release(r);
}

/* What has come becomes the piece: merged with the own part, or a part of the result. */
static mf_status take_come(trip *t, const mf_leg *leg)
{
    const run *r = t->run;
    mf_status st = MF_OK;

    mf_tensor_clear(&t->value);
    if (leg->merges) {
        st = merge(r, t->route, t->come.data, &t->value);
    } else {
        keep(r, t->route, t->come.data);
        take_result(r, t->route, &t->value);
    }
    mf_parts_release(&t->come, 1);
    t->come = (mf_part){ 0 };
    return st;
}

/* The piece is here: this leg is done. */
static mf_status pass_on(trip *t)
{
    const mf_leg *leg = &t->route->legs[t->leg];
    run *r = t->run;

    if (leg->from >= 0)
        MF_TRY(take_come(t, leg));
    if (leg->finishes)
        divide(r, &t->value);
    t->leg++;
    if (leg->from < 0 && t->leg == t->route->n_legs)
        keep(r, t->route, t->value.data);
    return send(r, leg, &t->value);
}

static void go_on(trip *t)
{
    while (t->leg < t->route->n_legs) {
        const mf_leg *leg = &t->route->legs[t->leg];
        mf_status st;

        if (leg->from >= 0) {
            receive(t, leg);
            return;
        }
        if (t->leg == 0)
            take_own(t->run, t->route, &t->value);
        st = pass_on(t);
        if (st != MF_OK) {
            trip_end(t, st);
            return;
        }
    }
    trip_end(t, MF_OK);
}

/* The thread's error came from this member. */
static mf_status blame(const run *r, const mf_circle_member *m, mf_status st)
{
    char before[300];

    if (st == MF_ABORTED) { /* it was restarted, perhaps */
        mf_error why;

        mf_error_save(st, &why);
        mf_circle_doubt(r->meeting->server, r->meeting->leader, r->collect, m);
        (void)mf_error_restore(&why);
    }
    (void)snprintf(before, sizeof before,
                   "group %d, instance %d: receiving from %s: ", r->collect->group,
                   r->collect->instance, m->device);
    return mf_error_wrap(st, before, "");
}

static void go_on_later(mf_task *task)
{
    trip *t = (trip *)(void *)task;
    const mf_status st = pass_on(t);

    if (st == MF_OK)
        go_on(t);
    else
        trip_end(t, st);
}

static void received(void *ctx, mf_status st, mf_part *parts, int n)
{
    trip *t = ctx;
    const run *r = t->run;
    const mf_leg *leg = &t->route->legs[t->leg];
    const size_t bytes = (size_t)t->route->count * mf_dtype_cell(r->collect->dtype);

    if (st == MF_OK)
        st = mf_buf_message_read(parts, n, bytes, &t->come);
    if (st != MF_OK) {
        trip_end(t, blame(r, &r->circle->members[leg->from], st));
        return;
    }
    t->task.fn = go_on_later;
    mf_pool_submit(r->meeting->server->pool, &t->task);
}

static void receive(trip *t, const mf_leg *leg)
{
    run *r = t->run;
    mf_server *server = r->meeting->server;
    const mf_circle_member *from = &r->circle->members[leg->from];
    Tensorflow__RecvBufRequest request = TENSORFLOW__RECV_BUF_REQUEST__INIT;
    const int64_t until = mf_deadline_ahead(r->deadline_ns);
    const mf_question q = { .method = "/tensorflow.WorkerService/RecvBuf",
                            .message = &request.base,
                            .deadline_ns = until == INT64_MAX ? 0 : until,
                            .cancel = &r->cancel };
    mf_caller *caller;
    const mf_status st = mf_peers_caller(server->peers, from->task, &caller);
    char key[MF_COLLECTIVE_KEY];

    if (st != MF_OK) {
        trip_end(t, blame(r, from, st));
        return;
    }
    make_key(r, &leg->key, key);
    request.step_id = r->meeting->step;
    request.buf_rendezvous_key = key;
    request.num_bytes = t->route->count * (int64_t)mf_dtype_cell(r->collect->dtype);
    request.src_device = (char *)(uintptr_t)from->device;
    request.dst_device = (char *)(uintptr_t)mf_server_self(server)->device;
    request.src_incarnation = from->incarnation;
    request.request_id = (int64_t)(mf_random_seed() >> 1 | 1);
    mf_caller_start_parts(caller, &q, received, t);
}

/* ---- the whole ---- */

static mf_status make_trips(run *r, trip **out)
{
    const mf_circle *c = r->circle;
    mf_routes_of of = {
        .collect = r->collect, .task = c->task, .n = c->n, .self = c->self, .source = c->source
    };

    MF_TRY(mf_shape_count(&r->shape, &of.count));
    MF_TRY(mf_routes_make(&of, r->arena, &r->routes));
    *out = MF_ARENA_ARRAY(r->arena, trip, r->routes.n + 1);
    if (!*out)
        return MF_NOMEM("a collective");
    for (int i = 0; i < r->routes.n; i++)
        (*out)[i] = (trip){ .run = r, .route = &r->routes.all[i] };
    if (r->collect->divide) {
        MF_TRY(mf_tensor_alloc(&r->size, r->collect->dtype, &MF_SCALAR));
        mf_tensor_put(&r->size, 0, r->collect->size);
    }
    return mf_tensor_alloc(&r->out, r->collect->dtype, &r->shape);
}

/* The circle is known. */
static void begin(run *r)
{
    trip *trips;
    const mf_status st = make_trips(r, &trips);

    if (st != MF_OK) {
        fail(r, st);
        release(r);
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->pending += r->routes.n;
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->routes.n; i++)
        go_on(&trips[i]);
    release(r);
}

static void found(void *ctx, mf_status st, mf_circle *circle)
{
    run *r = ctx;

    r->circle = circle;
    if (st == MF_OK) {
        begin(r);
        return;
    }
    fail(r, st);
    release(r);
}

static mf_status run_new(const mf_meeting *m, mf_collect *c, const mf_shape *shape, mf_kernel *k,
                         run **out)
{
    run *r = mf_calloc(1, sizeof *r);

    *out = NULL;
    if (!r)
        return MF_NOMEM("a collective");
    *r = (run){ .hook.fn = step_cancelled,
                .meeting = m,
                .collect = c,
                .kernel = k,
                .shape = *shape,
                .deadline_ns = k->step->deadline_ns,
                .arena = mf_arena_new(),
                .pending = 1 };
    if (c->timeout_ns > 0 &&
        (r->deadline_ns == 0 || mf_clock_ns() + c->timeout_ns < r->deadline_ns))
        r->deadline_ns = mf_clock_ns() + c->timeout_ns;
    mf_cancel_init(&r->cancel);
    pthread_mutex_init(&r->lock, NULL);
    if (!r->arena) {
        run_free(r);
        return MF_NOMEM("a collective");
    }
    *out = r;
    return MF_OK;
}

void mf_collective_start(const mf_meeting *m, mf_collect *c, const mf_shape *shape, mf_kernel *k)
{
    mf_status st;
    run *r;

    st = run_new(m, c, shape, k, &r);
    if (st == MF_OK && !mf_cancel_add(k->step->cancel, &r->hook)) {
        run_free(r);
        st = MF_FAIL(MF_CANCELLED, "the step was cancelled");
    }
    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    r->circle = recall(c);
    if (r->circle)
        begin(r);
    else
        mf_circle_find(&(mf_circle_search){ .server = m->server,
                                            .leader = m->leader,
                                            .collect = c,
                                            .shape = *shape,
                                            .deadline_ns = r->deadline_ns,
                                            .cancel = &r->cancel,
                                            .done = found,
                                            .ctx = r });
}
