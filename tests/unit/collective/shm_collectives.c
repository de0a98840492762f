/* SPDX-License-Identifier: Apache-2.0 */
/* shm_collectives.c - collectives in shared memory: between threads, and processes that are killed.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "unit/collective/groups.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = { "worker 0", "worker 1", "worker 2", "worker 3",
                                     "worker 4", "worker 5", "worker 6", "worker 7" };

typedef struct member {
    mf_segment *segment;
    int rank, size;
    bool (*test)(mf_group *g);
    bool ok;
} member;

/* A sum that does not fit in the caches: members add slices, and publish each byte once. */
static bool long_sum(mf_group *g)
{
    enum { COUNT = 3000005 };
    float *data = mf_calloc(COUNT, sizeof *data), *out = mf_calloc(COUNT, sizeof *out);
    const void *mine = data;
    mf_reduction_tree_node node[8];
    const mf_reduction_tree_node *parts[8];
    int n_parts[8];
    bool ok;

    for (int r = 0; r < g->size; r++) {
        node[r] = (mf_reduction_tree_node){ r, r + 1 };
        parts[r] = &node[r];
        n_parts[r] = 1;
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(i % 1000 * (g->rank + 1));
    ok = mf_all_reduce(g, &(mf_reduce){ .call = { .what = "a sum" },
                                        .leaves = g->size,
                                        .parts = parts,
                                        .n_parts = n_parts,
                                        .data = &mine,
                                        .dtype = MF_DTYPE_F32,
                                        .count = COUNT,
                                        .out = out }) == MF_OK;
    for (int i = 0; ok && i < COUNT; i++)
        ok = out[i] == (float)(i % 1000 * (g->size * (g->size + 1) / 2));
    mf_free(data);
    mf_free(out);
    return ok && g->bytes == COUNT * (int64_t)sizeof *data;
}

static void *run_member(void *arg)
{
    member *m = arg;
    const mf_group like = { .rank = m->rank, .size = m->size, .names = names };
    mf_group *g;

    m->ok = mf_group_shared(m->segment, &like, &g) == MF_OK && m->test(g);
    mf_group_free(g);
    return NULL;
}

static void run_members(int size, int64_t area, bool (*test)(mf_group *g))
{
    member m[8];
    pthread_t thread[8];
    mf_segment *segment;

    T_OK(mf_segment_new(size, area, &segment));
    for (int r = 0; r < size; r++) {
        m[r] = (member){ .segment = segment, .rank = r, .size = size, .test = test };
        T_EQ(pthread_create(&thread[r], NULL, run_member, &m[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(thread[r], NULL);
        T_TRUE(m[r].ok);
    }
    mf_segment_free(segment);
}

MF_TEST(comm_shared_collectives_give_the_sums_of_the_tree_for_any_number_of_members)
{
    static const int sizes[] = { 1, 2, 3, 5, 8 };

    for (int s = 0; s < MF_COUNT(sizes); s++)
        run_members(sizes[s], 16384, test_group_member);
}

MF_TEST(comm_shared_long_sums_are_added_in_slices)
{
    for (int size = 1; size <= 3; size++)
        run_members(size, 1 << 20, long_sum);
}

/* All-reduces until a member is missing. Exit status 0: the error named it. */
static void sum_until_missed(mf_segment *segment, int rank, int size, int victim)
{
    const mf_group like = { .rank = rank, .size = size, .names = names };
    mf_reduction_tree_node node[8];
    const mf_reduction_tree_node *parts[8];
    int n_parts[8];
    static float data[4096], out[4096];
    const void *mine = data;
    mf_group *g;

    if (mf_group_shared(segment, &like, &g) != MF_OK)
        _exit(2);
    for (int r = 0; r < size; r++) {
        n_parts[r] = 1;
        node[r] = (mf_reduction_tree_node){ r, r + 1 };
        parts[r] = &node[r];
    }
    for (int64_t step = 0;; step++) {
        const mf_reduce r = { .call = { step, mf_clock_ns() + 300000000, "the gradients" },
                              .leaves = size,
                              .parts = parts,
                              .n_parts = n_parts,
                              .data = &mine,
                              .dtype = MF_DTYPE_F32,
                              .count = 4096,
                              .out = out };
        const mf_status st = mf_all_reduce(g, &r);

        if (st == MF_OK)
            continue;
        _exit(st == MF_DEADLINE_EXCEEDED && strstr(mf_error_message(), names[victim]) ? 0 : 1);
    }
}

MF_TEST(comm_shared_a_member_that_is_killed_or_stopped_is_named_by_all_others)
{
    const int size = 4;

    for (int round = 0; round < 4; round++) {
        const int victim = round % size;
        mf_segment *segment;
        pid_t pid[4];
        int status;

        T_OK(mf_segment_new(size, 16384, &segment));
        for (int r = 0; r < size; r++) {
            pid[r] = fork();
            if (pid[r] == 0)
                sum_until_missed(segment, r, size, victim);
        }
        usleep(20000 + 7000 * (unsigned)round);
        kill(pid[victim], round % 2 ? SIGSTOP : SIGKILL);
        for (int r = 0; r < size; r++) {
            if (r == victim)
                continue;
            T_EQ(waitpid(pid[r], &status, 0), pid[r]);
            T_TRUE(WIFEXITED(status));
            T_EQ(WEXITSTATUS(status), 0);
        }
        kill(pid[victim], SIGKILL);
        waitpid(pid[victim], &status, 0);
        mf_segment_free(segment);
    }
}

MF_TEST(comm_segment_of_another_group_is_refused)
{
    char name[64];
    mf_segment *a, *b;

    (void)snprintf(name, sizeof name, "/meshflow-test-%d", (int)getpid());
    T_OK(mf_segment_create(name, 3, 4096, &a));
    T_FAILS(MF_ALREADY_EXISTS, name, mf_segment_create(name, 3, 4096, &b));
    T_FAILS(MF_FAILED_PRECONDITION, "created for another group",
            mf_segment_open(name, 2, 4096, &b));
    T_OK(mf_segment_open(name, 3, 4096, &b));
    mf_segment_unlink(a);
    mf_segment_free(b);
    T_FAILS(MF_NOT_FOUND, name, mf_segment_open(name, 3, 4096, &b));
    mf_segment_free(a);
}
