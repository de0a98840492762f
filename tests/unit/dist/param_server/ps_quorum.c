/* SPDX-License-Identifier: Apache-2.0 */
/* ps_quorum.c - a quorum of pushes, and a push that is repeated after a recovery although the
 * weights contain it already. */
#include "dist/param_server/ps_client.h"
#include "unit/net/net_tasks.h"
#include "unit/train/loop/toy.h"

#include <pthread.h>

enum { WORKERS = 2, SERVER = WORKERS, TIMEOUT_S = 30 };

static const mf_ps_mode mode = { .staleness = -1, .quorum = WORKERS, .period = 1 };

typedef struct quorum_job {
    pthread_barrier_t together; /* of the workers */
    int64_t version[WORKERS]; /* that each has after its last push */
} quorum_job;

/* The gradients of a round: every element is this. */
static void quorum_fill(const mf_ps_client *c, mf_push_pull_round *r, float gradient)
{
    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];

        x->dtype = MF_DTYPE_F32;
        x->shape =
            c->gradient[v] >= 0 ? c->t->graph.gradients[c->gradient[v]].weight->shape : MF_SCALAR;
        mf_tensor_clear(&x->part[0]);
        T_OK(mf_tensor_alloc(&x->part[0], MF_DTYPE_F32, &x->shape));
        for (int64_t i = 0; i < x->part[0].count; i++)
            ((float *)x->part[0].data)[i] = gradient;
    }
}

static void quorum_push(mf_ps_client *c, mf_push_pull_round *r, int64_t step)
{
    r->step = step;
    quorum_fill(c, r, 1.0f);
    T_OK(mf_ps_round(c, r));
}

/* Both workers push; then worker 0 pushes the same batch again, and worker 1 its next one. */
static void quorum_work(mf_net *net, quorum_job *job)
{
    const int rank = mf_net_self(net);
    mf_push_pull_round r = { .samples = 1, .n_parts = 1 };
    int64_t staleness;
    mf_ps_client *c;
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "momentum" });
    T_OK(mf_ps_client_new(net, SERVER, 1, p.trainer, &mode, 0, p.trainer->options.shards,
                          TIMEOUT_S * INT64_C(1000000000), &c));
    if (rank == 0)
        T_OK(mf_ps_client_set(c));
    (void)pthread_barrier_wait(&job->together);
    T_OK(mf_push_pull_round_init(&r, c->t->graph.n_results, 1));
    r.parts[0] = (mf_reduction_tree_node){ 0, 1 };
    quorum_push(c, &r, rank);
    T_EQ(c->version[0], 1);
    quorum_push(c, &r, rank == 0 ? 0 : 2);
    job->version[rank] = c->version[0];
    (void)pthread_barrier_wait(&job->together);
    mf_push_pull_round_deinit(&r);
    if (rank == 0)
        T_OK(mf_ps_client_end(c, &staleness));
    mf_ps_client_free(c);
    toy_end(&p);
}

static bool quorum_task(mf_net *net, void *arg)
{
    const mf_ps_server_options o = { .net = net,
                                     .n_workers = WORKERS,
                                     .n_servers = 1,
                                     .mode = mode,
                                     .timeout_ns = TIMEOUT_S * INT64_C(1000000000) };
    mf_status st;
    toy p;

    if (mf_net_self(net) != SERVER) {
        quorum_work(net, arg);
        return true;
    }
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "momentum" });
    st = mf_ps_serve(&o, p.trainer);
    toy_end(&p);
    return st == MF_OK;
}

/* Otherwise worker 0 would get its reply at once, and worker 1 would wait for it. */
MF_TEST(servers_count_a_repeated_push_towards_the_quorum)
{
    quorum_job job = { 0 };

    T_TRUE(pthread_barrier_init(&job.together, NULL, WORKERS) == 0);
    T_TRUE(
        test_tasks_as_threads(&(test_tasks){ .n = WORKERS + 1, .run = quorum_task, .arg = &job }));
    T_EQ(job.version[0], 2); /* its reply came with the update of worker 1's push */
    T_EQ(job.version[1], 2);
    (void)pthread_barrier_destroy(&job.together);
}

/* ---- two servers ---- */

enum { THREE = 3, TWO = 2 };

static const mf_ps_mode two_of_three = { .staleness = -1, .quorum = TWO, .period = 1 };

typedef struct decided_job {
    pthread_barrier_t together; /* of the workers */
    mf_ps_client *clients[THREE];
    mf_push_pull_round rounds[THREE];
} decided_job;

/* Push to one server. Returns when the push has arrived: a server takes the requests of a worker in
 * order. */
