/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - moving messages between the tasks of a job: the interface that ways of doing it
 * implement (uds_transport.c between processes of a host; others are plugins).
 *
 * A transport moves frames: a small fixed head and bytes behind it. It matches nothing and waits
 * for nothing but its peer. Whom a frame is for and where its bytes go is asked of the inbox. */
#ifndef MF_NET_TRANSPORT_H
#define MF_NET_TRANSPORT_H

#include "base/status.h"

/* What a message is about. Those with the same key arrive in the order in which they were sent. */
typedef struct mf_frame {
    uint16_t kind; /* mf_message */
    uint16_t flags;
    uint32_t epoch; /* of the membership: earlier ones are dropped, later ones are kept */
    uint32_t group, seq; /* which call of which group */
    int64_t step;
    uint64_t size; /* bytes behind the head */
    uint32_t crc; /* CRC-32C of these */
} mf_frame;

enum {
    MF_FRAME_BYTES = 48, /* on the wire */
    MF_FRAME_MAX = 1 << 30, /* bytes behind a head: longer messages are cut */
};

/* On the wire; false: the bytes are no head. */
void mf_frame_write(const mf_frame *f, unsigned char bytes[MF_FRAME_BYTES]);
bool mf_frame_read(const unsigned char bytes[MF_FRAME_BYTES], mf_frame *f);

/* What a transport tells. Thread: any, but for one peer one at a time. */
typedef struct mf_inbox mf_inbox;
typedef struct mf_inbox_kind {
    /* It listens at this address: what is to be said to those we connect to, and to those who
     * connect to us? Asked once, by open(). NULL: do not open (the error says why). Owns: the
     * inbox's, until the transport is closed. */
    const char *(*greeting)(mf_inbox *in, const char *address);
    /* A connection was made with somebody who says this. *peer: who that is. Fails: whoever it is
     * is to be told the message and sent away. */
    mf_status (*hello)(mf_inbox *in, const char *text, int *peer);
    /* A peer that connected and was sent away by hello() has been told the message. */
    void (*refused)(mf_inbox *in);
    /* Greetings are exchanged: frames can be sent to it from now on. */
    void (*ready)(mf_inbox *in, int peer);
    /* A frame is coming: where do its bytes go? NULL: nowhere, close the connection (the error says
     * why). */
    void *(*begin)(mf_inbox *in, int peer, const mf_frame *f);
    /* They are there. */
    void (*end)(mf_inbox *in, int peer, const mf_frame *f);
    /* A send of this frame waits for the peer to read: asked now and then. Fails: give it up. */
    mf_status (*waits)(mf_inbox *in, int peer, const mf_frame *f);
    /* The connection is over. begin() without end() was the last. */
    void (*gone)(mf_inbox *in, int peer, const char *why);
} mf_inbox_kind;
struct mf_inbox {
    const mf_inbox_kind *kind;
};

typedef struct mf_transport mf_transport;

/* Whom a transport that reaches other hosts lets in. Without any of this it listens on loopback
 * addresses only. */
typedef struct mf_security {
    const char *ca, *cert, *key; /* PEM files: TLS, and both sides show certificates; or NULL */
    bool insecure_any_peer; /* no TLS, and whoever comes is let in */
    bool trusted; /* this network is ours: for transports that do not encrypt */
} mf_security;

typedef struct mf_transport_options {
    mf_inbox *inbox;
    int self, n_peers; /* peers are numbered as tasks are */
    const char *address; /* where to listen: "host:port"; port 0: any */
    const char *meet; /* if address is NULL: listen where those who know this one can reach us */
    mf_security security;
} mf_transport_options;

typedef struct mf_transport_kind {
    const char *name, *about;
    bool knows_peers; /* finds them by their numbers: addresses are only words */
    /* Listens from now on. Owns: borrows the options, copies what it keeps. */
    mf_status (*open)(const mf_transport_options *o, mf_transport **out);
    /* Where it listens. */
    const char *(*address)(const mf_transport *t);
    /* One try. UNAVAILABLE: nobody is there yet; DEADLINE_EXCEEDED: there was no answer at all, in
     * time or because there is no way there; others: trying again is no use. */
    mf_status (*connect)(mf_transport *t, int peer, const char *address, int64_t deadline_ns);
    /* Returns when the bytes may be used again. UNAVAILABLE: the peer is gone; DEADLINE_EXCEEDED.
     * Thread: any. */
    mf_status (*send)(mf_transport *t, int peer, const mf_frame *f, const void *data,
                      int64_t deadline_ns);
    /* Ends the connection with a peer: gone() is told soon, if it was not yet. */
    void (*drop)(mf_transport *t, int peer);
    /* Ends all connections; nothing is told to the inbox any more when it returns. */
    void (*close)(mf_transport *t);
} mf_transport_kind;

struct mf_transport {
    const mf_transport_kind *kind;
};

extern const mf_transport_kind mf_transport_local; /* uds_transport.c */

#endif
