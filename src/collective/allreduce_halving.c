/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_halving.c - recursive halving and doubling, for powers of two. Pairs, then pairs of
 * pairs and so on, divide the elements; each member sends its partner the half that the partner
 * keeps; the sums return in reverse order. Neighbours exchange first: their shared leaves are
 * usually one node of the tree, so each round sends half as much as the one before. */
#include "collective/group_net.h"

enum { ROUNDS = 31 };

typedef struct allreduce_halving_range {
    int64_t lo, hi; /* elements */
} allreduce_halving_range;

static bool allreduce_halving_fits(const mf_group *g, const mf_reduce *r)
{
    (void)r;
    return (g->size & (g->size - 1)) == 0;
}

/* Both keep half of `now`; *sums is what the d members around this one have of it. */
static mf_status halve(mf_net_group *g, const mf_reduce *r, int d, allreduce_halving_range now,
                       allreduce_halving_range keep, int *ranks, mf_partial_sums *sums)
{
    const int other = g->head.rank ^ d;
    const allreduce_halving_range give = keep.lo == now.lo
                                             ? (allreduce_halving_range){ keep.hi, now.hi }
                                             : (allreduce_halving_range){ now.lo, keep.lo };
    mf_partial_sums in, out, stay;
    mf_message_flow *flows;
    int n;

    for (int i = 0; i < d; i++)
        ranks[i] = (other & ~(d - 1)) + i;
    MF_TRY(mf_partial_sums_room(g, r, ranks, d, keep.lo, keep.hi - keep.lo, &in));
    MF_TRY(mf_partial_sums_slice(g, r, sums, give.lo, give.hi - give.lo, &out));
    MF_TRY(mf_partial_sums_slice(g, r, sums, keep.lo, keep.hi - keep.lo, &stay));
    flows = mf_net_group_alloc(g, in.n + out.n, sizeof *flows);
    if (!flows)
        return MF_RESOURCE_EXHAUSTED;
    n = mf_partial_sums_flows(r, &out, other, true, flows);
    n += mf_partial_sums_flows(r, &in, other, false, flows + n);
    MF_TRY(mf_net_flow(g, &r->call, flows, n));
    *sums = stay;
    return mf_partial_sums_merge(g, r, sums, &in);
}

static mf_status allreduce_halving_double(mf_net_group *g, const mf_reduce *r, int d,
                                          allreduce_halving_range all, allreduce_halving_range ours)
{
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    const allreduce_halving_range theirs = ours.lo == all.lo
                                               ? (allreduce_halving_range){ ours.hi, all.hi }
                                               : (allreduce_halving_range){ all.lo, ours.lo };
    const int other = g->head.rank ^ d;
    mf_message_flow flows[2];
    int n = 0;

    if (ours.hi > ours.lo)
        flows[n++] =
            mf_message_flow_to(other, mf_at(r, r->out, ours.lo), (ours.hi - ours.lo) * cell);
    if (theirs.hi > theirs.lo)
        flows[n++] = mf_message_flow_from(other, mf_at(r, r->out, theirs.lo),
                                          (theirs.hi - theirs.lo) * cell);
    return mf_net_flow(g, &r->call, flows, n);
}

static mf_status halving(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    int *ranks = mf_net_group_alloc(g, group->size, sizeof *ranks);
    allreduce_halving_range ours[ROUNDS + 1] = { { 0, r->count } };
    mf_partial_sums sums;
    int k = 0;

    if (!ranks)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(mf_partial_sums_own(g, r, 0, r->count, &sums));
    for (int d = 1; d < group->size; d *= 2, k++) {
        const allreduce_halving_range now = ours[k];
        const int64_t middle = now.lo + (now.hi - now.lo) / 2;

        ours[k + 1] = group->rank & d ? (allreduce_halving_range){ middle, now.hi }
                                      : (allreduce_halving_range){ now.lo, middle };
        MF_TRY(halve(g, r, d, now, ours[k + 1], ranks, &sums));
    }
    if (sums.count > 0)
        MF_TRY(mf_partial_sums_total(r, &sums, 1, g, mf_at(r, r->out, sums.from)));
    for (int d = group->size / 2; d > 0; d /= 2, k--)
        MF_TRY(allreduce_halving_double(g, r, d, ours[k - 1], ours[k]));
    return MF_OK;
}

const mf_algorithm mf_algorithm_halving = {
    .name = "halving",
    .about = "recursive halving and doubling; powers of two only",
    .fits = allreduce_halving_fits,
    .all_reduce = halving,
};
