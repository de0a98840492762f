/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - the connected tasks of a job.
 *
 * Every task listens before any task waits; of two tasks the later one connects. On connection both
 * sides compare what must be equal (program, numerics, job); a difference is refused with an error
 * that names both sides. A long wait is reported with the task waited for, its address, the reason
 * and the duration.
 *
 * Messages are received by key (mf_frame). Every wait has a deadline, and fails at once if the peer
 * is lost, or if a task has aborted (mf_net_abort) and sent its reason. */
#ifndef MF_NET_NET_H
#define MF_NET_NET_H

#include "base/buf.h"
#include "net/transport.h"

typedef struct mf_net mf_net;

typedef enum mf_message {
    MF_MESSAGE_ABORT = 1, /* the sender aborts; its reason */
    MF_MESSAGE_BYE, /* the sender is done and leaves */
    MF_MESSAGE_COLLECTIVE,
    MF_MESSAGE_REQUEST, /* a request, see mf_net_serve() */
    MF_MESSAGE_REPLY,
    MF_MESSAGE_READY, /* ready to receive a long message of a collective */
    MF_MESSAGE_ASK, /* query: which task do you wait for? */
    MF_MESSAGE_ANSWER, /* the reply: the task in `step` */
    MF_MESSAGE_STATE, /* the sender's status page (observe/status_page.h) */
} mf_message;

/* A message of a collective: its sender and its receiver wait for each other. */
static inline bool mf_net_is_collective(const mf_frame *f)
{
    return f->kind == MF_MESSAGE_COLLECTIVE || f->kind == MF_MESSAGE_READY;
}

/* The task to blame for a wait that fails. The peer may itself wait for another task. */
typedef struct mf_suspect {
    int task; /* task queried last; initially the peer */
    int hops; /* number of referrals */
    int64_t asked; /* time of the query; 0: not yet */
} mf_suspect;

typedef struct mf_net_task {
    const char *name; /* "worker 2" */
    const char *address; /* NULL: unknown; task 0 sends it */
} mf_net_task;

typedef struct mf_net_options {
    const mf_net_task *tasks;
    int n_tasks, self;
    const char *rendezvous; /* address of task 0, if addresses are unknown */
    /* "name=value" lines that must be equal on all tasks. */
    const char *identity;
    const char *note; /* one line for every connected task: mf_net_note(); NULL: "" */
    const mf_transport_kind *transport; /* NULL: local */
    mf_security security; /* fields that are NULL are taken from the environment */
    int64_t timeout_ns; /* for all tasks to connect; 0: five minutes */
    /* For a task that does not respond at all; 0: timeout_ns. */
    int64_t silence_ns;
    int *missing; /* tasks that did not connect, if it fails with DEADLINE_EXCEEDED; NULL: not
                     wanted */
    /* Tasks connect only within one epoch: a task in an earlier epoch is waited for; a task in a
     * later one makes this task fail with ABORTED. */
    uint32_t epoch;
    /* Called repeatedly while waiting for connections; a failure ends the wait. NULL: wait until
     * the timeout. */
    mf_status (*check)(void *ctx);
    void *check_ctx;
    /* Only the task `hub` is connected with all others, and connections fail independently: the
     * loss of one does not affect the others; mf_net_check_task() reports it. */
    bool star;
    int hub; /* task 0 if addresses are unknown */
    /* Tasks with the same value share memory. NULL: detected. For tests, and for tasks of one
     * machine that should communicate like tasks of several machines. */
    const char *host;
} mf_net_options;

/* Returns when all tasks are connected. Fails: DEADLINE_EXCEEDED naming the tasks that did not
 * connect, FAILED_PRECONDITION naming the difference, ALREADY_EXISTS (address in use), ABORTED (a
 * later epoch has begun). */
MF_MUST mf_status mf_net_open(const mf_net_options *o, mf_net **out);
/* Lines "name=value" in which a and b differ, as text; empty if they are equal. */
void mf_net_differences(const char *a, const char *who_a, const char *b, const char *who_b,
                        mf_buf *out);
