/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_private.h - shared by dispatch*.c. */
#ifndef MF_DISPATCH_DISPATCH_PRIVATE_H
#define MF_DISPATCH_DISPATCH_PRIVATE_H

#include "dispatch/dispatch_run.h"
#include "dispatch/dispatch_wire.h"
#include "net/mailbox.h"

typedef struct mf_master mf_master;

struct mf_dispatch {
    mf_dispatch_options o; /* a copy: nothing is borrowed from the caller */
    char **dirs; /* owned, for o.allow_dirs */
    mf_net *net; /* NULL: a single process */
    int hub; /* task number of the master */
    bool spare; /* a further master: it runs nothing */
    int64_t timeout_ns;
    mf_master *master; /* NULL: this process serves */
};

/* Ping interval of both sides. */
static inline int64_t mf_dispatch_ping_ns(const mf_dispatch *d)
{
    return d->timeout_ns / 5;
}

/* ---- state of the master; its lock guards fields unless a comment says otherwise ---- */

/* A serialized graph. Immutable. */
typedef struct mf_shipped {
    mf_digest digest;
    char *bytes;
    size_t len;
    int64_t number;
    struct mf_shipped *next;
} mf_shipped;

struct mf_closure { /* immutable except refs */
    mf_master *master;
    const mf_shipped *graph;
    char **feeds, **fetches, **targets;
    int n_feeds, n_fetches, n_targets;
    int refs;
};

/* A call and its result. */
struct mf_future {
    mf_master *master;
    mf_closure *closure;
    mf_tensor **feeds; /* until the call is done */
    int64_t id;
    int only; /* the worker that must run it; -1: any */
    int losses; /* workers that were lost while they ran it */
    int refs; /* of the caller, and of the queue or agent that holds it */
    bool waited_for; /* the caller gets its failure from the future: mf_dispatch_join() does not
                        report it */
    bool done;
    mf_status status;
    char *message; /* of a failure; NULL: no memory for it */
    mf_tensor **values;
    mf_future *next; /* in its queue */
};

typedef struct mf_dispatch_calls {
    mf_future *first, *last;
} mf_dispatch_calls;

/* The master's state of one worker, and the thread that communicates with it (dispatch_agent.c). */
typedef struct mf_agent {
    mf_master *master;
    int task; /* its task number; -1: this process */
    int index; /* workers first, then other masters */
    pthread_t thread;
    bool started;
    mf_mailbox box;
    mf_worker_done done;
    mf_dispatch_calls pinned; /* calls that only this worker may run */
    mf_future **running; /* done.slots slots, of which done.running are used */
    bool *shipped; /* by number of the graph: the worker has it. Used by its thread only */
    int64_t cap_shipped;
    int64_t heard; /* time of the last message. Used by its thread only */
} mf_agent;

struct mf_master {
    mf_dispatch *d;
    mf_net_watch watch;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a call is done, or no worker is left */
    mf_dispatch_calls queue;
    int64_t unfinished; /* calls that are queued or running */
    int64_t next_id;
    mf_error failure; /* the first failure of a call since the last join */
    mf_error over; /* why no further call can run */
    bool closing;
    int n_left; /* workers that are not lost */
    mf_shipped *graphs;
    int64_t n_graphs;
    mf_agent *agents; /* n_workers of them, then other masters */
    int n_agents, n_workers;
    mf_dispatch_call_runner *runner; /* a single process: runs the calls */
};

/* ---- closures (dispatch_closure.c) ---- */

/* FAILED_PRECONDITION: this task is not the master. */
MF_MUST mf_status mf_dispatch_need_master(const mf_dispatch *d);
/* With the lock held. */
void mf_closure_unref(mf_closure *c);

/* ---- calls (dispatch_queue.c) ---- */

/* With the lock held: the call is done, and waiting threads are woken. Ownership of the values is
 * transferred. st not MF_OK: the thread's message says why. */
void mf_future_finish(mf_future *f, mf_status st, mf_tensor **values);
/* With the lock held: drops the reference of the queue or agent. */
void mf_future_unref(mf_future *f);
void mf_dispatch_calls_push(mf_dispatch_calls *q, mf_future *f);
void mf_dispatch_calls_push_front(mf_dispatch_calls *q, mf_future *f);
mf_future *mf_dispatch_calls_pop(mf_dispatch_calls *q); /* NULL: empty */
/* With the lock held: all calls of the queue fail with this status. */
void mf_dispatch_calls_fail(mf_dispatch_calls *q, mf_status st);
/* Without the lock: makes agents with free slots check the queue. */
void mf_master_wake(mf_master *m);

/* ---- agents ---- */

MF_MUST mf_status mf_agent_start(mf_agent *a);
/* Stops its worker, and waits for its thread. */
void mf_agent_stop(mf_agent *a);

/* ---- the master (dispatch_master.c) ---- */

/* tasks: that serve, workers first; n 0: this process runs the calls. */
MF_MUST mf_status mf_master_new(mf_dispatch *d, const int *tasks, int n, int n_workers,
                                mf_master **out);
void mf_master_free(mf_master *m);

/* ---- a worker (dispatch_worker.c) ---- */

MF_MUST mf_status mf_worker_serve(mf_dispatch *d);

#endif
