/* SPDX-License-Identifier: Apache-2.0 */
/* worker_groups.c - groups of workers: each shard and each sample belongs to exactly one. */
#include "dist/local_sgd/worker_groups.h"

#include "mf_test.h"

enum { MOST = 9, SHARDS = 12 };

/* Every group has neighbouring workers; a worker shares one group, or owns whole groups. */
static void check_dealing(const mf_worker_groups *g)
{
    int next_worker = 0, speaking = 0;

    for (int p = 0; p < g->n_active; p++) {
        const mf_share w = mf_worker_groups_workers(g, p);

        T_TRUE(w.n >= 1 && w.first + w.n <= g->workers);
        T_TRUE(g->workers <= g->n_active || w.first == next_worker);
        next_worker = (int)(w.first + w.n);
        for (int64_t i = w.first; i < w.first + w.n; i++) {
            const mf_share places = mf_worker_groups_places(g, (int)i);

            T_TRUE(p >= places.first && p < places.first + places.n);
            T_TRUE(w.n == 1 || places.n == 1);
        }
    }
    T_EQ(next_worker, g->workers);
    for (int w = 0; w < g->workers; w++)
        speaking += mf_worker_groups_speaks(g, w) ? (int)mf_worker_groups_places(g, w).n : 0;
    T_EQ(speaking, g->n_active);
}

MF_TEST(groups_each_have_workers_and_one_leader)
{
    const int64_t left_at[MOST] = { 0 };

    for (int n = 1; n <= MOST; n++) {
        for (int workers = 1; workers <= MOST; workers++) {
            mf_worker_groups g;

            mf_worker_groups_assign(&g, n, SHARDS, workers, left_at);
            check_dealing(&g);
        }
    }
}

MF_TEST(groups_partition_the_samples_of_a_batch)
{
    const int64_t left_at[MOST] = { 0 };

    for (int n = 1; n <= MOST; n++) {
        for (int64_t samples = 0; samples < 40; samples++) {
            int64_t next = 0;
            mf_worker_groups g;

            mf_worker_groups_assign(&g, n, SHARDS, 2, left_at);
            for (int i = 0; i < n; i++) {
                const mf_share s = mf_worker_groups_samples(&g, i, samples);

                T_EQ(s.first, next);
                next += s.n;
            }
            T_EQ(next, samples);
        }
    }
}

MF_TEST(groups_that_left_keep_their_shards_without_workers)
{
    const int64_t left_at[4] = { 0, 32, 0, 0 };
    mf_worker_groups g;

    mf_worker_groups_assign(&g, 4, 8, 3, left_at);
    T_EQ(g.n_active, 3);
    T_EQ(g.active[1], 2);
    check_dealing(&g);
    T_EQ(mf_worker_groups_shards(&g, 1).first, 2);
    T_EQ(mf_worker_groups_reads(&g, 1).first, 4); /* worker 1 trains group 2 now */
    mf_worker_groups_assign(&g, 4, 8, 1, left_at);
    T_EQ(mf_worker_groups_places(&g, 0).n, 3);
    T_EQ(mf_worker_groups_reads(&g, 0).n, 8);
    mf_worker_groups_assign(&g, 4, 8, 5, left_at); /* the last two groups have two each */
    T_EQ(mf_worker_groups_workers(&g, 0).n, 1);
    T_EQ(mf_worker_groups_workers(&g, 2).first, 3);
    T_TRUE(mf_worker_groups_speaks(&g, 3) && !mf_worker_groups_speaks(&g, 4));
}