static void push_to(decided_job *job, int worker, int server)
{
    mf_ps_client *c = job->clients[worker];
    const uint32_t seq = c->seq;
    mf_ps_progress each[TWO];

    memset(c->version, 0, TWO * sizeof *c->version); /* all push with the first weights */
    c->answer[server] = -1;
    mf_buf_clear(&c->push[server]);
    T_OK(mf_ps_write_push(c, &job->rounds[worker], server, &c->push[server]));
    T_OK(mf_ps_ask_push(c, server, worker));
    c->seq += 1000;
    T_OK(mf_ps_client_progress(c, each));
    c->seq = seq;
}

static void take_answers(const decided_job *job, int worker)
{
    for (int s = 0; s < TWO; s++) {
        mf_ps_reply head;
        void *data;
        size_t size;

        T_OK(mf_ps_answer_push(job->clients[worker], s, worker, &data, &size));
        T_TRUE(size >= sizeof head);
        memcpy(&head, data, sizeof head);
        mf_free(data);
        T_EQ(head.status, MF_OK);
        T_EQ(head.version, 1);
    }
}

/* The first server gets the pushes of workers 0 and 1 first, the second those of workers 1 and 2.
 */
static void push_in_two_orders(decided_job *job)
{
    push_to(job, 1, 1);
    push_to(job, 2, 1);
    push_to(job, 0, 0);
    push_to(job, 1, 0);
    push_to(job, 2, 0);
    push_to(job, 0, 1);
    for (int w = 0; w < THREE; w++)
        take_answers(job, w);
}

/* All elements have the same gradient: so all have moved by the same, whichever server has them. */
static void check_moved(mf_ps_client *c, const toy *p, const double *before)
{
    mf_ps_progress each[TWO];

    T_OK(mf_ps_client_get(c));
    T_OK(mf_ps_client_progress(c, each));
    for (int s = 0; s < TWO; s++)
        T_EQ(each[s].late, 1);
    for (int i = 0; i < TOY_INPUTS; i++)
        T_NEAR(toy_value(p, "dense/kernel", i) - before[i], toy_value(p, "dense/bias", 0), 1e-6);
}

/* The first worker sends the requests of all, one after the other. */
static void decided_work(mf_net *net, decided_job *job)
{
    const int rank = mf_net_self(net);
    mf_push_pull_round *r = &job->rounds[rank];
    double before[TOY_INPUTS];
    int64_t staleness;
    mf_ps_client *c;
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd" });
    for (int i = 0; i < TOY_INPUTS; i++)
        before[i] = toy_value(&p, "dense/kernel", i);
    T_OK(mf_ps_client_new(net, THREE, TWO, p.trainer, &two_of_three, 0, p.trainer->options.shards,
                          TIMEOUT_S * INT64_C(1000000000), &c));
    job->clients[rank] = c;
    *r = (mf_push_pull_round){ .step = rank, .samples = 1, .n_parts = 1 };
    T_OK(mf_push_pull_round_init(r, c->t->graph.n_results, 1));
    r->parts[0] = (mf_reduction_tree_node){ 0, 1 };
    quorum_fill(c, r, (float)(1 << rank));
    if (rank == 0)
        T_OK(mf_ps_client_set(c));
    (void)pthread_barrier_wait(&job->together);
    if (rank == 0) {
        push_in_two_orders(job);
        check_moved(c, &p, before);
        T_OK(mf_ps_client_end(c, &staleness));
    }
    (void)pthread_barrier_wait(&job->together);
    mf_push_pull_round_deinit(r);
    mf_ps_client_free(c);
    toy_end(&p);
}

static bool decided_task(mf_net *net, void *arg)
{
    const mf_ps_server_options o = { .net = net,
                                     .n_workers = THREE,
                                     .index = mf_net_self(net) - THREE,
                                     .n_servers = TWO,
                                     .mode = two_of_three,
                                     .timeout_ns = TIMEOUT_S * INT64_C(1000000000) };
    mf_status st;
    toy p;

    if (mf_net_self(net) < THREE) {
        decided_work(net, arg);
        return true;
    }
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd" });
    st = mf_ps_serve(&o, p.trainer);
    toy_end(&p);
    return st == MF_OK;
}

MF_TEST(servers_use_the_same_quorum_in_whatever_order_pushes_arrive)
{
    decided_job job = { 0 };

    T_TRUE(pthread_barrier_init(&job.together, NULL, THREE) == 0);
    T_TRUE(
        test_tasks_as_threads(&(test_tasks){ .n = THREE + TWO, .run = decided_task, .arg = &job }));
    (void)pthread_barrier_destroy(&job.together);
}
