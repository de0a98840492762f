/* SPDX-License-Identifier: Apache-2.0 */
/* worker_groups.c - divides the workers of a local-SGD job into groups. */
#include "dist/local_sgd/worker_groups.h"

void mf_worker_groups_assign(mf_worker_groups *g, int n, int64_t shards, int workers,
                             const int64_t *left_at)
{
    *g = (mf_worker_groups){ .n = n, .shards = shards, .workers = workers };
    for (int i = 0; i < n; i++) {
        if (left_at[i] == 0)
            g->active[g->n_active++] = i;
    }
}

mf_share mf_worker_groups_samples(const mf_worker_groups *g, int group, int64_t samples)
{
    const mf_share own = mf_worker_groups_shards(g, group);
    const int64_t first = mf_shard_begin(samples, g->shards, own.first);

    return (mf_share){ first, mf_shard_begin(samples, g->shards, own.first + own.n) - first };
}

/* Of `all` consecutive items, the part of the i-th of `n`. */
static mf_share worker_groups_part(int64_t all, int64_t i, int64_t n)
{
    const int64_t first = all * i / n;

    return (mf_share){ first, all * (i + 1) / n - first };
}

mf_share mf_worker_groups_places(const mf_worker_groups *g, int worker)
{
    int place = 0;

    if (g->workers <= g->n_active)
        return worker_groups_part(g->n_active, worker, g->workers);
    while (worker >=
           mf_worker_groups_workers(g, place).first + mf_worker_groups_workers(g, place).n)
        place++;
    return (mf_share){ place, 1 };
}

mf_share mf_worker_groups_workers(const mf_worker_groups *g, int place)
{
    int worker = 0;

    if (g->workers > g->n_active)
        return worker_groups_part(g->workers, place, g->n_active);
    while (place >= mf_worker_groups_places(g, worker).first + mf_worker_groups_places(g, worker).n)
        worker++;
    return (mf_share){ worker, 1 };
}

mf_share mf_worker_groups_reads(const mf_worker_groups *g, int worker)
{
    const mf_share places = mf_worker_groups_places(g, worker);
    const mf_share first = mf_worker_groups_shards(g, g->active[places.first]);
    const mf_share last = mf_worker_groups_shards(g, g->active[places.first + places.n - 1]);

    return (mf_share){ first.first, last.first + last.n - first.first };
}
