/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - the tasks of a job, connected with each other.
 *
 * Everybody listens before anybody waits; of two tasks the later one connects. When two meet they
 * compare what must be the same on both sides (program, numerics, job), and a difference is refused
 * with both sides named. Whoever waits for long says for whom, where, why and how long.
 *
 * Messages are received by what they are about. Every wait has a deadline, and ends at once when
 * the one waited for is gone, or when somebody has given up (mf_net_abort) and told why. */
#ifndef MF_NET_NET_H
#define MF_NET_NET_H

#include "base/buf.h"
#include "net/transport.h"

typedef struct mf_net mf_net;

typedef enum mf_message {
    MF_MESSAGE_ABORT = 1, /* the sender gives up; its reason */
    MF_MESSAGE_BYE, /* the sender has done all it wanted and leaves */
    MF_MESSAGE_COLLECTIVE,
    MF_MESSAGE_REQUEST, /* to be served, see mf_net_serve() */
    MF_MESSAGE_REPLY,
    MF_MESSAGE_READY, /* to receive a long message of a collective */
    MF_MESSAGE_ASK, /* whom do you wait for? */
    MF_MESSAGE_ANSWER, /* for the task in `step` */
    MF_MESSAGE_STATE, /* the sender's board (observe/status_page.h) */
} mf_message;

/* Who is to blame when a wait ends in vain? The one waited for may itself wait for somebody. */
typedef struct mf_suspect {
    int task; /* asked last; at first the one waited for */
    int hops; /* how often we were sent on */
    int64_t asked; /* when; 0: not yet */
} mf_suspect;

typedef struct mf_net_task {
    const char *name; /* "worker 2" */
    const char *address; /* NULL: not known, task 0 will tell */
} mf_net_task;

typedef struct mf_net_options {
    const mf_net_task *tasks;
    int n_tasks, self;
    const char *rendezvous; /* where task 0 listens, if addresses are not known */
    /* "name=value" lines that all tasks must agree on. */
    const char *identity;
    const mf_transport_kind *transport; /* NULL: local */
    mf_security security; /* what is NULL is taken from the environment */
    int64_t timeout_ns; /* for all to come; 0: five minutes */
    /* For one that does not answer at all, not even that it is not ready; 0: the same. */
    int64_t silence_ns;
    int *missing; /* who did not come, where it fails with DEADLINE_EXCEEDED; NULL: unwanted */
    /* Tasks meet those of the same epoch only: one that is in an earlier one is waited for, one
     * that is in a later one makes us fail with ABORTED. */
    uint32_t epoch;
    /* Is it still worth waiting for all to come? Asked while we do; fails: no. NULL: until the
     * timeout. */
    mf_status (*check)(void *ctx);
    void *check_ctx;
    /* Only the task `hub` is connected with all others, and every connection stands for itself: one
     * that ends is no trouble for the rest; mf_net_check_task() tells. */
    bool star;
    int hub; /* task 0 where addresses are not known */
    /* Tasks that say the same share memory. NULL: found out. For tests, and for tasks of one
     * machine that shall talk as if they were on several. */
    const char *host;
} mf_net_options;

/* Returns when all are connected. Fails: DEADLINE_EXCEEDED naming who did not come,
 * FAILED_PRECONDITION naming what differs, ALREADY_EXISTS (address in use), ABORTED (a later epoch
 * has begun). */
MF_MUST mf_status mf_net_open(const mf_net_options *o, mf_net **out);
/* Lines "name=value" that a and b do not have in common, as text: nothing if there are none. */
void mf_net_differences(const char *a, const char *who_a, const char *b, const char *who_b,
                        mf_buf *out);
/* Says good-bye and frees. Others that still wait for us are told that we have left. */
void mf_net_close(mf_net *net);

/* This one is lost: nothing is told to it any more, or waited for. */
void mf_net_drop(mf_net *net, int task);

int mf_net_self(const mf_net *net);
uint32_t
mf_net_epoch(const mf_net *net); /* frames are to have it: those of earlier ones are dropped */
const char *mf_net_name(const mf_net *net, int task);

/* Bytes that were sent to tasks of other hosts. */
int64_t mf_net_sent_away(mf_net *net);
/* Can these two share memory, by what they have said? */
bool mf_net_same_host(const mf_net *net, int a, int b);

/* Thread: any. */
MF_MUST mf_status mf_net_send(mf_net *net, int to, const mf_frame *f, const void *data,
                              int64_t deadline_ns);
/* Exactly f->size bytes of a message like f. INVALID_ARGUMENT: it had another size. `what` is for
 * messages: "the gradients". */
MF_MUST mf_status mf_net_recv(mf_net *net, int from, const mf_frame *f, void *data,
                              int64_t deadline_ns, const char *what);
/* A message of unknown size. Owns: mf_free(*data). */
MF_MUST mf_status mf_net_take(mf_net *net, int from, const mf_frame *f, void **data, size_t *size,
                              int64_t deadline_ns, const char *what);

/* A request that may have been lost, or its reply: while no reply comes it is sent again, after
 * `after_ns`, then after twice as long, and so on. Who serves it must do it once. */
typedef struct mf_net_again {
    const mf_frame *frame;
    const void *data;
    int64_t after_ns;
    int64_t *times; /* counts how often it was; NULL: unwanted */
} mf_net_again;
/* mf_net_take() of the reply to a request that was sent. Replies to earlier ones of the same group
 * that have come late are dropped. */
MF_MUST mf_status mf_net_take_again(mf_net *net, int from, const mf_frame *f,
                                    const mf_net_again *again, void **data, size_t *size,
                                    int64_t deadline_ns, const char *what);

/* Give up, because of what the thread's error says, and tell everybody: all that wait, here and
 * there, fail with ABORTED and that message. The thread's error stays what it is. */
void mf_net_abort(mf_net *net, mf_status why);
/* MF_OK as long as all are here and nobody has given up. */
MF_MUST mf_status mf_net_check(mf_net *net);
/* The same for one task of a star: it is here, and has neither left nor given up. */
MF_MUST mf_status mf_net_check_task(mf_net *net, int task);

/* Let task 0 know what we do, if it is on another host and has not heard of us for a second.
 * Sending and waiting do so by themselves; who waits elsewhere may. */
void mf_net_tell(mf_net *net);

/* Called (from any thread) when somebody goes or gives up: for those who wait elsewhere. It must
 * not call the net. */
typedef struct mf_net_watch {
    void (*fn)(void *ctx);
    void *ctx;
    bool questions; /* also when somebody asks whom we wait for, or tells how it is */
    struct mf_net_watch *next;
} mf_net_watch;
/* Owns: borrows w until mf_net_watch_remove(), after which fn is not called any more. */
void mf_net_watch_add(mf_net *net, mf_net_watch *w);
void mf_net_watch_remove(mf_net *net, mf_net_watch *w);

/* Requests are handed to fn, each with the data taken over, by the transport's thread: it must not
 * wait, nor call mf_net_serve(). Those that have come already are handed to it first. NULL: they
 * are kept for mf_net_take(). After the return, the fn before is not called any more. */
typedef void mf_net_serve_fn(void *ctx, int from, const mf_frame *f, void *data);
void mf_net_serve(mf_net *net, mf_net_serve_fn *fn, void *ctx);

#endif
