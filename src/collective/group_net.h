/* SPDX-License-Identifier: Apache-2.0 */
/* group_net.h - shared by the algorithms over connections: concurrent messages between members,
 * memory for a call, and sets of partial sums. */
#ifndef MF_COLLECTIVE_GROUP_NET_H
#define MF_COLLECTIVE_GROUP_NET_H

#include "collective/net_groups.h"
#include "net/net_private.h"

typedef struct mf_group_scratch mf_group_scratch;

typedef struct mf_net_group {
    mf_group head;
    mf_net *net;
    int *tasks; /* by rank */
    uint32_t id, seq; /* seq: calls so far */
    const mf_algorithm *algorithm; /* NULL: chosen by size */
    mf_group_scratch *blocks; /* memory of the current call, reused by the next one */
} mf_net_group;

/* Initialises the group of these tasks: ranks, names (to be freed), and the failure function. */
MF_MUST mf_status mf_net_group_head(mf_net *net, const int *members, int n, mf_group *head);
void mf_group_names_free(mf_group *head);

/* A group composed of groups gives each of these its own id. */
static inline uint32_t mf_group_part(uint32_t id, uint32_t part)
{
    return id | part << 30;
}

/* mf_group.check for a group of this net: w->rank is the rank of `task`. */
mf_status mf_net_check_wait(mf_net *n, int task, mf_group_wait *w);

/* Memory until the end of the call, not zeroed, aligned to 64 bytes; NULL sets the thread's error.
 */
void *mf_net_group_alloc(mf_net_group *g, int64_t count, size_t size);

/* The algorithm for r: one with few messages for a small sum, one with few bytes for a large one.
 */
const mf_algorithm *mf_net_group_choose(const mf_net_group *g, const mf_reduce *r);

/* ---- flows (message_flow.c) ---- */

/* Bytes to or from another member. Between two members, the flows of one direction have the same
 * order and sizes on both sides. */
typedef struct mf_message_flow {
    int rank;
    bool out;
    void *data; /* only read if `out` */
    int64_t size;
} mf_message_flow;

static inline mf_message_flow mf_message_flow_to(int rank, const void *data, int64_t size)
{
    return (mf_message_flow){ rank, true, (void *)(uintptr_t)data, size };
}
static inline mf_message_flow mf_message_flow_from(int rank, void *data, int64_t size)
{
    return (mf_message_flow){ rank, false, data, size };
}

/* Runs all flows concurrently; returns when all data has arrived and sent memory may be reused.
 * Fails as every collective. */
MF_MUST mf_status mf_net_flow(mf_net_group *g, const mf_collective *c, const mf_message_flow *flows,
                              int n);

/* ---- sets of partial sums (partial_sums.c) ---- */

/* The partial sums that some members have together: the largest nodes of the tree that their leaves
 * cover, from left to right. Sender and receiver can both derive the nodes (mf_reduce.parts), so
 * only elements are sent. */
typedef struct mf_partial_sums {
    int64_t from, count; /* the range of elements */
    mf_reduction_tree_part *parts;
    int n;
} mf_partial_sums;

/* This member's partial sums of these elements. Memory: the caller's parts, or the call's. */
MF_MUST mf_status mf_partial_sums_own(mf_net_group *g, const mf_reduce *r, int64_t from,
                                      int64_t count, mf_partial_sums *out);
/* Allocates memory for the partial sums of these members. */
MF_MUST mf_status mf_partial_sums_room(mf_net_group *g, const mf_reduce *r, const int *ranks, int n,
                                       int64_t from, int64_t count, mf_partial_sums *out);
/* Merge `other` into the set: adds siblings. */
MF_MUST mf_status mf_partial_sums_merge(mf_net_group *g, const mf_reduce *r, mf_partial_sums *sums,
                                        const mf_partial_sums *other);
/* The elements [from, from + count) of a set that contains them. */
MF_MUST mf_status mf_partial_sums_slice(mf_net_group *g, const mf_reduce *r,
                                        const mf_partial_sums *sums, int64_t from, int64_t count,
                                        mf_partial_sums *out);
/* The set is complete: computes the sum. */
MF_MUST mf_status mf_partial_sums_total(const mf_reduce *r, const mf_partial_sums *bags, int n,
                                        mf_net_group *g, void *out);
/* The flows that transfer a set: one per partial sum. */
int mf_partial_sums_flows(const mf_reduce *r, const mf_partial_sums *sums, int rank, bool out,
                          mf_message_flow *flows);

/* The nodes that some members have together; at most as many as they have parts. */
int mf_partial_sums_nodes(const mf_reduce *r, const int *ranks, int n,
                          mf_reduction_tree_node *nodes);

/* ---- shared by algorithms ---- */

/* Reduce-scatter: elements [from[i], to[i]) of the sum to rank i, this member's to `out`; every
 * member sends its parts to every other. (allreduce_direct.c) */
MF_MUST mf_status mf_direct_scatter(mf_net_group *g, const mf_reduce *r, const int64_t *from,
                                    const int64_t *to, void *out);
/* Broadcast from root along a binomial tree. (allreduce_tree.c) */
MF_MUST mf_status mf_net_tree_broadcast(mf_net_group *g, const mf_collective *c, int root,
                                        void *data, int64_t size);

extern const mf_algorithm mf_algorithm_exchange, mf_algorithm_direct, mf_algorithm_ring,
    mf_algorithm_halving, mf_algorithm_tree;

static inline char *mf_at(const mf_reduce *r, const void *data, int64_t element)
{
    return (char *)(uintptr_t)data + (size_t)element * mf_dtype_size(r->dtype);
}

#endif
