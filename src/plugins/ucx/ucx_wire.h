/* SPDX-License-Identifier: Apache-2.0 */
/* ucx_wire.h - the inside of the transport `ucx`.
 *
 * Two tasks have one endpoint of UCX with each other. A frame is an active message: its header is
 * the frame's head; a small frame's bytes come with it, those of a large one are fetched to where
 * the inbox says. Of each connection one frame is under way at a time, so their order is kept.
 *
 * One lock goes around all calls of UCX, and what UCX calls back runs under it: it only notes what
 * has happened. A thread sleeps until UCX has work, lets it work, and then tells the inbox, without
 * the lock. */
#ifndef MF_UCX_UCX_WIRE_H
#define MF_UCX_UCX_WIRE_H

#include "net/transport.h"
#include "plugins/common/tcp_address.h"

#include <pthread.h>
#include <ucp/api/ucp.h>

enum {
    HELLO_MAX = 16 << 10,
    SMALL = 4 << 10, /* bytes that come with the head */
    AM_HELLO = 1,
    AM_ANSWER,
    AM_FRAME,
};

typedef struct ucx_wire ucx_wire;
typedef struct conn conn;

typedef enum happening {
    EVENT_CALL,
    EVENT_HELLO,
    EVENT_ANSWER,
    EVENT_FRAME,
    EVENT_FETCHED,
    EVENT_GONE,
} happening;

/* What UCX has told, in order. */
typedef struct event {
    happening what;
    conn *c;
    ucp_conn_request_h call; /* EVENT_CALL */
    unsigned char head[MF_FRAME_BYTES]; /* EVENT_FRAME */
    void *desc; /* what is to be fetched; NULL: the bytes are here */
    ucs_status_t status; /* EVENT_FETCHED, EVENT_GONE */
    struct event *next;
    size_t size;
    char bytes[]; /* with a zero behind */
} event;

/* Lives until the transport is closed. */
struct conn {
    ucx_wire *t;
    ucp_ep_h ep; /* NULL: closed */
    int peer; /* -1: not known */
    struct conn *next;
    /* the wire's lock */
    bool sending; /* somebody is at it */
    bool dead; /* nothing is sent any more */
    const mf_endpoint *called; /* by connect(), which waits for the answer; else NULL */
    int wanted; /* the peer that is expected there */
    bool answered;
    mf_error answer; /* MF_OK: welcome */
    char why[160];
    /* the thread's */
    mf_frame frame; /* that is being fetched */
    bool fetching;
    bool over, told;
};

/* Somebody who waits for a request. On its stack. */
typedef struct waiting {
    ucx_wire *t;
    bool done;
    ucs_status_t status;
} waiting;

struct ucx_wire {
    mf_transport base;
    mf_inbox *inbox;
    int n_peers;
    mf_security security;
    mf_endpoint at;
    char address[MF_ADDRESS_MAX];
    const char *hello; /* the inbox's */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_listener_h listener;
    int efd;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* calls of UCX, and all below */
    pthread_cond_t changed;
    conn **by_peer;
    conn *all;
    event *first, **last;
    bool closing;
};

/* ---- ucx_worker.c ---- */

MF_MUST mf_status wire_error(ucs_status_t st, const char *what);
/* Context, worker and listener. */
MF_MUST mf_status worker_open(ucx_wire *t);
void worker_close(ucx_wire *t);
/* Adds what has happened; under the lock. False: no memory. */
bool worker_note(ucx_wire *t, happening what, conn *c, const void *bytes, size_t size, event **out);
/* Notes that UCX has something to do, which the thread may sleep through. Under the lock. */
void worker_wake(ucx_wire *t);
/* The endpoint of a connection, to `there` or by somebody's call. Under the lock. */
MF_MUST mf_status worker_connect(conn *c, const mf_endpoint *there, ucp_conn_request_h call);
/* Closes it; force: at once, and everything that is under way fails. Under the lock. */
void worker_disconnect(conn *c, bool force);

/* ---- ucx_frames.c ---- */

/* One message, and until it is out. Takes the lock. */
MF_MUST mf_status conn_send(conn *c, unsigned id, const void *head, size_t n_head, const void *data,
                            size_t n, int64_t deadline_ns, const mf_frame *f);
void *wire_run(void *arg); /* the thread */
conn *conn_new(ucx_wire *t);

#endif
