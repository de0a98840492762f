/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_op.h - what a processor of a mesh sends to the others while a step runs. Ops know nothing
 * else of them: whether these are threads or processes of other hosts is the link's business
 * (mesh/). */
#ifndef MF_GRAPH_SPMD_OP_H
#define MF_GRAPH_SPMD_OP_H

#include "graph/op.h"

#include <meshflow/mesh.h>

typedef struct mf_mesh_link mf_mesh_link;

/* What was sent, a vector; borrowed. On failure the thread's error is set. */
typedef void mf_mesh_got_fn(void *ctx, mf_status status, const mf_tensor *piece);

typedef struct mf_mesh_link_kind {
    /* A reference is taken, or the bytes are copied. Each processor sends another at most one piece
     * for each key in a step. Thread: any. */
    mf_status (*send)(mf_mesh_link *l, int to, int64_t key, const mf_tensor *piece);
    /* got() is called once: now or later, by any thread; CANCELLED when the step is. */
    void (*receive)(mf_mesh_link *l, int from, int64_t key, mf_cancel *cancel, mf_mesh_got_fn *got,
                    void *ctx);
    /* The step has failed here, with the thread's error: whoever waits for a piece gets that. */
    void (*fail)(mf_mesh_link *l, mf_status why);
} mf_mesh_link_kind;

/* What a processor does when, while a run is under way: see runtime/busy_meter.h. */
typedef struct mf_mesh_meter {
    int running; /* items */
    int64_t begin; /* of the run */
    int64_t since; /* the first of those that run began */
    int64_t busy_ns; /* before */
    int n_turns;
    mf_mesh_turn turns[MF_MESH_TURNS];
} mf_mesh_meter;

struct mf_mesh_link {
    const mf_mesh_link_kind *kind;
    int self; /* the processor whose it is */
    atomic_llong sent, received, collectives; /* bytes, bytes, how many */
    mf_mesh_meter meter; /* guarded by the lock of the run */
};

/* Elements of a part of a tensor of that rank. */
static inline int64_t mf_mesh_box_count(const int64_t *size, int rank)
{
    int64_t n = 1;

    for (int d = 0; d < rank; d++)
        n *= size[d];
    return n;
}

#endif
