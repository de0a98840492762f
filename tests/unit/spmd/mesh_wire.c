/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_wire.c - the only peer of a device never replies: a failure or a cancellation during the
 * wait ends the run. */
#include "spmd/session/mesh_session.h"
#include "unit/spmd/mesh_test.h"

#include <unistd.h>

typedef struct test_wire {
    mf_mesh_wire base; /* first */
    bool refuses; /* refuses to send */
    bool breaks; /* fails directly after a health check */
    bool cancels; /* cancels the session after that */
    mf_session *session;
    pthread_t canceller;
    bool broken;
    int given_up;
    void (*trouble)(void *ctx);
    void *ctx;
} test_wire;

static mf_status wire_send(mf_mesh_wire *base, int from, int to, int64_t run, int64_t key,
                           const mf_tensor *piece)
{
    (void)from;
    (void)to;
    (void)run;
    (void)key;
    (void)piece;
    return ((const test_wire *)base)->refuses ? MF_FAIL(MF_UNIMPLEMENTED, "too much for this wire")
                                              : MF_OK;
}

static void wire_open(mf_mesh_wire *base, mf_rendezvous_tables *rooms, void (*trouble)(void *ctx),
                      void *ctx)
{
    test_wire *w = (test_wire *)base;

    (void)rooms;
    w->trouble = trouble;
    w->ctx = ctx;
}

static void wire_close(mf_mesh_wire *base)
{
    (void)base;
}

static void wire_give_up(mf_mesh_wire *base, mf_status why)
{
    (void)why;
    ((test_wire *)base)->given_up++;
}

static void *cancel(void *arg)
{
    mf_session_cancel(arg);
    return NULL;
}

static mf_status wire_check(mf_mesh_wire *base)
{
    test_wire *w = (test_wire *)base;

    if (w->broken)
        return MF_FAIL(MF_ABORTED, "the peer is lost");
    if (w->breaks) {
        w->broken = true;
        w->trouble(w->ctx);
    }
    if (w->cancels) {
        w->cancels = false;
        T_EQ(pthread_create(&w->canceller, NULL, cancel, w->session), 0);
        usleep(100000); /* the run blocks this thread, so the test cannot wait for it */
    }
    return MF_OK;
}

static const mf_mesh_wire_kind KIND = { .send = wire_send,
                                        .open = wire_open,
                                        .close = wire_close,
                                        .give_up = wire_give_up,
                                        .check = wire_check };

/* Device 0 of two: `op` needs the other device's half of x. */
static void run_alone(test_wire *w, const char *op, mf_status code, const char *part)
{
    static const char *const feed = "x", *const fetch = "y";
    mf_mesh_setup setup = { .n = 1, .wire = &w->base, .session.threads = 1 };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(8, 64), 1), *y = NULL;
    mf_output in;
    mf_graph *g;

    T_OK(mf_meshes_parse("a:2", "batch:a", &setup.meshes, &setup.rules));
    T_OK(mf_graph_new(&g));
    in = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    mf_name_dims(g, in, "batch,");
    in = mf_apply(g, "Neg", MF_IN(in));
    (void)mf_applyf(g, op, op[0] == 'S' ? MF_IN(in, mf_ints(g, (int64_t[]){ 0 }, 1)) : MF_IN(in),
                    "name='y'");
    T_OK(mf_graph_status(g));
    w->base.kind = &KIND;
    T_OK(mf_mesh_session_make(g, &setup, &w->session));
    T_FAILS(code, part,
            mf_session_run(w->session, NULL, &feed, (const mf_tensor *[]){ x }, 1, &fetch, 1, NULL,
                           0, &y));
    if (w->canceller)
        pthread_join(w->canceller, NULL);
    mf_session_free(w->session);
    mf_graph_free(g);
    mf_tensor_free(x);
}

MF_TEST(mesh_send_failure_unblocks_waiting_devices)
{
    test_wire move = { .refuses = true }, sum = { .refuses = true };

    run_alone(&move, "Tanh", MF_UNIMPLEMENTED, "too much for this wire");
    T_EQ(move.given_up, 1);
    run_alone(&sum, "Sum", MF_UNIMPLEMENTED, "too much for this wire");
    T_EQ(sum.given_up, 1);
}

MF_TEST(mesh_peer_failure_just_before_a_run_is_not_lost)
{
    test_wire w = { .breaks = true };

    run_alone(&w, "Tanh", MF_ABORTED, "the peer is lost");
}

MF_TEST(mesh_cancellation_reaches_a_run_that_was_just_compiled)
{
    test_wire w = { .cancels = true };

    run_alone(&w, "Tanh", MF_CANCELLED, "");
}
