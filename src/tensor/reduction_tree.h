/* SPDX-License-Identifier: Apache-2.0 */
/* reduction_tree.h - the one order in which shards are added, whoever has computed them:
 *
 *     for stride 1, 2, 4 ...: sum[i] += sum[i + stride], i a multiple of 2*stride
 *
 * A node of that tree is a range of leaves [lo, hi): lo is a multiple of a power of two, and hi
 * lies that power further, or at the end of the tree. Who owns neighbouring leaves adds what it can
 * add without the others: the largest nodes within its range. Every algorithm below moves such
 * partial sums about and adds siblings; so neither the algorithm nor who owns what shows in the
 * result. */
#ifndef MF_TENSOR_REDUCTION_TREE_H
#define MF_TENSOR_REDUCTION_TREE_H

#include "tensor/dtype.h"

typedef struct mf_reduction_tree_node {
    int64_t lo, hi; /* leaves */
} mf_reduction_tree_node;

enum {
    MF_REDUCTION_TREE_LEAVES = 4096, /* at most */
    MF_REDUCTION_TREE_PARTS =
        24, /* the most that a range falls into: two for each bit of the leaves */
};

/* The largest nodes that make up [from, to) in a tree of `leaves`, from left to right; how many. */
int mf_reduction_tree_parts(int64_t leaves, int64_t from, int64_t to,
                            mf_reduction_tree_node *parts);

/* The same for who computes the shards [first, first + count) of `shards` and has so many samples
 * in a batch: shards without samples, which are the last ones, are not in the tree. grain: a power
 * of two that no part is larger than; 0: any size. parts: room for mf_reduction_tree_room(). */
int mf_reduction_tree_share(int64_t shards, int64_t first, int64_t count, int64_t samples,
                            int64_t grain, mf_reduction_tree_node *parts);
static inline int64_t mf_reduction_tree_room(int64_t count, int64_t grain)
{
    return MF_REDUCTION_TREE_PARTS + (grain > 0 ? count / grain : 0);
}

/* A partial sum at hand. */
typedef struct mf_reduction_tree_part {
    mf_reduction_tree_node node;
    const void *data;
} mf_reduction_tree_part;

/* Can the sum of all leaves be made of these? For parts that others have told about. */
bool mf_reduction_tree_covers(int64_t leaves, const mf_reduction_tree_part *parts, int n);

/* out[0..count) = the sum of all leaves of `of`, made of the parts, which cover it (an assertion).
 * out may be the data of the first part and of no other. Types: float, double, int32, int64; others
 * are INVALID_ARGUMENT. */
MF_MUST mf_status mf_reduction_tree_sum(int64_t leaves, mf_reduction_tree_node of,
                                        const mf_reduction_tree_part *parts, int n, mf_dtype dtype,
                                        int64_t count, void *out);

#endif
