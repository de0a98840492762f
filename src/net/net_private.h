/* SPDX-License-Identifier: Apache-2.0 */
/* net_private.h - internals of a net; shared by net*.c and the groups over a net. */
#ifndef MF_NET_NET_PRIVATE_H
#define MF_NET_NET_PRIVATE_H

#include "net/net.h"
#include "observe/wait_report.h"

#include <pthread.h>

typedef struct message message;

/* A waiter for a message; the caller's memory until mf_net_finish(). */
typedef struct mf_net_waiter {
    mf_frame frame;
    int from;
    void *data; /* destination; NULL: any size, allocated */
    bool busy; /* being written */
    bool done; /* complete */
    message *message; /* arrived in separate memory */
    const char *what;
    int64_t since;
    mf_wait_report waiting;
    mf_suspect suspect;
    const mf_net_retry *again; /* NULL: no retransmission */
    int64_t again_ns, again_at; /* current interval; time of the next retransmission */
    struct mf_net_waiter *next;
} mf_net_waiter;

/* A message that arrived before it was requested. */
struct message {
    mf_frame frame;
    char *data; /* NUL-terminated */
    struct message *next;
};

typedef struct mf_peer {
    char *name, *address;
    char *host, *note; /* of its greeting: its machine; see mf_net_options */
    int64_t pid;
    bool claimed; /* a connection has identified itself as this task */
    bool here; /* connected */
    bool gone; /* its connection has ended, or, in a star, it has aborted */
    bool left; /* it has announced its end */
    mf_error why; /* why it is lost */
    message *arrived;
    mf_net_waiter *waiters; /* in order of arrival */
    message *incoming; /* owned by the transport's thread until it is complete */
    mf_net_waiter *incoming_to; /* or the destination of the current message */
    int64_t unclaimed; /* bytes of arrived and current messages */
    int64_t sent; /* bytes */
    mf_wait_report sending; /* while it does not read what this task sends */
    bool probe_pending; /* it has asked which task we wait for */
    int waits_for; /* its reply to our query */
    int64_t answered; /* time of the reply */
} mf_peer;

struct mf_net {
    mf_inbox inbox; /* must be the first field */
    pthread_mutex_t lock; /* guards all fields below that change */
    pthread_cond_t changed;
    mf_peer *peers;
    int n_tasks, self;
    bool star; /* only the hub is connected with all; a lost task affects only itself */
    int hub;
    uint32_t epoch;
    mf_status (*check)(void *ctx); /* while connecting; may be NULL */
    void *check_ctx;
    int64_t silence_ns; /* likewise; 0: none */
    int *missing; /* likewise; may be NULL */
    char *identity, *note, *hello;
    char *job; /* as task 0 names it; NULL: not connected */
    mf_transport *transport;
    mf_error trouble; /* the first failure: a task is lost, or has aborted */
    mf_error mismatch; /* the first task with other settings */
    bool sent_mismatch; /* the refused task was notified */
    bool aborted, closing;
    int64_t reported_ns; /* mf_net_report_status(): time of the last report to task 0 */
    int unheard; /* reports since it last sent something */
    /* Held while a request is served or stored, and while the server function changes: it sees no
     * request of a task after that task's end. Acquired before the lock. */
    pthread_mutex_t serving;
    mf_net_serve_fn *serve;
    void *serve_ctx;
    pthread_mutex_t watching; /* guards the list, also during the calls; acquired last */
    mf_net_watch *watches;
};

/* Compares the keys of two messages. */
static inline bool mf_net_same_key(const mf_frame *a, const mf_frame *b)
{
    return a->kind == b->kind && a->epoch == b->epoch && a->group == b->group && a->seq == b->seq &&
           a->step == b->step;
}

/* A control message of the net: sent even after a failure. */
static inline bool mf_net_is_control(const mf_frame *f)
{
    return f->kind == MF_MESSAGE_ABORT || f->kind == MF_MESSAGE_BYE || f->kind == MF_MESSAGE_ASK ||
           f->kind == MF_MESSAGE_ANSWER || f->kind == MF_MESSAGE_STATE;
}

/* ---- net_inbox.c, net_open.c: callbacks of the transport ---- */

extern const mf_inbox_kind mf_net_inbox;
void mf_message_free(message *m);
const char *mf_net_greeting(mf_inbox *in, const char *address);
mf_status mf_net_hello(mf_inbox *in, const char *text, int *peer);
void mf_net_refused(mf_inbox *in);
void mf_net_ready(mf_inbox *in, int peer);

/* Is or will be connected with it. */
static inline bool mf_net_connects_to(const mf_net *n, int task)
{
    return !n->star || n->self == n->hub || task == n->hub;
}

/* ---- net.c: receiving in two halves, so that bytes can arrive during sends ---- */

/* w: frame (including its size), from, and data are set. Messages with the same key are delivered
 * to waiters in the order of posting. Every waiter must be finished, in any case. */
void mf_net_post(mf_net *n, mf_net_waiter *w);
MF_MUST mf_status mf_net_finish(mf_net *n, mf_net_waiter *w, int64_t deadline_ns);
/* Withdraw a waiter. */
void mf_net_unpost(mf_net *n, mf_net_waiter *w);
/* Drop unrequested messages of a group. */
void mf_net_forget(mf_net *n, uint32_t group);

/* ---- net_status_report.c ---- */

/* The caller holds the lock: mf_net_report_status(), which must be called without it, is due. */
bool mf_net_is_report_due(mf_net *n);

/* ---- net_failure_detection.c ---- */

/* The caller holds the lock: the thread's error becomes the failure of all waits of this task. */
void mf_net_record_failure(mf_net *n, mf_status st);
/* The same: MF_OK as long as neither this task nor the net has failed. */
MF_MUST mf_status mf_net_failure_of(const mf_net *n, int task);
/* Without the lock: notify the watches; for a query only the watches that want queries. */
void mf_net_notify_watches(mf_net *n, bool question);
/* The caller holds the lock, which is released meanwhile: notify the tasks that asked that this
 * task waits for `task`. Nothing is sent to `but` (-1: to all). */
void mf_net_answer(mf_net *n, int task, int but);
/* The same: follow the chain of waits, once the deadline is near. True: give up, and blame the
 * suspect. */
bool mf_net_suspect(mf_net *n, mf_suspect *s, int64_t deadline_ns);
/* Time of the next check. */
int64_t mf_net_next_check(int64_t deadline_ns);
/* "worker 2 did not send the gradients of step 7; worker 0 waited 3.0 s" or, if that task waits
 * itself, the task it waits for. verb: "send". */
mf_status mf_net_blame(const mf_net *n, const mf_suspect *s, int waited_for, const char *verb,
                       const char *what, int64_t step, int64_t since);

/* "cannot send to worker 2 at 127.0.0.1:2222: ", valid until the thread's next call. */
const char *mf_net_peer_text(const mf_net *n, const char *before, int task);

#endif
