/* SPDX-License-Identifier: Apache-2.0 */
/* weight_partition.h - into how many shards a weight is cut between parameter servers, along its
 * first dimension: the rules of TensorFlow's partitioners. */
#ifndef MF_DIST_PARAM_SERVER_WEIGHT_PARTITION_H
#define MF_DIST_PARAM_SERVER_WEIGHT_PARTITION_H

#include "tensor/shape.h"

typedef enum mf_weight_partition_kind {
    MF_WEIGHT_PARTITION_EVEN, /* no rule: all weights in sequence, cut evenly; see slice_placement.h
                               */
    MF_WEIGHT_PARTITION_WHOLE, /* one shard */
    MF_WEIGHT_PARTITION_FIXED, /* a fixed number */
    MF_WEIGHT_PARTITION_MIN_SIZE, /* the largest number of shards of at least so many bytes; rounded
                                     up like TensorFlow's, so shards may be slightly smaller */
    MF_WEIGHT_PARTITION_MAX_SIZE, /* the smallest number of shards of at most so many bytes */
} mf_weight_partition_kind;

typedef struct mf_weight_partition {
    mf_weight_partition_kind kind;
    int64_t shards; /* MF_WEIGHT_PARTITION_FIXED */
    int64_t bytes; /* MF_WEIGHT_PARTITION_MIN_SIZE, MF_WEIGHT_PARTITION_MAX_SIZE: of a shard */
    int64_t max_shards; /* of these two; 0: any number */
    bool by_size; /* a shard goes to the server with the fewest bytes; otherwise round robin */
} mf_weight_partition;

/* Shards of a weight of floats: at least 1, and at most its first dimension. */
int64_t mf_weight_partition_shards(const mf_weight_partition *p, const mf_shape *shape);

#endif
