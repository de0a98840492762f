/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_exchange.c - each member sends its data to all others: latency of one message, for
 * small sums. */
#include "collective/group_net.h"

static mf_status allreduce_exchange(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    const int n = group->size, self = group->rank;
    mf_partial_sums *bags = mf_net_group_alloc(g, n, sizeof *bags);
    mf_message_flow *flows;
    int64_t most = 0;
    int count = 0;

    for (int i = 0; i < n; i++)
        most += r->n_parts[i] + r->n_parts[self];
    flows = mf_net_group_alloc(g, most, sizeof *flows);
    if (!bags || !flows)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(mf_partial_sums_own(g, r, 0, r->count, &bags[self]));
    for (int d = 1; d < n; d++) {
        const int other = (self + d) % n;

        MF_TRY(mf_partial_sums_room(g, r, &other, 1, 0, r->count, &bags[other]));
        count += mf_partial_sums_flows(r, &bags[other], other, false, flows + count);
        count += mf_partial_sums_flows(r, &bags[self], other, true, flows + count);
    }
    MF_TRY(mf_net_flow(g, &r->call, flows, count));
    return mf_partial_sums_total(r, bags, n, g, r->out);
}

const mf_algorithm mf_algorithm_exchange = {
    .name = "exchange",
    .about = "each member sends its data to all others",
    .all_reduce = allreduce_exchange,
};
