/* SPDX-License-Identifier: Apache-2.0 */
/* collective_schedule.h - which way the pieces of a value go between the members of a group:
 * TensorFlow's rings and its tree, so that its tasks may be members, too.
 *
 * A reduction is cut into as many pieces as there are members, or a multiple. Each goes around the
 * ring twice: the first time everybody adds its own part, so the sum of piece c has the order of
 * the ranks beginning with c; the second time everybody keeps the result. Who comes first changes
 * no bit. */
#ifndef MF_TF_SERVER_COLLECTIVE_SCHEDULE_H
#define MF_TF_SERVER_COLLECTIVE_SCHEDULE_H

#include "base/mem.h"
#include "graph/collective_op.h"

enum { MF_HOP_SENDS = 4 };

/* What a piece is called on its way: the three last numbers of TensorFlow's keys. */
typedef struct mf_hop_key {
    int part[3];
} mf_hop_key;

/* A piece comes here, or is here, and goes on. */
typedef struct mf_hop {
    int from; /* a member; -1: the piece is here already */
    mf_hop_key key; /* if it comes from somebody */
    bool merges; /* with this member's own part */
    bool finishes; /* all have been merged */
    mf_hop_key sends[MF_HOP_SENDS];
    int n_sends;
} mf_hop;

typedef struct mf_collective_route {
    int64_t first, count; /* elements of the result */
    int64_t own; /* where this member's part begins in its input */
    mf_hop legs[2];
    int n_legs;
} mf_collective_route;

typedef struct mf_collective_schedule {
    mf_collective_route *all; /* of all pieces that are not empty */
    int n;
} mf_collective_schedule;

typedef struct mf_collective_schedule_of {
    const mf_collective_op *collect;
    const int *task; /* by member: the number of its task, from 0; those of a task are neighbours */
    int n, self; /* members, and which one this is: alone on its task */
    int source; /* of a broadcast */
    int64_t count; /* elements of the result */
} mf_collective_schedule_of;

/* In the arena. INVALID_ARGUMENT: it cannot be divided so. */
MF_MUST mf_status mf_collective_schedule_make(const mf_collective_schedule_of *of, mf_arena *arena,
                                              mf_collective_schedule *out);

#endif
