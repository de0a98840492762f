/* SPDX-License-Identifier: Apache-2.0 */
/* master_callable.c - callables: runs whose names are registered once. A handle identifies them,
 * and tensors are passed in order. */
#include "proto/tensor_codec.h"
#include "tf_server/master.h"

#include <inttypes.h>
#include <stdio.h>

enum { FEED_MAX = INT32_MAX }; /* bytes of one */

typedef struct callable {
    char handle[24];
    mf_arena *arena;
    mf_run_names names;
    int64_t
        timeout_ms; /* the only option used: TensorFlow ignores collective_graph_key here, too */
    int refs; /* guarded by the session's `extending` */
} callable;

static void callable_free(callable *c)
{
    if (!c)
        return;
    mf_arena_free(c->arena);
    mf_free(c);
}

static void master_callable_release(mf_client_session *s, callable *c)
{
    bool last;

    pthread_mutex_lock(&s->extending);
    last = --c->refs == 0;
    pthread_mutex_unlock(&s->extending);
    if (last)
        callable_free(c);
}

void mf_client_session_free_callables(mf_client_session *s)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&s->callables, &it)) != NULL)
        callable_free(e->value);
    mf_map_deinit(&s->callables);
}

static mf_status callable_new(const Tensorflow__CallableOptions *o, callable **out)
{
    callable *c = mf_calloc(1, sizeof *c);

    *out = c;
    if (!c)
        return MF_NOMEM("a callable");
    *c = (callable){ .arena = mf_arena_new(), .refs = 1 };
    if (!c->arena)
        return MF_NOMEM("a callable");
    c->timeout_ms = o->run_options ? o->run_options->timeout_in_ms : 0;
    c->names = (mf_run_names){
        .feeds = mf_arena_strings(c->arena, (const char *const *)o->feed, (int64_t)o->n_feed),
        .fetches = mf_arena_strings(c->arena, (const char *const *)o->fetch, (int64_t)o->n_fetch),
        .targets = mf_arena_strings(c->arena, (const char *const *)o->target, (int64_t)o->n_target),
        .n_feeds = (int)o->n_feed,
        .n_fetches = (int)o->n_fetch,
        .n_targets = (int)o->n_target
    };
    return c->names.feeds && c->names.fetches && c->names.targets ? MF_OK : MF_NOMEM("a callable");
}

static mf_status master_callable_add(mf_client_session *s, callable *c, mf_arena *arena,
                                     int64_t *handle)
{
    mf_signature sig;
    mf_status st;

    pthread_mutex_lock(&s->extending);
    st = mf_signature_find(s->placed->graph, &c->names, arena, &sig); /* checked now, not at the
                                                                         first run */
    *handle = st == MF_OK ? s->n_callables++ : 0;
    (void)snprintf(c->handle, sizeof c->handle, "%" PRId64, *handle);
    if (st == MF_OK)
        st = mf_map_set(&s->callables, c->handle, c);
    pthread_mutex_unlock(&s->extending);
    return st;
}

mf_status mf_master_make_callable(mf_request *r, const ProtobufCMessage *message)
{
    static Tensorflow__CallableOptions none = TENSORFLOW__CALLABLE_OPTIONS__INIT;
    const Tensorflow__MakeCallableRequest *q = (const Tensorflow__MakeCallableRequest *)message;
    Tensorflow__MakeCallableResponse out = TENSORFLOW__MAKE_CALLABLE_RESPONSE__INIT;
    mf_client_session *s;
    callable *c;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    st = callable_new(q->options ? q->options : &none, &c);
    if (st == MF_OK)
        st = master_callable_add(s, c, r->arena, &out.handle);
    if (st != MF_OK)
        callable_free(c);
    mf_client_session_release(s);
    return st == MF_OK ? mf_request_reply(r, &out.base) : st;
}

static mf_status master_callable_find(mf_client_session *s, int64_t handle, bool remove,
                                      callable **out)
{
    char key[24];
    callable *c;

    (void)snprintf(key, sizeof key, "%" PRId64, handle);
    pthread_mutex_lock(&s->extending);
    c = remove ? mf_map_remove(&s->callables, key) : mf_map_find(&s->callables, key);
    if (c && !remove)
        c->refs++;
    pthread_mutex_unlock(&s->extending);
    *out = c;
    if (!c)
        return MF_FAIL(MF_INVALID_ARGUMENT, "No such callable handle: %" PRId64, handle);
    return MF_OK;
}

static mf_status master_callable_run(mf_request *r, mf_client_session *s, const callable *c,
                                     const Tensorflow__RunCallableRequest *q, mf_tensor *feeds,
                                     mf_tensor **results)
{
    const mf_run_names *n = &c->names;
    Tensorflow__RunCallableResponse out = TENSORFLOW__RUN_CALLABLE_RESPONSE__INIT;
    const mf_tensor **fed = MF_ARENA_ARRAY(r->arena, const mf_tensor *, n->n_feeds + 1);

    out.fetch = MF_ARENA_ARRAY(r->arena, Tensorflow__TensorProto *, n->n_fetches + 1);
    if (!fed || !out.fetch)
        return MF_NOMEM("a step");
    if ((int)q->n_feed != n->n_feeds)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Expected %d feed tensors, but got %d", n->n_feeds,
                       (int)q->n_feed);
    for (int i = 0; i < n->n_feeds; i++) {
        fed[i] = &feeds[i];
        MF_TRY(mf_tensor_decode(q->feed[i], FEED_MAX, &feeds[i]));
    }
    MF_TRY(mf_master_step_run(
        r, s,
        &(mf_master_step){ .names = *n,
                           .feeds = fed,
                           .results = results,
                           .timeout_ms = c->timeout_ms > 0 ? c->timeout_ms : s->timeout_ms }));
    for (int i = 0; i < n->n_fetches; i++)
        MF_TRY(mf_tensor_encode(results[i], r->arena, &out.fetch[i]));
    out.n_fetch = (size_t)n->n_fetches;
    return mf_request_reply(r, &out.base);
}

static mf_status master_callable_run_it(mf_request *r, mf_client_session *s, const callable *c,
                                        const Tensorflow__RunCallableRequest *q)
{
    const mf_run_names *n = &c->names;
    mf_tensor *feeds = MF_ARENA_ARRAY(r->arena, mf_tensor, n->n_feeds + 1);
    mf_tensor **results = MF_ARENA_ARRAY(r->arena, mf_tensor *, n->n_fetches + 1);
    mf_status st = feeds && results ? MF_OK : MF_NOMEM("a step");

    if (st == MF_OK)
        st = master_callable_run(r, s, c, q, feeds, results);
    for (int i = 0; feeds && i < n->n_feeds; i++)
        mf_tensor_clear(&feeds[i]);
    for (int i = 0; results && i < n->n_fetches; i++)
        mf_tensor_free(results[i]);
    return st;
}

mf_status mf_master_run_callable(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RunCallableRequest *q = (const Tensorflow__RunCallableRequest *)message;
    mf_client_session *s;
    callable *c;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    st = master_callable_find(s, q->handle, false, &c);
    if (st == MF_OK) {
        st = master_callable_run_it(r, s, c, q);
        master_callable_release(s, c);
    }
    mf_client_session_release(s);
    return st;
}

mf_status mf_master_release_callable(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__ReleaseCallableRequest *q =
        (const Tensorflow__ReleaseCallableRequest *)message;
    mf_client_session *s;
    callable *c;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    st = master_callable_find(s, q->handle, true, &c);
    if (st == MF_OK)
        master_callable_release(s, c);
    mf_client_session_release(s);
    return st;
}
