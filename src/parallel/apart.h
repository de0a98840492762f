/* SPDX-License-Identifier: Apache-2.0 */
/* apart.h - vectors of all shards of which gradients are looked at one by one: every member makes a
 * slice of the result out of that slice of all shards, and all get all slices. Slices are equally
 * long, but for Adasum, which needs whole gradients: there they end between two. */
#ifndef MF_PARALLEL_APART_H
#define MF_PARALLEL_APART_H

#include "comm/aggregate.h"
#include "parallel/shares.h"

typedef struct mf_apart_item {
    int64_t at, count; /* elements of the vector */
} mf_apart_item;

typedef struct mf_apart {
    mf_group *group;
    mf_collective call;
    const mf_aggregation *aggregation;
    const mf_shares *shares; /* of grain 1 */
    mf_dtype dtype;
    int64_t count; /* elements of a shard's vector */
    const mf_apart_item *gradients; /* floats; all else is summed in the tree */
    int n_gradients;
    const void *const *shards; /* ours */
    bool means; /* gradients are means already; else a shard's share of the batch's mean */
    void *out; /* a vector */
} mf_apart;

MF_MUST mf_status mf_apart_reduce(const mf_apart *a);

#endif
