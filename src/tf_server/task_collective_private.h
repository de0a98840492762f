/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective_private.h - internals of collectives. */
#ifndef MF_TF_SERVER_TASK_COLLECTIVE_PRIVATE_H
#define MF_TF_SERVER_TASK_COLLECTIVE_PRIVATE_H

#include "base/iovec.h"
#include "base/pool.h"
#include "tf_server/collective_schedule.h"
#include "tf_server/group_resolver.h"
#include "tf_server/step_rendezvous.h"

/* A collective in progress. */
typedef struct mf_collective_run mf_collective_run;

/* Runs on the pool. */
typedef struct mf_collective_beginning {
    mf_task task; /* first */
    mf_collective_run *run;
} mf_collective_beginning;

struct mf_collective_run {
    mf_cancel_hook hook; /* first: cancellation of the step */
    const mf_step_rendezvous *rendezvous;
    mf_collective_op *collect;
    mf_kernel *kernel;
    mf_shape shape;
    int64_t deadline_ns; /* 0: none */
    mf_collective_beginning beginning;
    mf_arena *arena;
    mf_group_resolver *group;
    mf_collective_schedule routes;
    mf_tensor out; /* each trip writes its chunk */
    mf_tensor size; /* the group's size, in the dtype of the values */
    mf_cancel cancel; /* cancels all calls */

    pthread_mutex_t lock; /* guards all members below */
    int pending; /* references: trips and running functions */
    bool ends;
    mf_error why;
};

/* A chunk in transit. */
typedef struct mf_chunk_transfer {
    mf_task task; /* first: continues the trip */
    mf_collective_run *run;
    const mf_collective_route *route;
    int hop;
    mf_iovec received; /* received data that is not used yet */
    mf_tensor value;
} mf_chunk_transfer;

/* ---- lifetime (task_collective.c) ---- */

/* Fails the collective with the thread's error; the first error is kept. */
void mf_collective_fail(mf_collective_run *r, mf_status st);
/* Drops a reference; the last one completes the collective. */
void mf_collective_release(mf_collective_run *r);

/* ---- trips (task_collective_hop.c) ---- */

/* One per route. The group is resolved. */
MF_MUST mf_status mf_chunk_transfers_make(mf_collective_run *r, mf_chunk_transfer **out);
/* Continues to the next hop that has to receive, or to the end, where the trip is released. */
void mf_chunk_transfer_run(mf_chunk_transfer *t);

#endif
