/* SPDX-License-Identifier: Apache-2.0 */
/* remote_run.c - RunStep: sends feeds, receives fetches. */
#include "base/clock.h"
#include "proto/master.pb-c.h"
#include "proto/tensor_codec.h"
#include "tf_client/remote_session.h"

#include <string.h>

/* protobuf-c's messages are not const-correct. */
static char **strings(const char *const *s)
{
    return (char **)(uintptr_t)s;
}

/* ---- the request ---- */

static mf_status put_feeds(const mf_remote_step *s, mf_arena *arena,
                           Tensorflow__RunStepRequest *out)
{
    Tensorflow__NamedTensorProto *all =
        MF_ARENA_ARRAY(arena, Tensorflow__NamedTensorProto, s->n_feeds + 1);

    out->feed = MF_ARENA_ARRAY(arena, Tensorflow__NamedTensorProto *, s->n_feeds + 1);
    if (!all || !out->feed)
        return MF_NOMEM("a step");
    for (int i = 0; i < s->n_feeds; i++) {
        tensorflow__named_tensor_proto__init(&all[i]);
        all[i].name = (char *)(uintptr_t)s->feed_names[i];
        MF_TRY(mf_tensor_encode(s->feeds[i], arena, &all[i].tensor));
        out->feed[i] = &all[i];
    }
    out->n_feed = (size_t)s->n_feeds;
    return MF_OK;
}

static mf_status put_step(const mf_remote_step *s, mf_arena *arena, Tensorflow__RunStepRequest *out)
{
    Tensorflow__RunOptions *options = MF_ARENA_NEW(arena, Tensorflow__RunOptions);

    if (!options)
        return MF_NOMEM("a step");
    tensorflow__run_options__init(options);
    options->timeout_in_ms = s->timeout_ms;
    out->session_handle = (char *)(uintptr_t)s->handle;
    out->fetch = strings(s->fetches);
    out->n_fetch = (size_t)s->n_fetches;
    out->target = strings(s->targets);
    out->n_target = (size_t)s->n_targets;
    out->options = options;
    out->store_errors_in_response_body = true; /* HTTP/2 headers cannot hold long messages */
    out->request_id = (int64_t)(mf_random_seed() >> 1);
    return put_feeds(s, arena, out);
}

/* ---- the response ---- */

/* Servers may return tensors in any order; most keep that of the fetches. */
static const Tensorflow__TensorProto *remote_run_find(const Tensorflow__RunStepResponse *r,
                                                      const char *name, int at)
{
    const size_t n = r->n_tensor;

    if ((size_t)at < n && strcmp(r->tensor[at]->name, name) == 0)
        return r->tensor[at]->tensor;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(r->tensor[i]->name, name) == 0)
            return r->tensor[i]->tensor;
    }
    return NULL;
}

static mf_status remote_run_take_result(const Tensorflow__RunStepResponse *r, const char *name,
                                        int at, mf_tensor *out)
{
    const Tensorflow__TensorProto *t = remote_run_find(r, name, at);
    mf_status st;

    if (!t)
        return MF_FAIL(MF_INTERNAL, "the server's response lacks %s", name);
    st = mf_tensor_decode(t, 0, out);
    return st == MF_OK ? MF_OK
                       : MF_FAIL(st, "the server's response for %s: %s", name, mf_error_message());
}

/* All or nothing. */
static mf_status take_results(const mf_remote_step *s, const Tensorflow__RunStepResponse *r,
                              mf_arena *arena, mf_tensor **results)
{
    mf_tensor *values = MF_ARENA_ARRAY(arena, mf_tensor, s->n_fetches + 1);
    mf_status st = values ? MF_OK : MF_NOMEM("results");

    for (int i = 0; st == MF_OK && i < s->n_fetches; i++)
        st = remote_run_take_result(r, s->fetches[i], i, &values[i]);
    for (int i = 0; st == MF_OK && i < s->n_fetches; i++) {
        if (!results[i])
            results[i] = mf_calloc(1, sizeof *results[i]);
        if (results[i])
            mf_tensor_move(results[i], &values[i]);
        else
            st = MF_NOMEM("results");
    }
    for (int i = 0; values && i < s->n_fetches; i++)
        mf_tensor_clear(&values[i]);
    return st;
}

/* The error of a failed step. The middle of a message that exceeds mf_error is cut: the node is
 * named at its end. */
static mf_status step_failed(const Tensorflow__RunStepResponse *r)
{
    const char *m = r->status_error_message, *node = strstr(m, "[[{{node ");
    const int room = MF_ERROR_MESSAGE_MAX - 100;
    const int end = node ? (int)strcspn(node, "\n") : 0;
    const mf_status st = r->status_code > MF_OK && r->status_code <= MF_UNAUTHENTICATED
                             ? (mf_status)r->status_code
                             : MF_UNKNOWN;

    if (!node || node - m + end <= room || end > room / 2)
        return MF_FAIL(st, "%s", m);
    return MF_FAIL(st, "%.*s ...\n\t %.*s", room - end, m, end, node);
}

/* The master ends the step at its timeout and says what it waited for. The call itself ends this
 * much later, if no reply has arrived. */
enum { ANSWER_MS = 1000 };

mf_status mf_remote_run(const mf_remote_step *s, mf_tensor **results)
{
    Tensorflow__RunStepRequest request = TENSORFLOW__RUN_STEP_REQUEST__INIT;
    mf_rpc_stub_call q = { .method = "/tensorflow.MasterService/RunStep",
                           .message = &request.base,
                           .reply = &tensorflow__run_step_response__descriptor,
                           .cancel = s->cancel };
    mf_arena *arena = mf_arena_new();
    const Tensorflow__RunStepResponse *r;
    ProtobufCMessage *reply;
    mf_status st;

    if (!arena)
        return MF_NOMEM("a step");
    if (s->timeout_ms > 0 && s->timeout_ms < INT64_MAX / 2000000)
        q.deadline_ns = mf_clock_ns() + (s->timeout_ms + ANSWER_MS) * 1000000;
    MF_TRY_TO(done, put_step(s, arena, &request));
    MF_TRY_TO(done, mf_rpc_stub_ask(s->caller, &q, arena, &reply));
    r = (const Tensorflow__RunStepResponse *)reply;
    st = r->status_code ? step_failed(r) : take_results(s, r, arena, results);

done:
    mf_arena_free(arena);
    return st;
}
