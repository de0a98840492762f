/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - the tasks of a job, connected with each other.
 *
 * Everybody listens before anybody waits; of two tasks the later one connects. When two meet they
 * compare what must be the same on both sides (program, numerics, job), and a difference is refused
 * with both sides named. Whoever waits for long says for whom, where, why and how long.
 *
 * Messages are received by what they are about. Every wait has a deadline, and ends at once when
 * the one waited for is gone, or when somebody has given up (mf_net_abort) and told why. */
#ifndef MF_COMM_NET_H
#define MF_COMM_NET_H

#include "comm/group.h"
#include "comm/transport.h"

typedef struct mf_net mf_net;

typedef enum mf_message {
    MF_MESSAGE_ABORT = 1, /* the sender gives up; its reason */
    MF_MESSAGE_BYE, /* the sender has done all it wanted and leaves */
    MF_MESSAGE_COLLECTIVE,
    MF_MESSAGE_REQUEST, /* to be served, see mf_net_serve() */
    MF_MESSAGE_REPLY,
} mf_message;

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
    int64_t timeout_ns; /* for all to come; 0: five minutes */
    uint32_t epoch;
} mf_net_options;

/* Returns when all are connected. Fails: DEADLINE_EXCEEDED naming who did not come,
 * FAILED_PRECONDITION naming what differs, ALREADY_EXISTS (address in use). */
MF_MUST mf_status mf_net_open(const mf_net_options *o, mf_net **out);
/* Says good-bye and frees. Others that still wait for us are told that we have left. */
void mf_net_close(mf_net *net);

int mf_net_self(const mf_net *net);
const char *mf_net_name(const mf_net *net, int task);

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

/* Give up, because of what the thread's error says, and tell everybody: all that wait, here and
 * there, fail with ABORTED and that message. */
void mf_net_abort(mf_net *net, mf_status why);
/* MF_OK as long as all are here and nobody has given up. */
MF_MUST mf_status mf_net_check(mf_net *net);
/* Called (from any thread) when somebody goes or gives up, for those who wait elsewhere. */
void mf_net_on_trouble(mf_net *net, void (*fn)(void *ctx), void *ctx);

/* Requests are handed to fn, each with the data taken over, by the transport's thread: it must not
 * wait. NULL: they are kept for mf_net_take(). */
typedef void mf_net_serve_fn(void *ctx, int from, const mf_frame *f, void *data);
void mf_net_serve(mf_net *net, mf_net_serve_fn *fn, void *ctx);

/* ---- groups of its tasks ---- */

/* How a sum is made over connections; NULL: chosen by size. For tests and benchmarks. */
typedef struct mf_algorithm {
    const char *name, *about;
    /* Can it do this? */
    bool (*fits)(const mf_group *g, const mf_reduce *r);
    mf_status (*all_reduce)(mf_group *g, const mf_reduce *r);
} mf_algorithm;
extern const mf_algorithm mf_algorithms[]; /* name NULL ends it */

/* members: tasks, ascending; one of them is this one. id tells groups apart. All members make it.
 */
MF_MUST mf_status mf_group_net(mf_net *net, const int *members, int n, uint32_t id,
                               const mf_algorithm *algorithm, mf_group **out);
/* The same in shared memory; all members are on this host. */
MF_MUST mf_status mf_group_host(mf_net *net, const int *members, int n, uint32_t id,
                                mf_group **out);

#endif
