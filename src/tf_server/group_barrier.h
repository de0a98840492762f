/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier.h - barriers at which the members of a group wait until all have arrived. A
 * complete barrier is kept: a member that arrives again is answered at once, because TensorFlow's
 * tasks ask once in their lifetime and Meshflow's ask repeatedly. A member that arrives for another
 * purpose or as a new process starts a new barrier. A task that is not a member is refused, and the
 * barrier is kept.
 *
 * A barrier may be subordinate to another, as its key says: "1:3" is subordinate to "1". When "1"
 * is started again, its subordinate barriers end. */
#ifndef MF_TF_SERVER_GROUP_BARRIER_H
#define MF_TF_SERVER_GROUP_BARRIER_H

#include "base/cancel.h"
#include "base/map.h"
#include "base/mem.h"
#include "rpc/rpc_stub.h"

struct Tensorflow__DeviceAttributes;

typedef struct mf_arrival {
    const char *device;
    uint64_t incarnation;
    struct Tensorflow__DeviceAttributes *attributes; /* NULL: not sent */
    bool is_source;
} mf_arrival;

typedef struct mf_group_barrier {
    char *key, *title;
    int size, n; /* members expected; members present */
    mf_arena *arena; /* of all members below */
    const char *what, *detail;
    mf_arrival *all;
    ProtobufCMessage *answer; /* the reply to all members; NULL: not complete */
    /* Private: */
    struct mf_barrier_waiter *first, *last;
    int64_t charged; /* bytes charged to the memory quota */
    int64_t reported_ns;
    int refs;
    struct mf_group_barrier *next; /* in the list of removed barriers */
} mf_group_barrier;

typedef struct mf_group_barriers {
    pthread_mutex_t lock; /* guards all members below and all barriers */
    pthread_cond_t changed;
    mf_map all; /* by key */
    bool watches, ends;
    pthread_t watch;
} mf_group_barriers;

/* An arriving member. */
typedef struct mf_barrier_request mf_barrier_request;
struct mf_barrier_request {
    const char *key, *title; /* the barrier: "1:3", and for messages "group 1, instance 3" */
    int size;
    const char *what; /* must be equal for all members */
    const char *detail; /* must be equal when the barrier completes; may change afterwards */
    mf_arrival who;
    /* Accepts or refuses the member, and may add to its description. Called with the lock. NULL:
     * accepts all. */
    mf_status (*admit)(const mf_group_barriers *m, mf_barrier_request *c);
    /* All members are present: checks them and makes the reply in the arena. Called with the lock.
     */
    mf_status (*complete)(mf_group_barriers *m, mf_group_barrier *a);
    /* Waiting holds no thread: done() is called once, now or later, by any thread, with the reply,
     * or with CANCELLED, DEADLINE_EXCEEDED (shortly before the deadline; 0: none) or ABORTED (the
     * barrier ended before all members arrived). Errors list the members present. */
    mf_cancel *cancel;
    int64_t deadline_ns;
    mf_rpc_answer_fn *done;
    void *ctx;
};

void mf_group_barriers_init(mf_group_barriers *m);
/* No member waits any more. */
void mf_group_barriers_deinit(mf_group_barriers *m);
void mf_group_barriers_arrive(mf_group_barriers *m, mf_barrier_request *c);
/* NULL: not there, or not complete. The caller holds the lock. */
const mf_group_barrier *mf_group_barriers_find(const mf_group_barriers *m, const char *key);
/* Removes the barrier with this key and its subordinates, if it is complete and has this member. */
void mf_group_barriers_invalidate(mf_group_barriers *m, const char *key, const char *device,
                                  uint64_t incarnation);
/* NULL: not a member. */
const mf_arrival *mf_group_barrier_find(const mf_group_barrier *a, const char *device);

/* An earlier deadline, which leaves time to report the reason. */
int64_t mf_deadline_ahead(int64_t deadline_ns);

#endif
