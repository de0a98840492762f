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

static void quorum_push(mf_ps_client *c, mf_push_pull_round *r, int64_t step)
{
    r->step = step;
    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];

        x->dtype = MF_DTYPE_F32;
        x->shape =
            c->gradient[v] >= 0 ? c->t->graph.gradients[c->gradient[v]].weight->shape : MF_SCALAR;
        mf_tensor_clear(&x->part[0]);
        T_OK(mf_tensor_alloc(&x->part[0], MF_DTYPE_F32, &x->shape));
        for (int64_t i = 0; i < x->part[0].count; i++)
            ((float *)x->part[0].data)[i] = 1.0f;
    }
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
