/* SPDX-License-Identifier: Apache-2.0 */
/* group_net.c - groups over connections: every algorithm gives the sums of the reduction tree. */
#include "collective/group_net.h"

#include "base/clock.h"
#include "mf_test.h"
#include "unit/collective/groups.h"
#include "unit/net/net_tasks.h"

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
