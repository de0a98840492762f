/* SPDX-License-Identifier: Apache-2.0 */
/* collective_op.h - what the members of a group do together: each brings a value, or waits for one,
 * and all have the same result. Members are tasks of a cluster; who they are the server finds out.
 */
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
    int32_t group, size; /* which group, and how many are in it */
    int32_t instance; /* which of its collectives */
    mf_dtype dtype;
    const char *name; /* "node: Reduce(Add,Div)", as TensorFlow tells the leader */
    bool is_source; /* of a broadcast */
    mf_span_fn *merge; /* of a reduction: two values become one */
    mf_span_fn *divide; /* and what follows, by their number; NULL: nothing */
    const int64_t
        *offsets; /* of rings through the devices of a task, TensorFlow's subdiv_offsets */
    int64_t n_offsets;
    int64_t timeout_ns; /* 0: none */

    pthread_mutex_t lock; /* all below */
    mf_object *known; /* kept from step to step by the rendezvous; NULL: nothing */
} mf_collective_op;

#endif
