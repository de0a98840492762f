/* SPDX-License-Identifier: Apache-2.0 */
/* net_private.h - the inside of a net; shared by net*.c and the groups over a net. */
#ifndef MF_NET_NET_PRIVATE_H
#define MF_NET_NET_PRIVATE_H

#include "net/net.h"
#include "observe/wait_report.h"

#include <pthread.h>

typedef struct message message;

/* Somebody who waits for a message; memory of its own until mf_net_finish(). */
typedef struct mf_net_waiter {
    mf_frame frame;
    int from;
    void *data; /* where the bytes go; NULL: any size, any place */
    bool busy; /* they are being written */
    bool done; /* they are there */
    message *message; /* it came elsewhere */
    const char *what;
    int64_t since;
    mf_wait_report waiting;
    mf_suspect suspicion;
    const mf_net_again *again; /* NULL: it was sent once and for all */
    int64_t again_ns, again_at; /* how long until the next time; when that is */
    struct mf_net_waiter *next;
} mf_net_waiter;

/* One that came before it was asked for. */
struct message {
    mf_frame frame;
    char *data; /* with a zero behind */
    struct message *next;
};

typedef struct mf_peer {
    char *name, *address, *host; /* host: which machine it runs on, as it says itself */
    int64_t pid;
    bool claimed; /* somebody has said to be this one */
    bool here; /* we have met */
    bool gone; /* its connection is over, or, in a star, it has given up */
    bool left; /* it has said good-bye */
    mf_error why; /* it is gone */
    message *arrived;
    mf_net_waiter *waiters; /* in the order of their coming */
    message *coming; /* of the transport's thread, until it is whole */
    mf_net_waiter *coming_to; /* or it goes here */
    int64_t unclaimed; /* bytes of arrived and coming */
    int64_t sent; /* bytes */
    mf_wait_report sending; /* while it does not take what we send */
    bool asks; /* whom we wait for */
    int waits_for; /* its answer, when we asked */
    int64_t answered; /* when */
} mf_peer;

struct mf_net {
    mf_inbox inbox; /* first */
    pthread_mutex_t lock; /* all below but what never changes */
    pthread_cond_t changed;
    mf_peer *peers;
    int n_tasks, self;
    bool star; /* only hub is connected with all; whoever goes is trouble for itself alone */
    int hub;
    uint32_t epoch;
    mf_status (*check)(void *ctx); /* while we meet; may be NULL */
    void *check_ctx;
    int64_t silence_ns; /* likewise; 0: none */
    int *missing; /* likewise; may be NULL */
    char *identity, *hello;
    char *job; /* as task 0 calls it; NULL: we have not met */
    mf_transport *transport;
    mf_error trouble; /* the first: somebody is gone, or has given up */
    mf_error mismatch; /* the first: a task came that has other settings */
    bool told_mismatch; /* and knows that it was refused */
    bool aborted, closing;
    int64_t untold_since; /* mf_net_tell(): when task 0 was told of us last */
    int unheard; /* how often since it last sent something */
    /* Held while a request is served or kept, and while it is changed who serves: nobody is told of
     * one any more who has left, and none comes in between. Taken before the lock. */
    pthread_mutex_t serving;
    mf_net_serve_fn *serve;
    void *serve_ctx;
    pthread_mutex_t watching; /* the list, also while they are called; taken last */
    mf_net_watch *watches;
};

/* What a message is about. */
static inline bool mf_net_same_key(const mf_frame *a, const mf_frame *b)
{
    return a->kind == b->kind && a->epoch == b->epoch && a->group == b->group && a->seq == b->seq &&
           a->step == b->step;
}

/* Of the net itself: told even in trouble. */
static inline bool mf_net_is_word(const mf_frame *f)
{
    return f->kind == MF_MESSAGE_ABORT || f->kind == MF_MESSAGE_BYE || f->kind == MF_MESSAGE_ASK ||
           f->kind == MF_MESSAGE_ANSWER || f->kind == MF_MESSAGE_STATE;
}

/* ---- net_inbox.c, net_open.c: what the transport tells ---- */

extern const mf_inbox_kind mf_net_inbox;
void mf_message_free(message *m);
const char *mf_net_greeting(mf_inbox *in, const char *address);
mf_status mf_net_hello(mf_inbox *in, const char *text, int *peer);
void mf_net_refused(mf_inbox *in);
void mf_net_ready(mf_inbox *in, int peer);

/* We are connected with it, or shall be. */
static inline bool mf_net_meets(const mf_net *n, int task)
{
    return !n->star || n->self == n->hub || task == n->hub;
}

/* ---- net.c: receiving in two halves, so that bytes can come while we send ---- */

/* w: frame (its size too), from, data and what are set. Messages with the same key come to waiters
 * in the order of these. Every waiter is finished, come what may. */
void mf_net_post(mf_net *n, mf_net_waiter *w);
MF_MUST mf_status mf_net_finish(mf_net *n, mf_net_waiter *w, int64_t deadline_ns);
/* It is not wanted any more. */
void mf_net_unpost(mf_net *n, mf_net_waiter *w);
/* Drop what has come for a group and was not asked for. */
void mf_net_forget(mf_net *n, uint32_t group);

/* ---- net_status_report.c ---- */

/* With the lock held: it is time for mf_net_tell(), which wants it free. */
bool mf_net_is_untold(mf_net *n);

/* ---- net_failure_detection.c ---- */

/* With the lock held: the thread's error becomes that of all who wait here. */
void mf_net_record_failure(mf_net *n, mf_status st);
/* The same: MF_OK as long as nothing is wrong with this task, or with all. */
MF_MUST mf_status mf_net_why_not(const mf_net *n, int task);
/* Without it: those who wait elsewhere shall look around; for a question only those who want to. */
void mf_net_notify_watches(mf_net *n, bool question);
/* With the lock held, which is let go meanwhile: tell those who asked that we wait for `task`.
 * Nothing is sent to `but` (-1: to all). */
void mf_net_answer(mf_net *n, int task, int but);
/* The same: look for the one to blame, once the deadline is near. True: it is time to give up, and
 * the suspect is to blame. */
bool mf_net_suspect(mf_net *n, mf_suspect *s, int64_t deadline_ns);
/* When to look again. */
int64_t mf_net_next_look(int64_t deadline_ns);
/* "worker 2 did not send the gradients of step 7; worker 0 waited 3.0 s" or, if it waits itself,
 * who it waits for. verb: "send". */
mf_status mf_net_blame(const mf_net *n, const mf_suspect *s, int waited_for, const char *verb,
                       const char *what, int64_t step, int64_t since);

/* "cannot send to worker 2 at 127.0.0.1:2222: ", until the thread's next. */
const char *mf_net_sentence(const mf_net *n, const char *before, int task);

#endif
