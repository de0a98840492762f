/* SPDX-License-Identifier: Apache-2.0 */
/* collective_schedule.h - ring and tree schedules of a group's collectives. They equal
 * TensorFlow's, so that its tasks can be members.
 *
 * A reduction is split into one chunk per member, or a multiple. Each chunk passes the ring twice:
 * first every member adds its own part, so the sum of chunk c is added in rank order starting with
 * c; then every member keeps the result. The order of arrival does not change any bit. */
#ifndef MF_TF_SERVER_COLLECTIVE_SCHEDULE_H
#define MF_TF_SERVER_COLLECTIVE_SCHEDULE_H

#include "base/mem.h"
#include "graph/collective_op.h"

enum { MF_HOP_SENDS = 4 };

/* Identifies a hop: the last three numbers of TensorFlow's keys. */
typedef struct mf_hop_key {
    int part[3];
} mf_hop_key;

/* One hop: a chunk is received, or is local, and is sent on. */
typedef struct mf_hop {
    int from; /* a member; -1: the chunk is local */
    mf_hop_key key; /* if the chunk is received */
    bool merges; /* add this member's part */
    bool finishes; /* the sum is complete */
    mf_hop_key sends[MF_HOP_SENDS];
    int n_sends;
} mf_hop;

typedef struct mf_collective_route {
    int64_t first, count; /* elements of the result */
    int64_t own; /* offset of this member's part in its input */
    mf_hop hops[2];
    int n_hops;
} mf_collective_route;

typedef struct mf_collective_schedule {
    mf_collective_route *all; /* one per chunk that is not empty */
    int n;
} mf_collective_schedule;

typedef struct mf_collective_schedule_of {
    const mf_collective_op *collect;
    const int *task; /* by member: index of its task; members of a task are adjacent */
    int n, self; /* number of members; rank of this one, the only one of its task */
    int source; /* of a broadcast */
    int64_t count; /* elements of the result */
} mf_collective_schedule_of;

/* In the arena. Fails: INVALID_ARGUMENT (it cannot be divided like this). */
MF_MUST mf_status mf_collective_schedule_make(const mf_collective_schedule_of *of, mf_arena *arena,
                                              mf_collective_schedule *out);

#endif
