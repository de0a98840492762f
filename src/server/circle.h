/* SPDX-License-Identifier: Apache-2.0 */
/* circle.h - the members of a group, as one of them has learned from its leader. */
#ifndef MF_SERVER_CIRCLE_H
#define MF_SERVER_CIRCLE_H

#include "graph/collect.h"
#include "server/server.h"

typedef struct mf_circle_member {
    const char *device;
    uint64_t incarnation;
    int task; /* of the cluster */
} mf_circle_member;

/* Never changes. Release with mf_object_unref(). */
typedef struct mf_circle {
    mf_object base; /* first */
    mf_arena *arena;
    mf_circle_member *members; /* by rank */
    int *task; /* by rank: which of the group's tasks, from 0 */
    int n, self;
    int source; /* of a broadcast */
} mf_circle;

typedef struct mf_circle_search {
    mf_server *server;
    int leader; /* a task */
    const mf_collect *collect;
    mf_shape shape; /* of the result */
    int64_t deadline_ns; /* 0: none */
    mf_cancel *cancel;
    /* circle: with a reference; NULL on failure, with the thread's error set. Once, by any thread.
     */
    void (*done)(void *ctx, mf_status st, mf_circle *circle);
    void *ctx;
} mf_circle_search;

/* Asks the leader, which waits for all members. It holds no thread. */
void mf_circle_find(const mf_circle_search *s);
/* A member does not answer as what it was: the leader shall look. Nobody waits for it. */
void mf_circle_doubt(mf_server *server, int leader, const mf_collect *collect,
                     const mf_circle_member *member);

#endif
