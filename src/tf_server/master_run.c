/* SPDX-License-Identifier: Apache-2.0 */
/* master_run.c - RunStep: feeds in, fetches out. */
#include "proto/tensor_codec.h"
#include "proto/wire.h"
#include "runtime/session.h"
#include "tf_server/master.h"

#include <stdio.h>
#include <string.h>

enum { FEED_MAX = INT32_MAX }; /* bytes of one */

/* A step's tensors: by feed, and by fetch. */
typedef struct master_run_step {
    const Tensorflow__RunStepRequest *q;
    const char **names; /* of feeds */
    mf_tensor *feeds;
    const mf_tensor **fed;
    mf_tensor **results;
    mf_buf stats; /* StepStats, if requested */
    bool is_noted;
} master_run_step;

static mf_status step_init(master_run_step *s, const Tensorflow__RunStepRequest *q, mf_arena *arena)
{
    const int64_t n = (int64_t)q->n_feed;

    *s = (master_run_step){ .q = q,
                            .names = MF_ARENA_ARRAY(arena, const char *, n + 1),
                            .feeds = MF_ARENA_ARRAY(arena, mf_tensor, n + 1),
                            .fed = MF_ARENA_ARRAY(arena, const mf_tensor *, n + 1),
                            .results = MF_ARENA_ARRAY(arena, mf_tensor *, (int64_t)q->n_fetch + 1),
                            .is_noted = q->options && q->options->trace_level > 0 };
    if (!s->names || !s->feeds || !s->fed || !s->results)
        return MF_NOMEM("a step");
    for (int64_t i = 0; i < n; i++) {
        static const Tensorflow__TensorProto none = TENSORFLOW__TENSOR_PROTO__INIT;
        const Tensorflow__NamedTensorProto *f = q->feed[i];

        s->names[i] = f->name;
        s->fed[i] = &s->feeds[i];
        if (mf_tensor_decode(f->tensor ? f->tensor : &none, FEED_MAX, &s->feeds[i]) != MF_OK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "feed %s: %s", f->name, mf_error_message());
    }
    return MF_OK;
}

static void step_deinit(master_run_step *s)
{
    for (size_t i = 0; s->feeds && i < s->q->n_feed; i++)
        mf_tensor_clear(&s->feeds[i]);
    for (size_t i = 0; s->results && i < s->q->n_fetch; i++)
        mf_tensor_free(s->results[i]);
    mf_buf_deinit(&s->stats);
}

static mf_run_names names_of(const master_run_step *s)
{
    const Tensorflow__RunStepRequest *q = s->q;

    return (mf_run_names){ .feeds = s->names,
                           .fetches = (const char *const *)q->fetch,
                           .targets = (const char *const *)q->target,
                           .n_feeds = (int)q->n_feed,
                           .n_fetches = (int)q->n_fetch,
                           .n_targets = (int)q->n_target };
}

static mf_status master_run(mf_request *r, mf_client_session *session, master_run_step *s)
{
    const Tensorflow__RunStepRequest *q = s->q;
    const int64_t timeout = q->options && q->options->timeout_in_ms > 0 ? q->options->timeout_in_ms
                                                                        : session->timeout_ms;
    const mf_master_step all = { .names = names_of(s),
                                 .feeds = s->fed,
                                 .results = s->results,
                                 .stats = s->is_noted ? &s->stats : NULL,
                                 .collectives = q->options && q->options->experimental
                                                    ? q->options->experimental->collective_graph_key
                                                    : 0,
                                 .timeout_ms = timeout };

    if (q->partial_run_handle[0] != '\0')
        return mf_master_partial_run(r, session, q->partial_run_handle, &all);
    return mf_master_step_run(r, session, &all);
}

/* Tensors are borrowed until it is encoded. */
static mf_status master_run_put_results(const master_run_step *s, mf_arena *arena,
                                        Tensorflow__RunStepResponse *out)
{
    const int64_t n = (int64_t)s->q->n_fetch;
    Tensorflow__NamedTensorProto *all = MF_ARENA_ARRAY(arena, Tensorflow__NamedTensorProto, n + 1);

    out->tensor = MF_ARENA_ARRAY(arena, Tensorflow__NamedTensorProto *, n + 1);
    if (!all || !out->tensor)
        return MF_NOMEM("a step");
    for (int64_t i = 0; i < n; i++) {
        tensorflow__named_tensor_proto__init(&all[i]);
        all[i].name = s->q->fetch[i];
        MF_TRY(mf_tensor_encode(s->results[i], arena, &all[i].tensor));
        out->tensor[i] = &all[i];
    }
    out->n_tensor = (size_t)n;
    return MF_OK;
}

/* RunMetadata that the client requested. */
static mf_status put_metadata(const master_run_step *s, mf_client_session *session, mf_arena *arena,
                              Tensorflow__RunStepResponse *out)
{
    const Tensorflow__RunStepRequest *q = s->q;
    const bool parts = q->options && q->options->output_partition_graphs;
    const mf_run_names names = names_of(s);
    Tensorflow__RunMetadata *m;

    if (!s->is_noted && !parts)
        return MF_OK;
    m = MF_ARENA_NEW(arena, Tensorflow__RunMetadata);
    if (!m)
        return MF_NOMEM("a step");
    tensorflow__run_metadata__init(m);
    m->step_stats = (ProtobufCBinaryData){ s->stats.len, (uint8_t *)s->stats.data };
    out->metadata = m;
    if (!parts)
        return MF_OK;
    return mf_master_parts(session, &names, arena, &m->partition_graphs, &m->n_partition_graphs);
}

/* A client may request errors in the response. */
static mf_status master_run_reply_error(mf_request *r, const Tensorflow__RunStepRequest *q,
                                        mf_status st)
{
    Tensorflow__RunStepResponse out = TENSORFLOW__RUN_STEP_RESPONSE__INIT;
    char text[MF_ERROR_MESSAGE_MAX];

    (void)snprintf(text, sizeof text, "%s", mf_error_message());
    mf_utf8_sanitize(text);
    if (!q->store_errors_in_response_body)
        return MF_FAIL(st, "%s", text);
    out.status_code = (int32_t)st;
    out.status_error_message = text;
    return mf_request_reply(r, &out.base);
}

static mf_status master_run_and_reply(mf_request *r, mf_client_session *session,
                                      const Tensorflow__RunStepRequest *q)
{
    Tensorflow__RunStepResponse out = TENSORFLOW__RUN_STEP_RESPONSE__INIT;
    master_run_step s = { 0 };
    mf_status st = step_init(&s, q, r->arena);

    if (st == MF_OK)
        st = master_run(r, session, &s);
    if (st == MF_OK)
        st = master_run_put_results(&s, r->arena, &out);
    if (st == MF_OK)
        st = put_metadata(&s, session, r->arena, &out);
    if (st == MF_OK)
        st = mf_request_reply(r, &out.base);
    else
        st = master_run_reply_error(r, q, st);
    step_deinit(&s);
    return st;
}

mf_status mf_master_run_step(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RunStepRequest *q = (const Tensorflow__RunStepRequest *)message;
    mf_client_session *session;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &session));
    st = master_run_and_reply(r, session, q);
    mf_client_session_release(session);
    return st;
}
