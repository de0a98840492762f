/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.c - the state machine of dist/recovery.h. Workers are threads of the test that share a
 * store in memory; a worker is lost when it unregisters. */
#include "dist/job_members.h"
#include "mf_test.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

typedef struct job_task {
    int index, n;
    const char *store;
    mf_dist dist;
    mf_trainer trainer;
    mf_job_members members;
    int released, assigned;
} job_task;

static job_task *task_of(mf_dist *dist)
{
    return (job_task *)(void *)((char *)dist - offsetof(job_task, dist));
}

static void release_task(mf_dist *dist)
{
    task_of(dist)->released++;
}

static mf_status assign_task(mf_dist *dist, mf_trainer *t)
{
    (void)t;
    task_of(dist)->assigned++;
    mf_dist_assign_shards(dist, 8);
    return MF_OK;
}

static const mf_recovery_hooks hooks = { .release = release_task, .assign = assign_task };

/* Connects with the other tasks of its job. */
static mf_status open_task(job_task *k)
{
    char cluster[300], index[16];
    const mf_strategy_options o = {
        .cluster = cluster, .job_name = "worker", .task_index = index, .store = k->store
    };
    mf_strategy_call call = { .name = "test", .o = &o, .timeout_ns = 20000000000 };
    mf_cluster *c = NULL;
    mf_strategy_settings settings;
    mf_status st;

    if (k->n == 1)
        (void)snprintf(cluster, sizeof cluster, "{\"worker\":[\"t%d:2000\"]}", (int)getpid());
    else
        (void)snprintf(cluster, sizeof cluster, "{\"worker\":[\"t%d:2000\",\"t%d:2001\"]}",
                       (int)getpid(), (int)getpid());
    (void)snprintf(index, sizeof index, "%d", k->index);
    call.arena = mf_arena_new();
    st = mf_strategy_parse("multi_worker_mirrored", call.arena, &settings);
    if (st == MF_OK)
        st = mf_job_resolve(&o, &c);
    call.settings = &settings;
    call.cluster = c;
    if (st == MF_OK)
        st = mf_job_members_init(&call, &hooks, &k->members);
    k->dist = (mf_dist){ .members = &k->members, .timeout_ns = call.timeout_ns };
    k->trainer.has_state = true;
    if (st == MF_OK)
        st = mf_recovery_rendezvous(&k->dist, &k->trainer, MF_OK);
    mf_cluster_free(c);
    mf_arena_free(call.arena);
    return st;
}

static void close_task(job_task *k)
{
    mf_group_free(k->dist.group);
    mf_job_members_deinit(&k->members);
}

/* The second worker of two: connects, then is lost. */
static void *join_and_die(void *arg)
{
    job_task *k = arg;
    mf_status st = open_task(k);

    if (st == MF_OK)
        st = mf_dist_barrier(&k->dist, 1, "the first step");
    close_task(k);
    return st == MF_OK ? arg : NULL;
}

MF_TEST(recovery_repeats_the_step_after_a_worker_is_lost)
{
    job_task first = { .n = 2, .store = "memory:recovery-lost" };
    job_task second = { .index = 1, .n = 2, .store = "memory:recovery-lost" };
    const mf_recovery *r = &first.members.recovery;
    pthread_t thread;
    void *good;
    mf_status st;

    T_EQ(pthread_create(&thread, NULL, join_and_die, &second), 0);
    T_OK(open_task(&first));
    T_EQ(r->state, MF_RECOVERY_RUNNING);
    T_EQ(first.dist.size, 2);
    T_EQ(first.dist.shards.n, 4);
    T_OK(mf_dist_barrier(&first.dist, 1, "the first step"));
    (void)pthread_join(thread, &good);
    T_TRUE(good);

    st = mf_dist_barrier(&first.dist, 2, "the second step");
    T_TRUE(mf_recovery_is_by_peer(st));
    T_OK(mf_recovery_rendezvous(&first.dist, &first.trainer, st));
    T_EQ(r->state, MF_RECOVERY_REDOING);
    T_EQ(first.dist.size, 1);
    T_EQ(first.dist.shards.n, 8);
    T_EQ(first.released, 2);
    T_EQ(first.assigned, 2);
    T_TRUE(first.dist.history.trained);
    mf_recovery_step_done(&first.dist, 2);
    T_EQ(r->state, MF_RECOVERY_RUNNING);
    close_task(&first);
}

MF_TEST(recovery_ends_with_a_failure_that_no_peer_causes)
{
    job_task k = { .n = 1, .store = "memory:recovery-own" };

    T_OK(open_task(&k));
    T_FAILS(MF_INVALID_ARGUMENT, "a wrong column",
            mf_recovery_rendezvous(&k.dist, &k.trainer,
                                   MF_FAIL(MF_INVALID_ARGUMENT, "a wrong column")));
    T_EQ(k.members.recovery.state, MF_RECOVERY_ENDED);
    /* All connections are good, so this one is not a peer's, either. */
    T_FAILS(MF_UNAVAILABLE, "a file server",
            mf_recovery_rendezvous(&k.dist, &k.trainer, MF_FAIL(MF_UNAVAILABLE, "a file server")));
    T_EQ(k.released, 1);
    T_EQ(k.dist.state, MF_DIST_ACTIVE);
    close_task(&k);
}

MF_TEST(recovery_of_a_worker_that_leaves_ends_as_left)
{
    job_task k = { .n = 1, .store = "memory:recovery-leave" };
    bool stop;

    T_OK(open_task(&k));
    atomic_store(&k.dist.leave_requested, true);
    mf_dist_apply_step_flags(&k.dist, mf_job_members_step_flags(&k.members, &k.dist, false), &stop);
    T_TRUE(stop); /* no worker would remain */
    T_TRUE(k.dist.rendezvous_due);
    T_EQ(k.dist.state, MF_DIST_LEAVING);
    T_FAILS(MF_CANCELLED, "has left the job", mf_recovery_rendezvous(&k.dist, &k.trainer, MF_OK));
    T_EQ(k.dist.state, MF_DIST_LEFT);
    close_task(&k);
}

MF_TEST(recovery_of_a_late_worker_ends_as_over)
{
    job_task first = { .n = 1, .store = "memory:recovery-over" };
    job_task late = { .n = 1, .store = "memory:recovery-over" };
    mf_store *store; /* which lives as long as it is open */

    T_OK(mf_store_open(first.store, NULL, &store));
    T_OK(open_task(&first));
    first.dist.stopped = true;
    T_OK(mf_job_note_end(&first.dist));
    close_task(&first);
    T_FAILS(MF_OUT_OF_RANGE, "was stopped", open_task(&late));
    T_EQ(late.dist.state, MF_DIST_OVER);
    T_TRUE(late.dist.stopped);
    close_task(&late);
    mf_store_close(store);
}
