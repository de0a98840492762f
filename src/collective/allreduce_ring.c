/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_ring.c - ring all-reduce: each member communicates only with its neighbours. Slice j
 * starts at member j + 1 and ends at member j, which then has its sum; the sums circulate once
 * more. The messages are sets of partial sums: consecutive members have few nodes of the tree. */
#include "collective/group_net.h"

static int around(int i, int n)
{
    return (i % n + n) % n;
}

/* In step s this member sends slice self - 1 - s and receives slice self - 2 - s, which contains
 * the contributions of s + 1 members before it. */
static mf_status pass_partial_sums(mf_net_group *g, const mf_reduce *r, int s, int *ranks,
                                   mf_partial_sums *sums)
{
    const int n = g->head.size, self = g->head.rank, slice = around(self - 2 - s, n);
    const int64_t from = mf_group_cut(&g->head, r->count, slice);
    const int64_t count = mf_group_cut(&g->head, r->count, slice + 1) - from;
    mf_partial_sums in, own;
    mf_message_flow *flows;
    int k;

    for (int i = 0; i <= s; i++)
        ranks[i] = around(self - 1 - s + i, n);
    MF_TRY(mf_partial_sums_room(g, r, ranks, s + 1, from, count, &in));
    flows = mf_net_group_alloc(g, in.n + sums->n, sizeof *flows);
    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    k = mf_partial_sums_flows(r, sums, around(self + 1, n), true, flows);
    k += mf_partial_sums_flows(r, &in, around(self - 1, n), false, flows + k);
    MF_TRY(mf_net_flow(g, &r->call, flows, k));
    MF_TRY(mf_partial_sums_own(g, r, from, count, &own));
    if (s == n - 2)
        return mf_partial_sums_total(r, (mf_partial_sums[]){ in, own }, 2, g,
                                     mf_at(r, r->out, from));
    *sums = in;
    return mf_partial_sums_merge(g, r, sums, &own);
}

/* The sums circulate: this member sends slice self - s. */
static mf_status pass_sum(mf_net_group *g, const mf_reduce *r, int s)
{
    const int n = g->head.size, self = g->head.rank;
    const int out = around(self - s, n), in = around(self - 1 - s, n);
    const int64_t a = mf_group_cut(&g->head, r->count, out);
    const int64_t b = mf_group_cut(&g->head, r->count, in);
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    const int64_t na = mf_group_cut(&g->head, r->count, out + 1) - a;
    const int64_t nb = mf_group_cut(&g->head, r->count, in + 1) - b;
    mf_message_flow flows[2];
    int k = 0;

    if (na > 0)
        flows[k++] = mf_message_flow_to(around(self + 1, n), mf_at(r, r->out, a), na * cell);
    if (nb > 0)
        flows[k++] = mf_message_flow_from(around(self - 1, n), mf_at(r, r->out, b), nb * cell);
    return mf_net_flow(g, &r->call, flows, k);
}

static mf_status ring(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    const int n = group->size, first = around(group->rank - 1, n);
    const int64_t from = mf_group_cut(group, r->count, first);
    int *ranks = mf_net_group_alloc(g, n, sizeof *ranks);
    mf_partial_sums sums;

    if (!ranks)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(mf_partial_sums_own(g, r, from, mf_group_cut(group, r->count, first + 1) - from, &sums));
    if (n == 1)
        return mf_partial_sums_total(r, &sums, 1, g, r->out);
    for (int s = 0; s < n - 1; s++)
        MF_TRY(pass_partial_sums(g, r, s, ranks, &sums));
    for (int s = 0; s < n - 1; s++)
        MF_TRY(pass_sum(g, r, s));
    return MF_OK;
}

const mf_algorithm mf_algorithm_ring = {
    .name = "ring",
    .about = "ring: slices circulate twice",
    .all_reduce = ring,
};
