/* SPDX-License-Identifier: Apache-2.0 */
/* group_net.c - groups over connections: every algorithm gives the sums of the reduction tree. */
#include "collective/group_net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "unit/collective/groups.h"
#include "unit/net/net_tasks.h"

#include <stdio.h>
#include <string.h>

static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static bool run_algorithm(mf_net *net, void *arg)
{
    const mf_algorithm *a = arg;
    mf_group *g;
    bool ok = mf_group_net(net, all, net->n_tasks, 1, a, &g) == MF_OK && test_group_member(g);

    mf_group_free(g);
    return ok;
}

/* Tests an algorithm with every group size. */
static bool works(const mf_algorithm *a)
{
    bool ok = true;

    for (int n = 1; n <= 8 && ok; n++)
        ok = test_tasks_as_threads(
            &(test_tasks){ .n = n, .run = run_algorithm, .arg = (void *)(uintptr_t)a });
    return ok && test_tasks_as_processes(
                     &(test_tasks){ .n = 4, .run = run_algorithm, .arg = (void *)(uintptr_t)a });
}

/* Members poll, whatever the number of processors. */
static bool run_polling(mf_net *net, void *arg)
{
    net->transport->polls = 100;
    return run_algorithm(net, arg);
}

MF_TEST(comm_group_over_connections_works_while_all_members_poll)
{
    T_TRUE(test_tasks_as_threads(&(test_tasks){ .n = 4, .run = run_polling }));
    T_TRUE(test_tasks_as_processes(&(test_tasks){ .n = 4, .run = run_polling }));
}

MF_TEST(comm_allreduce_exchange_gives_the_sums_of_the_tree)
{
    T_TRUE(works(&mf_algorithm_exchange));
}

MF_TEST(comm_allreduce_direct_gives_the_sums_of_the_tree)
{
    T_TRUE(works(&mf_algorithm_direct));
}

MF_TEST(comm_allreduce_ring_gives_the_sums_of_the_tree)
{
    T_TRUE(works(&mf_algorithm_ring));
}

MF_TEST(comm_allreduce_halving_gives_the_sums_of_the_tree)
{
    T_TRUE(works(&mf_algorithm_halving));
}

MF_TEST(comm_allreduce_tree_gives_the_sums_of_the_tree)
{
    T_TRUE(works(&mf_algorithm_tree));
}

MF_TEST(comm_group_over_connections_selects_an_algorithm)
{
    T_TRUE(works(NULL));
}

/* Every member owns one branch of the tree: two leaves. */
static bool sends_no_more_than_a_ring(mf_net *net, void *arg)
{
    enum { COUNT = 30001 };
    float *data = mf_calloc(COUNT, sizeof *data), *out = mf_calloc(COUNT, sizeof *out);
    const int n = net->n_tasks;
    const void *mine = data;
    mf_reduction_tree_node node[TEST_TASKS_MAX];
    const mf_reduction_tree_node *parts[TEST_TASKS_MAX];
    int n_parts[TEST_TASKS_MAX];
    const mf_reduce r = { .call = { .what = "a sum" },
                          .leaves = 2 * n,
                          .parts = parts,
                          .n_parts = n_parts,
                          .data = &mine,
                          .dtype = MF_DTYPE_F32,
                          .count = COUNT,
                          .out = out };
    const double ring = 2.0 * (n - 1) / n * COUNT * sizeof *data;
    mf_group *g;
    bool ok;

    for (int i = 0; i < n; i++) {
        node[i] = (mf_reduction_tree_node){ 2 * i, 2 * i + 2 };
        parts[i] = &node[i];
        n_parts[i] = 1;
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = 1.0f;
    ok = mf_group_net(net, all, n, 1, arg, &g) == MF_OK && mf_all_reduce(g, &r) == MF_OK &&
         out[COUNT - 1] == (float)n && (double)g->bytes <= 1.05 * ring;
    if (g && !ok)
        fprintf(stderr, "# %d members: %lld bytes, a ring sends %.0f\n", n, (long long)g->bytes,
                ring);
    mf_group_free(g);
    mf_free(data);
    mf_free(out);
    return ok;
}

static bool frugal(const mf_algorithm *a, int n)
{
    return test_tasks_as_threads(
        &(test_tasks){ .n = n, .run = sends_no_more_than_a_ring, .arg = (void *)(uintptr_t)a });
}

MF_TEST(comm_allreduce_of_aligned_shards_sends_no_more_bytes_than_a_ring)
{
    for (int n = 2; n <= TEST_TASKS_MAX; n++) {
        T_TRUE(frugal(&mf_algorithm_ring, n));
        T_TRUE(frugal(&mf_algorithm_direct, n));
        T_TRUE(frugal(NULL, n));
    }
    for (int n = 2; n <= TEST_TASKS_MAX; n *= 2)
        T_TRUE(frugal(&mf_algorithm_halving, n));
}

MF_TEST(comm_group_over_connections_selects_by_size_and_members)
{
    static const struct {
        int members;
        int64_t bytes;
        const mf_algorithm *want;
    } cases[] = {
        { 4, 16 << 10, &mf_algorithm_exchange }, { 5, 16 << 10, &mf_algorithm_tree },
        { 4, 64 << 10, &mf_algorithm_tree },     { 16, 65 << 10, &mf_algorithm_direct },
        { 17, 65 << 10, &mf_algorithm_ring },
    };

    for (int i = 0; i < MF_COUNT(cases); i++) {
        const mf_net_group g = { .head.size = cases[i].members };
        const mf_reduce r = { .count = cases[i].bytes / 4, .dtype = MF_DTYPE_F32 };

        T_STREQ(mf_net_group_choose(&g, &r)->name, cases[i].want->name);
    }
}
