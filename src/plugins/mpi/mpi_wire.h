/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_wire.h - the inside of the transport `mpi`.
 *
 * Tasks are ranks: nobody listens, and a connection is a greeting and its answer. A frame is a
 * message with its head and, if it is small, its bytes; more bytes follow in pieces, which are
 * received in place. An empty message ends the connection.
 *
 * What is sent is copied first: MPI cannot take a send back, so the caller's memory could not be
 * returned when the deadline has passed.
 *
 * One lock goes around all calls of MPI, none of which waits. A thread of ours polls, quickly while
 * something happens and more and more slowly while nothing does: MPI has nothing to sleep on, and
 * on a busy machine a thread that spins takes the time of those that compute. */
#ifndef MF_MPI_MPI_WIRE_H
#define MF_MPI_MPI_WIRE_H

#include "net/transport.h"

#include <mpi.h>
#include <pthread.h>

enum {
    HELLO_MAX = 16 << 10,
    SMALL = 8 << 10, /* bytes that come with the head */
    PIECE = 1 << 20,
    WINDOW = 4, /* pieces under way, per peer and direction */
    TAG_HELLO = 1,
    TAG_ANSWER,
    TAG_FRAME,
    TAG_DATA,
};

/* A message of ours that MPI has not finished with. */
typedef struct outgoing {
    MPI_Request request;
    char *bytes; /* PIECE of them, from the first use on */
} outgoing;

typedef struct mpi_peer {
    /* sending: whoever has `sending` */
    pthread_mutex_t lock; /* sending, dead */
    pthread_cond_t changed;
    bool sending;
    bool dead;
    outgoing out[WINDOW]; /* used in turn; requests guarded by the wire's lock */
    int next_out;
    /* receiving: the thread's */
    bool open; /* frames may come */
    char *first; /* room for a head and a small frame */
    mf_frame frame;
    char *data; /* of a frame that comes in pieces; NULL: none is coming */
    size_t asked, have; /* bytes for which pieces were asked, which are there */
} mpi_peer;

typedef struct mpi_wire {
    mf_transport base;
    mf_inbox *inbox;
    int self, n_peers;
    char address[64];
    const char *hello; /* the inbox's */
    MPI_Comm comm;
    bool ours; /* MPI was started by us, and is to be finished */
    mpi_peer *peers;
    char *greeting; /* HELLO_MAX: the next one comes here */
    MPI_Request *coming; /* [0]: greeting; then WINDOW for each peer. Guarded by lock */
    MPI_Status *statuses;
    int *indices;
    pthread_mutex_t lock; /* calls of MPI, and all below */
    unsigned char *wanted; /* by peer: WANT_* */
    bool closing;
    pthread_t thread;
    bool has_thread;
} mpi_wire;

enum { WANT_OPEN = 1, WANT_DROP = 2 };

/* ---- send.c ---- */

/* One message to a peer, when the window has room. */
MF_MUST mf_status wire_post(mpi_wire *t, int peer, int tag, const void *a, size_t n_a,
                            const void *b, size_t n_b, int64_t deadline_ns, const mf_frame *f);
MF_MUST mf_status wire_send(mpi_wire *t, int peer, const mf_frame *f, const char *data,
                            int64_t deadline_ns);
/* All that was sent has left. False: not by then. */
bool wire_flush(mpi_wire *t, int64_t deadline_ns);

/* ---- receive.c ---- */

void *wire_poll(void *arg); /* the thread */
/* Ask for the next greeting, and for the next frame of a peer. */
void wire_await_greeting(mpi_wire *t);

MF_MUST mf_status wire_error(int code, const char *what);
/* Sleeps a little longer each time it is called in a row. */
void wire_pause(int *idle);

#endif
