/* SPDX-License-Identifier: Apache-2.0 */
/* ps_again.c - lost pushes and lost answers: the worker repeats the push, the server applies it
 * once. */
#include "base/param.h"
#include "dist/param_server/ps_client.h"
#include "unit/net/net_tasks.h"
#include "unit/train/loop/toy.h"

#include <stdatomic.h>
#include <stdio.h>

enum { SERVER = 1, ROUNDS = 24, TIMEOUT_S = 30 };

/* ---- a transport that loses pushes and replies ---- */

static mf_transport_kind lossy;
static atomic_int seen[2], lost[2]; /* pushes, answers */
static int every[2]; /* one of this many is lost; 0: none */

static mf_status lossy_send(mf_transport *t, int peer, const mf_frame *f, const void *data,
                            int64_t deadline_ns)
{
    const int which = f->kind == MF_MESSAGE_REPLY;

    if (f->group == MF_PS_PUSH && (which || f->kind == MF_MESSAGE_REQUEST) && every[which] > 0 &&
        atomic_fetch_add(&seen[which], 1) % every[which] == 0) {
        atomic_fetch_add(&lost[which], 1);
        return MF_OK; /* the sender sees success */
    }
    return mf_transport_local.send(t, peer, f, data, deadline_ns);
}

static mf_status lossy_open(const mf_transport_options *o, mf_transport **out)
{
    MF_TRY(mf_transport_local.open(o, out));
    (*out)->kind = &lossy;
    return MF_OK;
}

/* ---- a worker that pushes repeatedly ---- */

typedef struct outcome {
    bool in_memory; /* shared: through shared memory, else in messages */
    int64_t version, again;
    float weights[TOY_INPUTS + 1];
    int n;
} outcome;

static void push_numbers(mf_ps_client *c, mf_push_pull_round *r, int64_t step)
{
    float next = (float)(step % 5) - 2.0f;

    r->step = step;
    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];

        x->dtype = MF_DTYPE_F32;
        x->shape =
            c->gradient[v] >= 0 ? c->t->graph.gradients[c->gradient[v]].weight->shape : MF_SCALAR;
        mf_tensor_clear(&x->part[0]);
        T_OK(mf_tensor_alloc(&x->part[0], MF_DTYPE_F32, &x->shape));
        for (int64_t i = 0; i < x->part[0].count; i++)
            ((float *)x->part[0].data)[i] = next += 0.125f;
    }
    T_OK(mf_ps_round(c, r));
}

static void note_weights(const mf_ps_client *c, const mf_push_pull_round *r, outcome *o)
{
    for (int v = 0; v < r->n_values; v++) {
        const mf_tensor *x = &r->values[v].result;

        for (int64_t i = 0; c->gradient[v] >= 0 && i < x->count; i++)
            o->weights[o->n++] = ((const float *)x->data)[i];
    }
}

static void be_a_worker(mf_net *net, outcome *o)
{
    const mf_ps_mode mode = { .sync = true, .staleness = -1, .period = 1 };
    mf_push_pull_round r = { .samples = 1, .n_parts = 1 };
    int64_t staleness;
    mf_ps_client *c;
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "momentum" });
    T_OK(mf_ps_client_new(net, SERVER, 1, p.trainer, &mode, 0, p.trainer->options.shards,
                          TIMEOUT_S * INT64_C(1000000000), &c));
    c->lanes[0].refused = !o->in_memory;
    T_OK(mf_ps_client_set(c));
    T_OK(mf_push_pull_round_init(&r, c->t->graph.n_results, 1));
    r.parts[0] = (mf_reduction_tree_node){ 0, 1 };
    for (int64_t step = 0; step < ROUNDS; step++)
        push_numbers(c, &r, step);
    note_weights(c, &r, o);
    o->version = c->version[0];
    o->again = c->again;
    mf_push_pull_round_deinit(&r);
    T_OK(mf_ps_client_end(c, &staleness));
    mf_ps_client_free(c);
    toy_end(&p);
}

static bool push_or_serve(mf_net *net, void *arg)
{
    const mf_ps_server_options o = { .net = net,
                                     .n_workers = 1,
                                     .n_servers = 1,
                                     .mode = { .sync = true, .staleness = -1, .period = 1 },
                                     .timeout_ns = TIMEOUT_S * INT64_C(1000000000) };
    mf_status st;
    toy p;

    if (mf_net_self(net) != SERVER) {
        be_a_worker(net, arg);
        return true;
    }
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "momentum" });
    st = mf_ps_serve(&o, p.trainer);
    toy_end(&p);
    return st == MF_OK;
}

static void run(outcome *o, int pushes, int answers)
{
    lossy = mf_transport_local;
    lossy.open = lossy_open;
    lossy.send = lossy_send;
    every[0] = pushes;
    every[1] = answers;
    for (int i = 0; i < 2; i++) {
        atomic_store(&seen[i], 0);
        atomic_store(&lost[i], 0);
    }
    T_TRUE(test_tasks_as_threads(
        &(test_tasks){ .n = 2, .run = push_or_serve, .arg = o, .transport = &lossy }));
}

static void lose_some(bool in_memory)
{
    outcome whole = { .in_memory = in_memory }, holed = { .in_memory = in_memory };

    T_OK(mf_param_set("ps_push_retry_ms=20"));
    run(&whole, 0, 0);
    run(&holed, 3, 4);
    printf("%d pushes and %d answers were lost, %lld pushes sent again\n", lost[0], lost[1],
           (long long)holed.again);
    T_TRUE(lost[0] >= ROUNDS / 3 && lost[1] >= ROUNDS / 4);
    T_TRUE(holed.again >= lost[0] + lost[1]); /* on a busy machine also some that were not lost */
    T_EQ(whole.version, ROUNDS);
    T_EQ(holed.version, ROUNDS); /* each was applied once */
    T_TRUE(whole.n == TOY_INPUTS + 1 && holed.n == whole.n);
    for (int i = 0; i < whole.n; i++)
        T_TRUE(whole.weights[i] == holed.weights[i]);
}

MF_TEST(servers_receive_a_lost_push_again_and_apply_it_once)
{
    lose_some(false);
}

MF_TEST(servers_receive_a_lost_push_again_through_shared_memory)
{
    lose_some(true);
}
