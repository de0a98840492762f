/* SPDX-License-Identifier: Apache-2.0 */
/* collective_op.h - a collective between members of a group: each member contributes a value, or
 * waits for one, and all get the same result. Members are tasks of a cluster; the server resolves
 * the group. */
#ifndef MF_GRAPH_COLLECTIVE_OP_H
#define MF_GRAPH_COLLECTIVE_OP_H

#include "graph/op.h"

enum { MF_GROUP_MAX = 4096 }; /* members */

typedef enum mf_collective_op_kind { /* TensorFlow's numbers */
                                     MF_COLLECTIVE_OP_REDUCE = 0,
                                     MF_COLLECTIVE_OP_BROADCAST = 1,
                                     MF_COLLECTIVE_OP_GATHER = 2,
} mf_collective_op_kind;

typedef struct mf_collective_op {
    mf_collective_op_kind kind;
    int32_t group, size; /* group key and group size */
    int32_t instance; /* instance key: which collective of the group */
    mf_dtype dtype;
    const char *name; /* "node: Reduce(Add,Div)", as TensorFlow sends it to the leader */
    bool is_source; /* for a broadcast */
    mf_span_fn *merge; /* for a reduction: combines two values */
    mf_span_fn *divide; /* final op of a reduction, given the group size; NULL: none */
    const int64_t *offsets; /* offsets of the rings through the devices of a task, TensorFlow's
                               subdiv_offsets */
    int64_t n_offsets;
    int64_t timeout_ns; /* 0: none */

    pthread_mutex_t lock; /* guards all fields below */
    mf_object *known; /* kept from step to step by the rendezvous; NULL: none */
} mf_collective_op;

#endif
