/* SPDX-License-Identifier: Apache-2.0 */
/* reduction_tree.h - the one order in which shards are added, whichever task computed them:
 *
 *     for stride 1, 2, 4 ...: sum[i] += sum[i + stride], i a multiple of 2*stride
 *
 * A node of that tree is a range of leaves [lo, hi): lo is a multiple of a power of two, and hi is
 * lo plus that power, or the end of the tree. A task that owns adjacent leaves adds the largest
 * nodes within its range without communication. Every algorithm below moves such partial sums and
 * adds siblings; the result therefore depends neither on the algorithm nor on the assignment of
 * leaves to tasks. */
#ifndef MF_TENSOR_REDUCTION_TREE_H
#define MF_TENSOR_REDUCTION_TREE_H

#include "tensor/dtype.h"

typedef struct mf_reduction_tree_node {
    int64_t lo, hi; /* leaves */
} mf_reduction_tree_node;

enum {
    MF_REDUCTION_TREE_LEAVES = 4096, /* maximum */
    MF_REDUCTION_TREE_PARTS =
        24, /* maximum number of nodes in a range: two for each bit of the leaves */
};

/* The largest nodes that cover [from, to) in a tree of `leaves`, from left to right; returns their
 * number. */
int mf_reduction_tree_parts(int64_t leaves, int64_t from, int64_t to,
                            mf_reduction_tree_node *parts);

/* The same for a task that computes the shards [first, first + count) of `shards`, given the number
 * of samples in the batch: shards without samples, which are the last ones, are not in the tree.
 * grain: the maximum size of a part, a power of two; 0: no maximum. parts: room for
 * mf_reduction_tree_room(). */
int mf_reduction_tree_share(int64_t shards, int64_t first, int64_t count, int64_t samples,
                            int64_t grain, mf_reduction_tree_node *parts);
static inline int64_t mf_reduction_tree_room(int64_t count, int64_t grain)
{
    return MF_REDUCTION_TREE_PARTS + (grain > 0 ? count / grain : 0);
}

/* An available partial sum. */
typedef struct mf_reduction_tree_part {
    mf_reduction_tree_node node;
    const void *data;
} mf_reduction_tree_part;

/* Do these parts cover the tree? For parts that other tasks announced. */
bool mf_reduction_tree_covers(int64_t leaves, const mf_reduction_tree_part *parts, int n);

/* out[0..count) = the sum of all leaves of `of`, computed from the parts, which must cover it
 * (asserted). out may be the data of the first part and of no other. Types: float, double, int32,
 * int64; others fail with INVALID_ARGUMENT. */
MF_MUST mf_status mf_reduction_tree_sum(int64_t leaves, mf_reduction_tree_node of,
                                        const mf_reduction_tree_part *parts, int n, mf_dtype dtype,
                                        int64_t count, void *out);

#endif
