/* SPDX-License-Identifier: Apache-2.0 */
/* ps_client.c - the worker's side, with a server that does not answer. */
#include "dist/param_server/ps_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/net/net_tasks.h"
#include "unit/train/loop/toy.h"

#include <stdio.h>
#include <unistd.h>

enum { SERVER = 1, GROUP = 99 };

typedef void with_client(mf_ps_client *c);

static void be_a_worker(mf_net *net, with_client *run)
{
    const mf_ps_mode mode = { .sync = true, .staleness = -1, .period = 1 };
    mf_ps_client *c;
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd" });
    T_OK(mf_ps_client_new(net, SERVER, 1, p.trainer, &mode, 0, p.trainer->options.shards, 300000000,
                          &c));
    run(c);
    mf_ps_client_free(c);
    toy_end(&p);
}

static bool work_or_be_silent(mf_net *net, void *arg)
{
    const mf_frame over = { .kind = MF_MESSAGE_REPLY, .group = GROUP };
    const int64_t until = mf_clock_ns() + 20000000000;

    if (mf_net_self(net) == SERVER)
        return mf_net_recv(net, 0, &over, NULL, until, "the end") == MF_OK;
    be_a_worker(net, *(with_client **)arg);
    return mf_net_send(net, SERVER, &over, NULL, until) == MF_OK;
}

static void run_with_client(with_client *run)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 2, .run = work_or_be_silent, .arg = &run }));
}

/* ---- saving ---- */

static void save_without_answer(mf_ps_client *c)
{
    char prefix[64];
    mf_snapshot *s;

    (void)snprintf(prefix, sizeof prefix, "/tmp/meshflow-save-%d", (int)getpid());
    T_OK(mf_snapshot_take(c->t, &s));
    T_OK(mf_ps_client_save(c, prefix, s));
    T_TRUE(!mf_snapshot_has_parts(s)); /* so the chief writes everything */
    mf_snapshot_free(s);
}

MF_TEST(servers_that_do_not_save_in_time_leave_saving_to_the_chief)
{
    run_with_client(save_without_answer);
}

/* ---- shared memory that is too small ---- */

/* One part of each kind, with distinct values. */
static void fill(mf_ps_client *c, mf_push_pull_round *r)
{
    float next = 1;

    for (int v = 0; v < r->n_values; v++) {
        const int g = c->gradient[v];
        mf_push_pull_round_value *x = &r->values[v];

        x->dtype = MF_DTYPE_F32;
        if (g >= 0)
            x->shape = c->t->graph.gradients[g].weight->shape;
        T_OK(mf_tensor_alloc(&x->part[0], MF_DTYPE_F32, &x->shape));
        for (int64_t i = 0; i < x->part[0].count; i++)
            ((float *)x->part[0].data)[i] = next++;
    }
}

static void push_through_a_message(mf_ps_client *c)
{
    mf_push_pull_round r = { .samples = 1, .n_parts = 1 };
    const size_t head = sizeof(mf_ps_push);
    mf_buf want = { 0 }, got = { 0 };
    mf_ps_push sent;

    T_OK(mf_push_pull_round_init(&r, c->t->graph.n_results, 1));
    r.parts[0] = (mf_reduction_tree_node){ 0, 1 };
    fill(c, &r);
    T_OK(mf_ps_write_push(c, &r, 0, &want));
    T_OK(mf_ps_shm_make(&c->lanes[0], c->dense[0] * (int64_t)sizeof(float)));
    mf_ps_shm_hide(&c->lanes[0]);
    for (int v = 0; v < r.n_values; v++) { /* it has space for the gradients only */
        if (mf_ps_take(c, v, 0, 1, &r.values[v].part[0]))
            mf_tensor_clear(&r.values[v].part[0]);
        T_EQ(r.values[v].part[0].data == NULL, c->gradient[v] >= 0);
    }
    T_OK(mf_ps_write_push(c, &r, 0, &got));
    memcpy(&sent, got.data, sizeof sent);
    T_TRUE(sent.in_lane == -1 && sent.answer == -1);
    T_EQ(got.len, want.len);
    T_EQ(memcmp(got.data + head, want.data + head, want.len - head), 0);
    mf_push_pull_round_deinit(&r);
    mf_buf_deinit(&want);
    mf_buf_deinit(&got);
}

MF_TEST(servers_receive_in_a_message_what_exceeds_the_shared_memory)
{
    run_with_client(push_through_a_message);
}

static int64_t pushed_in_lane(mf_ps_client *c)
{
    mf_push_pull_round r = { .samples = 1, .n_parts = 1 };
    mf_buf message = { 0 };
    mf_ps_push sent;

    T_OK(mf_push_pull_round_init(&r, c->t->graph.n_results, 1));
    r.parts[0] = (mf_reduction_tree_node){ 0, 1 };
    fill(c, &r);
    T_OK(mf_ps_write_push(c, &r, 0, &message));
    memcpy(&sent, message.data, sizeof sent);
    mf_push_pull_round_deinit(&r);
    mf_buf_deinit(&message);
    return sent.in_lane;
}

static void push_after_a_large_reply(mf_ps_client *c)
{
    T_OK(mf_ps_shm_make(&c->lanes[0], 1 << 16));
    mf_ps_shm_hide(&c->lanes[0]);
    T_TRUE(pushed_in_lane(c) > 0);
    c->replied[0] = c->lanes[0].room; /* and its parts are aligned */
    T_EQ(pushed_in_lane(c), -1);
}

MF_TEST(servers_get_more_shared_memory_after_a_reply_that_exceeds_it)
{
    run_with_client(push_after_a_large_reply);
}
