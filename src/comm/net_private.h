/* SPDX-License-Identifier: Apache-2.0 */
/* net_private.h - the inside of a net; shared by net.c and net_open.c. */
#ifndef MF_COMM_NET_PRIVATE_H
#define MF_COMM_NET_PRIVATE_H

#include "comm/net.h"

#include <pthread.h>

/* Somebody who waits for a message; lives on its stack. */
typedef struct waiter {
    mf_frame frame;
    void *data; /* where the bytes go; NULL: any size, any place */
    bool busy; /* they are being written */
    bool done; /* they are there */
    const char *what;
    int64_t since, say_at;
    struct waiter *next;
} waiter;

/* One that came before it was asked for. */
typedef struct message {
    mf_frame frame;
    char *data; /* with a zero behind */
    struct message *next;
} message;

typedef struct mf_peer {
    char *name, *address, *host; /* host: which machine it runs on, as it says itself */
    int64_t pid;
    bool here; /* we have met */
    bool gone; /* its connection is over */
    bool left; /* it has said good-bye */
    mf_error why; /* it is gone */
    message *arrived;
    waiter *waiters;
    message *coming; /* of the transport's thread, until it is whole */
    waiter *coming_to; /* or it goes here */
    int64_t unclaimed; /* bytes of arrived and coming */
    int64_t sent; /* bytes */
} mf_peer;

struct mf_net {
    mf_inbox inbox; /* first */
    pthread_mutex_t lock; /* all below but what never changes */
    pthread_cond_t changed;
    mf_peer *peers;
    int n_tasks, self;
    uint32_t epoch;
    char *identity, *hello;
    mf_transport *transport;
    mf_error trouble; /* the first: somebody is gone, or has given up */
    bool aborted, closing;
    void (*on_trouble)(void *ctx);
    void *on_trouble_ctx;
    mf_net_serve_fn *serve;
    void *serve_ctx;
};

extern const mf_inbox_kind mf_net_inbox;
mf_status mf_net_hello(mf_inbox *in, const char *text, int *peer);
/* "cannot send to worker 2 at 127.0.0.1:2222: ", until the thread's next. */
const char *mf_net_sentence(const mf_net *n, const char *before, int task);

#endif
