/* SPDX-License-Identifier: Apache-2.0 */
/* group_resolver.h - the members of a group, resolved by its leader. */
#ifndef MF_TF_SERVER_GROUP_RESOLVER_H
#define MF_TF_SERVER_GROUP_RESOLVER_H

#include "graph/collective_op.h"
#include "tf_server/server.h"

typedef struct mf_group_resolver_member {
    const char *device;
    uint64_t incarnation;
    int task; /* index in the cluster */
} mf_group_resolver_member;

/* Immutable. Release with mf_object_unref(). */
typedef struct mf_group_resolver {
    mf_object base; /* first */
    mf_arena *arena;
    mf_group_resolver_member *members; /* by rank */
    int *task; /* by rank: index of its task within the group */
    int n, self;
    int source; /* of a broadcast */
} mf_group_resolver;

typedef struct mf_group_resolver_search {
    mf_server *server;
    int leader; /* a task */
    const mf_collective_op *collect;
    mf_shape shape; /* of the result */
    int64_t deadline_ns; /* 0: none */
    mf_cancel *cancel;
    /* group: with a reference; NULL on failure, with the thread's error set. Called once, by any
     * thread. */
    void (*done)(void *ctx, mf_status st, mf_group_resolver *group);
    void *ctx;
} mf_group_resolver_search;

/* Asks the leader, which waits for all members. No thread is held. */
void mf_group_resolver_find(const mf_group_resolver_search *s);
/* Tells the leader to check a member that returned another incarnation. Does not wait. */
void mf_group_resolver_suspect(mf_server *server, int leader, const mf_collective_op *collect,
                               const mf_group_resolver_member *member);

#endif
