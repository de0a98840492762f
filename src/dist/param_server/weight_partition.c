/* SPDX-License-Identifier: Apache-2.0 */
/* weight_partition.c - the number of shards of a weight by TensorFlow's partitioner rules. */
#include "dist/param_server/weight_partition.h"

static int64_t weight_partition_at_most(int64_t n, int64_t most)
{
    return most > 0 && n > most ? most : n;
}

int64_t mf_weight_partition_shards(const mf_weight_partition *p, const mf_shape *shape)
{
    const int64_t rows = shape->rank > 0 ? shape->dims[0] : 1;
    const int64_t row =
        rows > 0 ? mf_shape_span(shape, 1, shape->rank) * (int64_t)sizeof(float) : 0;
    int64_t n = 1;

    if (p->kind == MF_WEIGHT_PARTITION_FIXED) {
        n = p->shards;
    } else if (p->kind == MF_WEIGHT_PARTITION_MIN_SIZE) {
        n = weight_partition_at_most((rows * row + p->bytes - 1) / p->bytes, p->max_shards);
    } else if (p->kind == MF_WEIGHT_PARTITION_MAX_SIZE && row > 0) {
        const int64_t together = p->bytes > row ? p->bytes / row : 1; /* rows of a shard */

        n = weight_partition_at_most((rows + together - 1) / together, p->max_shards);
    }
    n = n > rows ? rows : n;
    return n > 1 ? n : 1;
}
