/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_wire.h - internals of the transport `mpi`.
 *
 * Tasks are ranks: there is no listening, and a connection is a greeting and its answer. A frame is
 * a message with its header and, if it is small, its bytes; otherwise the bytes follow in pieces,
 * which are received in place. An empty message ends the connection.
 *
 * Sent data is copied first: MPI cannot cancel a send, so the caller's memory could not be returned
 * after the deadline.
 *
 * One lock guards all calls of MPI, none of which blocks. A thread polls, quickly during activity
 * and with growing pauses without it: MPI provides no way to sleep, and on a busy machine a
 * spinning thread takes processor time from computing ones. */
#ifndef MF_MPI_MPI_WIRE_H
#define MF_MPI_MPI_WIRE_H

#include "net/transport.h"

#include <mpi.h>
#include <pthread.h>

enum {
    HELLO_MAX = 16 << 10,
    SMALL = 8 << 10, /* bytes sent with the header */
    PIECE = 1 << 20,
    WINDOW = 4, /* pieces in flight, per peer and direction */
    TAG_HELLO = 1,
    TAG_ANSWER,
    TAG_FRAME,
    TAG_DATA,
};

/* A message that MPI has not completed. */
typedef struct outgoing {
    MPI_Request request;
    char *bytes; /* PIECE bytes, allocated on first use */
} outgoing;

typedef struct mpi_peer {
    /* sending: owned by the thread that holds `sending` */
    pthread_mutex_t lock; /* guards sending, dead */
    pthread_cond_t changed;
    bool sending;
    bool dead;
    outgoing out[WINDOW]; /* used in rotation; requests guarded by the wire's lock */
    int next_out;
    /* receiving: owned by the polling thread */
    bool open; /* frames may arrive */
    char *first; /* buffer for a header and a small frame */
    mf_frame frame;
    char *data; /* of a frame that arrives in pieces; NULL: none */
    size_t asked, have; /* bytes for which receives are posted; bytes received */
} mpi_peer;

typedef struct mpi_wire {
    mf_transport base;
    mf_inbox *inbox;
    int self, n_peers;
    char address[64];
    const char *hello; /* owned by the inbox */
    MPI_Comm comm;
    bool ours; /* this process initialized MPI and must finalize it */
    mpi_peer *peers;
    char *greeting; /* HELLO_MAX bytes: buffer for the next greeting */
    MPI_Request *recv_requests; /* [0]: greeting; then WINDOW for each peer. Guarded by lock */
    MPI_Status *statuses;
    int *indices;
    pthread_mutex_t lock; /* guards calls of MPI and all fields below */
    unsigned char *wanted; /* by peer: WANT_* */
    bool closing;
    pthread_t thread;
    bool has_thread;
} mpi_wire;

enum { WANT_OPEN = 1, WANT_DROP = 2 };

/* ---- send.c ---- */

/* Sends one message to a peer, when the window has a free slot. */
MF_MUST mf_status wire_post(mpi_wire *t, int peer, int tag, const void *a, size_t n_a,
                            const void *b, size_t n_b, int64_t deadline_ns, const mf_frame *f);
MF_MUST mf_status wire_send(mpi_wire *t, int peer, const mf_frame *f, const char *data,
                            int64_t deadline_ns);
/* Waits until all messages were sent. False: the deadline has passed. */
bool wire_flush(mpi_wire *t, int64_t deadline_ns);

/* ---- receive.c ---- */

void *wire_poll(void *arg); /* the polling thread */
/* Post receives for the next greeting, and for the next frame of a peer. */
void wire_await_greeting(mpi_wire *t);

MF_MUST mf_status wire_error(int code, const char *what);
/* Sleeps a little longer with each consecutive call. */
void wire_pause(int *idle);

#endif
