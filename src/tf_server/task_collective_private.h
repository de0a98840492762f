/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective_private.h - the inside of collectives. */
#ifndef MF_TF_SERVER_TASK_COLLECTIVE_PRIVATE_H
#define MF_TF_SERVER_TASK_COLLECTIVE_PRIVATE_H

#include "base/iovec.h"
#include "base/pool.h"
#include "tf_server/collective_schedule.h"
#include "tf_server/group_resolver.h"
#include "tf_server/step_rendezvous.h"

/* One that is under way. */
typedef struct mf_collective_run mf_collective_run;

/* It begins in the pool. */
typedef struct mf_collective_beginning {
    mf_task task; /* first */
    mf_collective_run *run;
} mf_collective_beginning;

struct mf_collective_run {
    mf_cancel_hook hook; /* first: the step is cancelled */
    const mf_step_rendezvous *meeting;
    mf_collective_op *collect;
    mf_kernel *kernel;
    mf_shape shape;
    int64_t deadline_ns; /* 0: none */
    mf_collective_beginning beginning;
    mf_arena *arena;
    mf_group_resolver *circle;
    mf_collective_schedule routes;
    mf_tensor out; /* pieces of it are written by their trips */
    mf_tensor size; /* the group's, in the values' type */
    mf_cancel cancel; /* ends all that is asked */

    pthread_mutex_t lock; /* all below */
    int pending; /* trips, and whoever is at it */
    bool ends;
    mf_error why;
};

/* A piece on its way. */
typedef struct mf_trip {
    mf_task task; /* first: it goes on */
    mf_collective_run *run;
    const mf_collective_route *route;
    int leg;
    mf_iovec come; /* what was received, until it is used */
    mf_tensor value;
} mf_trip;

/* ---- the whole (task_collective.c) ---- */

/* The thread's error ends it; the first stays. */
void mf_collective_fail(mf_collective_run *r, mf_status st);
/* One less is at it; the last one ends it. */
void mf_collective_release(mf_collective_run *r);

/* ---- trips (task_collective_hop.c) ---- */

/* One for each route. The circle is known. */
MF_MUST mf_status mf_trips_make(mf_collective_run *r, mf_trip **out);
/* To the next leg that has to receive, or to its end: then it is released. */
void mf_trip_go_on(mf_trip *t);

#endif
