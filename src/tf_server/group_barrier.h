/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier.h - places where those who belong together wait until all of them are there. An
 * assembly that is complete stays: whoever comes again is answered at once, because TensorFlow's
 * tasks ask once in their lives and ours now and then. Whoever comes for something else, or as
 * another process, begins a new one; somebody who is not of it is refused, and it stays.
 *
 * One may be under another, as its key says: "1:3" is under "1". When the upper one begins anew,
 * those under it are over. */
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
    struct Tensorflow__DeviceAttributes *attributes; /* NULL: not told */
    bool is_source;
} mf_arrival;

typedef struct mf_group_barrier {
    char *key, *title;
    int size, n; /* how many are expected, and there */
    mf_arena *arena; /* of all below */
    const char *what, *detail;
    mf_arrival *all;
    ProtobufCMessage *answer; /* for everybody; NULL: not complete */
    /* The assemblies' own: */
    struct mf_barrier_waiter *first, *last;
    int64_t kept; /* bytes that count as memory in use */
    int64_t said_ns;
    int refs;
    struct mf_group_barrier *next; /* of those that are over */
} mf_group_barrier;

typedef struct mf_group_barriers {
    pthread_mutex_t lock; /* all below, and all assemblies */
    pthread_cond_t changed;
    mf_map all; /* by key */
    bool watches, ends;
    pthread_t watch;
} mf_group_barriers;

/* Somebody comes. */
typedef struct mf_coming mf_coming;
struct mf_coming {
    const char *key, *title; /* where to: "1:3", and for people "group 1, instance 3" */
    int size;
    const char *what; /* all have to mean the same */
    const char *detail; /* and this, when they first meet: it may change afterwards */
    mf_arrival who;
    /* May it come? It may say more of who it is. With the lock. NULL: yes. */
    mf_status (*admit)(const mf_group_barriers *m, mf_coming *c);
    /* All are there: checks them, and makes the answer in the arena. With the lock. */
    mf_status (*complete)(mf_group_barriers *m, mf_group_barrier *a);
    /* It holds no thread: done() is called once, now or later, by any thread, with the answer, or
     * with CANCELLED, or DEADLINE_EXCEEDED shortly before the deadline (0: none), or ABORTED where
     * it was over before all had come. Errors say who has come. */
    mf_cancel *cancel;
    int64_t deadline_ns;
    mf_rpc_answer_fn *done;
    void *ctx;
};

void mf_group_barriers_init(mf_group_barriers *m);
/* Nobody waits any more. */
void mf_group_barriers_deinit(mf_group_barriers *m);
void mf_group_barriers_come(mf_group_barriers *m, mf_coming *c);
/* NULL: there is none, or not all have come. With the lock. */
const mf_group_barrier *mf_group_barriers_find(const mf_group_barriers *m, const char *key);
/* The one with this key is over, with all under it, if it is complete and has this member. */
void mf_group_barriers_disband(mf_group_barriers *m, const char *key, const char *device,
                               uint64_t incarnation);
/* NULL: it is not there. */
const mf_arrival *mf_group_barrier_find(const mf_group_barrier *a, const char *device);

/* When to give up what has to end until then, so that there is time to say why. */
int64_t mf_deadline_ahead(int64_t deadline_ns);

#endif
