/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_op.h - communication between devices of a mesh during a step. Ops do not know whether the
 * devices are threads or processes on other hosts; the link does (spmd/). */
#ifndef MF_GRAPH_SPMD_OP_H
#define MF_GRAPH_SPMD_OP_H

#include "graph/op.h"

#include <meshflow/mesh.h>

typedef struct mf_mesh_link mf_mesh_link;

/* The received piece, a vector; borrowed. On failure the thread's error is set. */
typedef void mf_mesh_got_fn(void *ctx, mf_status status, const mf_tensor *piece);

typedef struct mf_mesh_link_kind {
    /* A reference is taken, or the bytes are copied. In a step each device sends another one at
     * most one piece per key. Thread: any. */
    mf_status (*send)(mf_mesh_link *l, int to, int64_t key, const mf_tensor *piece);
    /* got() is called once: immediately or later, by any thread; with CANCELLED if the step is
     * cancelled. */
    void (*receive)(mf_mesh_link *l, int from, int64_t key, mf_cancel *cancel, mf_mesh_got_fn *got,
                    void *ctx);
    /* The step has failed on this device, with the thread's error: devices that wait for a piece
     * fail with it. */
    void (*fail)(mf_mesh_link *l, mf_status why);
} mf_mesh_link_kind;

/* Busy time of a device during a run: see runtime/busy_meter.h. */
typedef struct mf_mesh_meter {
    int running; /* running items */
    int64_t begin; /* of the run */
    int64_t since; /* start of the oldest running item */
    int64_t busy_ns; /* busy time before that */
    int n_intervals;
    mf_mesh_interval intervals[MF_MESH_INTERVALS];
} mf_mesh_meter;

struct mf_mesh_link {
    const mf_mesh_link_kind *kind;
    int self; /* this device */
    atomic_llong sent, received, collectives; /* bytes, bytes, number */
    mf_mesh_meter meter; /* guarded by the lock of the run */
};

/* Elements of a box of that rank. */
static inline int64_t mf_mesh_box_count(const int64_t *size, int rank)
{
    int64_t n = 1;

    for (int d = 0; d < rank; d++)
        n *= size[d];
    return n;
}

#endif
