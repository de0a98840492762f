/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_tree.c - binomial tree: sums go up to the first member and down again. Fewest messages:
 * for many members and small sums. */
#include "collective/group_net.h"

/* Receives the partial sums of the members from `other` on, at most d of them. */
static mf_status take_in(mf_net_group *g, const mf_reduce *r, int other, int d, int *ranks,
                         mf_partial_sums *sums)
{
    const int n = other + d < g->head.size ? d : g->head.size - other;
    mf_message_flow *flows;
    mf_partial_sums in;

    for (int i = 0; i < n; i++)
        ranks[i] = other + i;
    MF_TRY(mf_partial_sums_room(g, r, ranks, n, 0, r->count, &in));
    flows = mf_net_group_alloc(g, in.n, sizeof *flows);
    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(mf_net_flow(g, &r->call, flows, mf_partial_sums_flows(r, &in, other, false, flows)));
    return mf_partial_sums_merge(g, r, sums, &in);
}

static mf_status send_up(mf_net_group *g, const mf_reduce *r, int other,
                         const mf_partial_sums *sums)
{
    mf_message_flow *flows = mf_net_group_alloc(g, sums->n, sizeof *flows);

    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    return mf_net_flow(g, &r->call, flows, mf_partial_sums_flows(r, sums, other, true, flows));
}

mf_status mf_net_tree_broadcast(mf_net_group *g, const mf_collective *c, int root, void *data,
                                int64_t size)
{
    const int n = g->head.size, self = (g->head.rank - root + n) % n;
    int d = 1;

    while (d < n && !(self & d))
        d *= 2;
    if (self > 0) {
        const mf_message_flow in = mf_message_flow_from((self - d + root) % n, data, size);

        MF_TRY(mf_net_flow(g, c, &in, 1));
    }
    for (d /= 2; d > 0; d /= 2) {
        const mf_message_flow out = mf_message_flow_to((self + d + root) % n, data, size);

        if (self + d < n)
            MF_TRY(mf_net_flow(g, c, &out, 1));
    }
    return MF_OK;
}

static mf_status tree(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    const int64_t bytes = r->count * (int64_t)mf_dtype_size(r->dtype);
    int *ranks = mf_net_group_alloc(g, group->size, sizeof *ranks);
    mf_partial_sums sums;
    int d = 1;

    if (!ranks)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(mf_partial_sums_own(g, r, 0, r->count, &sums));
    for (; d < group->size && !(group->rank & d); d *= 2) {
        if (group->rank + d < group->size)
            MF_TRY(take_in(g, r, group->rank + d, d, ranks, &sums));
    }
    if (group->rank > 0)
        MF_TRY(send_up(g, r, group->rank - d, &sums));
    else
        MF_TRY(mf_partial_sums_total(r, &sums, 1, g, r->out));
    return mf_net_tree_broadcast(g, &r->call, 0, r->out, bytes);
}

const mf_algorithm mf_algorithm_tree = {
    .name = "tree",
    .about = "binomial tree: up to the first member and down again",
    .all_reduce = tree,
};
