/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_private.h - the inside of a dispatch; shared by dispatch*.c. */
#ifndef MF_DISPATCH_DISPATCH_PRIVATE_H
#define MF_DISPATCH_DISPATCH_PRIVATE_H

#include "dispatch/dispatch_run.h"
#include "dispatch/dispatch_wire.h"
#include "net/mailbox.h"

typedef struct mf_master mf_master;

struct mf_dispatch {
    mf_dispatch_options o; /* borrowed from the caller no longer */
    char **dirs; /* of o */
    mf_net *net; /* NULL: alone */
    int hub; /* the master's number among the tasks */
    bool spare; /* another master: it runs nothing */
    int64_t timeout_ns;
    mf_master *master; /* NULL: this one serves */
};

/* Both sides say that they are here so often. */
static inline int64_t mf_dispatch_ping_ns(const mf_dispatch *d)
{
    return d->timeout_ns / 5;
}

/* ---- the master's things. Fields: guarded by its lock unless said otherwise ---- */

/* A graph as it is sent. Never changes. */
typedef struct mf_shipped {
    mf_digest digest;
    char *bytes;
    size_t len;
    int64_t number;
    struct mf_shipped *next;
} mf_shipped;

struct mf_closure { /* never changes, but for refs */
    mf_master *master;
    const mf_shipped *graph;
    char **feeds, **fetches, **targets;
    int n_feeds, n_fetches, n_targets;
    int refs;
};

/* A call and what becomes of it. */
struct mf_future {
    mf_master *master;
    mf_closure *closure;
    mf_tensor **feeds; /* until it is done */
    int64_t id;
    int only; /* the worker that must run it; -1: any */
    int losses; /* workers that were lost with it */
    int refs; /* of the caller and of the queue or the agent that has it */
    bool waited_for; /* whoever scheduled it tells of its failure: mf_dispatch_join() does not */
    bool done;
    mf_status status;
    char *message; /* of a failure; NULL: there was no memory for it */
    mf_tensor **values;
    mf_future *next; /* in a queue */
};

typedef struct mf_dispatch_calls {
    mf_future *first, *last;
} mf_dispatch_calls;

/* What the master knows of one worker. A thread of its own talks with it (dispatch_agent.c). */
typedef struct mf_agent {
    mf_master *master;
    int task; /* its number in the net; -1: this process */
    int index; /* among the workers; behind them are other masters */
    pthread_t thread;
    bool started;
    mf_mailbox box;
    mf_worker_done done;
    mf_dispatch_calls pinned; /* nobody else may run these */
    mf_future **running; /* done.slots places, done.running of them taken */
    bool *shipped; /* by the graph's number: it has it. Of its thread alone */
    int64_t cap_shipped;
    int64_t heard; /* when; the same */
} mf_agent;

struct mf_master {
    mf_dispatch *d;
    mf_net_watch watch;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a call is done, or there are no workers any more */
    mf_dispatch_calls queue;
    int64_t unfinished; /* calls: queued or running */
    int64_t next_id;
    mf_error failure; /* the first of a call since the last join */
    mf_error over; /* why no call can be run any more */
    bool closing;
    int n_left; /* workers that are not lost */
    mf_shipped *graphs;
    int64_t n_graphs;
    mf_agent *agents; /* n_workers of them, then other masters */
    int n_agents, n_workers;
    mf_dispatch_call_runner *runner; /* alone */
};

/* ---- closures (dispatch_closure.c) ---- */

/* FAILED_PRECONDITION: this task is not the master. */
MF_MUST mf_status mf_dispatch_need_master(const mf_dispatch *d);
/* With the lock held. */
void mf_closure_unref(mf_closure *c);

/* ---- calls (dispatch_queue.c) ---- */

/* With the lock held: its end, and whoever waits for it goes on. Values are taken over. st not
 * MF_OK: the thread's message says why. */
void mf_future_finish(mf_future *f, mf_status st, mf_tensor **values);
/* The same: the queue or agent lets go of it. */
void mf_future_unref(mf_future *f);
void mf_dispatch_calls_push(mf_dispatch_calls *q, mf_future *f);
void mf_dispatch_calls_push_front(mf_dispatch_calls *q, mf_future *f);
mf_future *mf_dispatch_calls_pop(mf_dispatch_calls *q); /* NULL: empty */
/* The same: all of them end so. */
void mf_dispatch_calls_fail(mf_dispatch_calls *q, mf_status st);
/* Without the lock: agents with room shall look at the queue. */
void mf_master_wake(mf_master *m);

/* ---- agents ---- */

MF_MUST mf_status mf_agent_start(mf_agent *a);
/* Let its worker end, and wait for its thread. */
void mf_agent_stop(mf_agent *a);

/* ---- the master as a whole (dispatch_master.c) ---- */

/* tasks: who serves, workers first; n 0: this process runs the calls. */
MF_MUST mf_status mf_master_new(mf_dispatch *d, const int *tasks, int n, int n_workers,
                                mf_master **out);
void mf_master_free(mf_master *m);

/* ---- a worker (dispatch_worker.c) ---- */

MF_MUST mf_status mf_worker_serve(mf_dispatch *d);

#endif