/* Announces the end and frees the net. Tasks that still wait for this one fail with a message that
 * it has left. */
void mf_net_close(mf_net *net);

/* This task is lost: nothing is sent to it or awaited from it any more. */
void mf_net_drop(mf_net *net, int task);

int mf_net_self(const mf_net *net);
uint32_t mf_net_epoch(const mf_net *net); /* for frames: those of earlier epochs are dropped */
const char *mf_net_name(const mf_net *net, int task);
int mf_net_tasks(const mf_net *net);
/* The note of a connected task, not of this one; NULL: it is not connected with this task. */
const char *mf_net_note(const mf_net *net, int task);

/* Bytes sent to tasks on other hosts. */
int64_t mf_net_sent_remote(mf_net *net);
/* Can these two share memory, according to their greetings? */
bool mf_net_same_host(const mf_net *net, int a, int b);

/* Thread: any. */
MF_MUST mf_status mf_net_send(mf_net *net, int to, const mf_frame *f, const void *data,
                              int64_t deadline_ns);
/* Receives exactly f->size bytes of a message with the key of f. Fails: INVALID_ARGUMENT (it has
 * another size). `what` is for error messages: "the gradients". */
MF_MUST mf_status mf_net_recv(mf_net *net, int from, const mf_frame *f, void *data,
                              int64_t deadline_ns, const char *what);
/* Receives a message of unknown size. Owns: the caller calls mf_free(*data). */
MF_MUST mf_status mf_net_take(mf_net *net, int from, const mf_frame *f, void **data, size_t *size,
                              int64_t deadline_ns, const char *what);

/* Retransmission of a request that may have been lost, or whose reply may: without a reply it is
 * sent again after `after_ns`, then after twice that time, and so on. The server must process it
 * once. */
typedef struct mf_net_retry {
    const mf_frame *frame;
    const void *data;
    int64_t after_ns;
    int64_t *times; /* counts retransmissions; NULL: not wanted */
} mf_net_retry;
/* mf_net_take() of the reply to a request that was sent. Late replies to earlier requests of the
 * same group are dropped. */
MF_MUST mf_status mf_net_take_with_retry(mf_net *net, int from, const mf_frame *f,
                                         const mf_net_retry *again, void **data, size_t *size,
                                         int64_t deadline_ns, const char *what);

/* Abort with the thread's error and broadcast it: all waits, on this task and on others, fail with
 * ABORTED and that message. The thread's error is preserved. */
void mf_net_abort(mf_net *net, mf_status why);
/* MF_OK as long as all tasks are connected and none has aborted. */
MF_MUST mf_status mf_net_check(mf_net *net);
/* The same for one task of a star: it is connected, and has neither left nor aborted. */
MF_MUST mf_status mf_net_check_task(mf_net *net, int task);

/* Report this task's status to task 0, if that is on another host and the last report is more than
 * a second old. Sending and waiting do this implicitly; other waits should call it. */
void mf_net_report_status(mf_net *net);

/* Called (from any thread) when a task is lost or aborts: for threads that wait outside the net. It
 * must not call the net. */
typedef struct mf_net_watch {
    void (*fn)(void *ctx);
    void *ctx;
    bool questions; /* also called for queries of other tasks and their status */
    struct mf_net_watch *next;
} mf_net_watch;
/* Owns: borrows w until mf_net_watch_remove(), after which fn is not called any more. */
void mf_net_watch_add(mf_net *net, mf_net_watch *w);
void mf_net_watch_remove(mf_net *net, mf_net_watch *w);

/* Requests are passed to fn, which takes ownership of the data, on the transport's thread: fn must
 * not wait, nor call mf_net_serve(). Requests that arrived earlier are passed first. NULL: requests
 * are kept for mf_net_take(). On return, the previous fn is not called any more. */
typedef void mf_net_serve_fn(void *ctx, int from, const mf_frame *f, void *data);
void mf_net_serve(mf_net *net, mf_net_serve_fn *fn, void *ctx);

#endif
