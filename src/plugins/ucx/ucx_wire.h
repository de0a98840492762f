/* SPDX-License-Identifier: Apache-2.0 */
/* ucx_wire.h - internals of the transport `ucx`.
 *
 * Each pair of tasks has one UCX endpoint. A frame is an active message: its header is the frame's
 * header; the bytes of a small frame are sent with it, those of a large one are fetched into the
 * memory that the inbox provides. Each connection has one frame in flight at a time, which
 * preserves the order.
 *
 * One lock guards all calls of UCX, and UCX's callbacks run under it: they only record events. A
 * thread sleeps until UCX has work, drives it, and then calls the inbox, without the lock. */
#ifndef MF_UCX_UCX_WIRE_H
#define MF_UCX_UCX_WIRE_H

#include "net/transport.h"
#include "plugins/common/tcp_address.h"

#include <pthread.h>
#include <ucp/api/ucp.h>

enum {
    HELLO_MAX = 16 << 10,
    SMALL = 4 << 10, /* bytes sent with the header */
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

/* Events recorded by callbacks, in order. */
typedef struct event {
    happening what;
    conn *c;
    ucp_conn_request_h call; /* EVENT_CALL */
    unsigned char head[MF_FRAME_BYTES]; /* EVENT_FRAME */
    void *desc; /* data to be fetched; NULL: the bytes are in the event */
    ucs_status_t status; /* EVENT_FETCHED, EVENT_GONE */
    struct event *next;
    size_t size;
    char bytes[]; /* NUL-terminated */
} event;

/* Valid until the transport is closed. */
struct conn {
    ucx_wire *t;
    ucp_ep_h ep; /* NULL: closed */
    int peer; /* -1: unknown */
    struct conn *next;
    /* guarded by the wire's lock */
    bool sending; /* a thread is sending */
    bool dead; /* nothing is sent any more */
    const mf_endpoint *called; /* set by connect(), which waits for the answer; else NULL */
    int wanted; /* the peer that is expected there */
    bool answered;
    mf_error answer; /* MF_OK: accepted */
    char why[160];
    /* for the receiving thread */
    mf_frame frame; /* being fetched */
    bool fetching;
    bool over, notified;
};

/* A thread that waits for a request; on its stack. */
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
    const char *hello; /* owned by the inbox */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_listener_h listener;
    int efd;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards calls of UCX and all fields below */
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
/* Records an event; the caller holds the lock. False: no memory. */
bool worker_note(ucx_wire *t, happening what, conn *c, const void *bytes, size_t size, event **out);
/* Wakes the thread because UCX has work. The caller holds the lock. */
void worker_wake(ucx_wire *t);
/* Creates the endpoint of a connection, to `there` or for an incoming call. The caller holds the
 * lock. */
MF_MUST mf_status worker_connect(conn *c, const mf_endpoint *there, ucp_conn_request_h call);
/* Closes it; force: immediately, and everything in flight fails. The caller holds the lock. */
void worker_disconnect(conn *c, bool force);

/* ---- ucx_frames.c ---- */

/* Sends one message and waits until it was sent. Takes the lock. */
MF_MUST mf_status conn_send(conn *c, unsigned id, const void *head, size_t n_head, const void *data,
                            size_t n, int64_t deadline_ns, const mf_frame *f);
void *wire_run(void *arg); /* the receiving thread */
conn *conn_new(ucx_wire *t);

#endif
