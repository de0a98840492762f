/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_direct.c - direct all-reduce: each member adds up one slice of the elements, which it
 * receives from all, and sends the sum to all. Fewest bytes; latency of two messages. */
#include "collective/group_net.h"

mf_status mf_direct_scatter(mf_net_group *g, const mf_reduce *r, const int64_t *from,
                            const int64_t *to, void *out)
{
    const int n = g->head.size, self = g->head.rank;
    mf_partial_sums *bags = mf_net_group_alloc(g, n, sizeof *bags), mine;
    mf_message_flow *flows;
    int64_t most = 0;
    int count = 0;

    for (int i = 0; i < n; i++)
        most += r->n_parts[i] + r->n_parts[self];
    flows = mf_net_group_alloc(g, most, sizeof *flows);
    if (!bags || !flows)
        return MF_RESOURCE_EXHAUSTED;
    for (int d = 1; d < n; d++) {
        const int other = (self + d) % n;

        MF_TRY(mf_partial_sums_own(g, r, from[other], to[other] - from[other], &mine));
        count += mf_partial_sums_flows(r, &mine, other, true, flows + count);
        MF_TRY(
            mf_partial_sums_room(g, r, &other, 1, from[self], to[self] - from[self], &bags[other]));
        count += mf_partial_sums_flows(r, &bags[other], other, false, flows + count);
    }
    MF_TRY(mf_partial_sums_own(g, r, from[self], to[self] - from[self], &bags[self]));
    MF_TRY(mf_net_flow(g, &r->call, flows, count));
    return mf_partial_sums_total(r, bags, n, g, out);
}

/* Sends each member's slice, which is in its final place, to all. */
static mf_status allreduce_direct_all_gather(mf_net_group *g, const mf_reduce *r,
                                             const int64_t *from)
{
    const int n = g->head.size, self = g->head.rank;
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    mf_message_flow *flows = mf_net_group_alloc(g, 2 * (int64_t)n, sizeof *flows);
    int count = 0;

    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    for (int d = 1; d < n; d++) {
        const int other = (self + d) % n;
        const int64_t ours = from[self + 1] - from[self], theirs = from[other + 1] - from[other];

        if (ours > 0)
            flows[count++] = mf_message_flow_to(other, mf_at(r, r->out, from[self]), ours * cell);
        if (theirs > 0)
            flows[count++] =
                mf_message_flow_from(other, mf_at(r, r->out, from[other]), theirs * cell);
    }
    return mf_net_flow(g, &r->call, flows, count);
}

static mf_status allreduce_direct(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    int64_t *from = mf_net_group_alloc(g, group->size + 1, sizeof *from);

    if (!from)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i <= group->size; i++)
        from[i] = mf_group_cut(group, r->count, i);
    MF_TRY(mf_direct_scatter(g, r, from, from + 1, mf_at(r, r->out, from[group->rank])));
    return allreduce_direct_all_gather(g, r, from);
}

const mf_algorithm mf_algorithm_direct = {
    .name = "direct",
    .about = "direct reduce-scatter and all-gather: each member adds up one slice",
    .all_reduce = allreduce_direct,
};
