/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - the transport interface: moves messages between the tasks of a job.
 * Implementations: uds_transport.c between processes of a host, and plugins.
 *
 * A transport moves frames: a small fixed header and the bytes that follow. It does not match
 * messages, and waits only for its peer. The inbox determines the receiver of a frame and the
 * memory for its bytes. */
#ifndef MF_NET_TRANSPORT_H
#define MF_NET_TRANSPORT_H

#include "base/status.h"

/* The header of a message. Messages with the same key arrive in the order in which they were sent.
 */
typedef struct mf_frame {
    uint16_t kind; /* mf_message */
    uint16_t flags;
    uint32_t epoch; /* of the membership view: earlier ones are dropped, later ones are kept */
    uint32_t group, seq; /* key: group, and number of the call in that group */
    int64_t step;
    uint64_t size; /* bytes after the header */
    uint32_t crc; /* CRC-32C of these bytes */
} mf_frame;

enum {
    MF_FRAME_BYTES = 48, /* header bytes on the wire */
    MF_FRAME_MAX = 1 << 30, /* maximum number of bytes after a header: longer messages are split */
};

/* Encode and decode a header; false: the bytes are not a header. */
void mf_frame_write(const mf_frame *f, unsigned char bytes[MF_FRAME_BYTES]);
bool mf_frame_read(const unsigned char bytes[MF_FRAME_BYTES], mf_frame *f);

/* Callbacks of a transport. Thread: any, but one at a time per peer. */
typedef struct mf_inbox mf_inbox;
typedef struct mf_inbox_kind {
    /* The transport listens at this address: returns the greeting for both directions. Called once,
     * by open(). NULL: do not open (the error says why). Owns: the inbox owns it until the
     * transport is closed. */
    const char *(*greeting)(mf_inbox *in, const char *address);
    /* A peer connected with this greeting. *peer: its number. On failure the peer is sent the
     * message and disconnected. */
    mf_status (*hello)(mf_inbox *in, const char *text, int *peer);
    /* A peer that hello() refused has been sent the message. */
    void (*refused)(mf_inbox *in);
    /* Greetings were exchanged: frames can be sent to it from now on. */
    void (*ready)(mf_inbox *in, int peer);
    /* A frame arrives: returns the memory for its bytes. NULL: close the connection (the error says
     * why). */
    void *(*begin)(mf_inbox *in, int peer, const mf_frame *f);
    /* The bytes are complete. */
    void (*end)(mf_inbox *in, int peer, const mf_frame *f);
    /* A send of this frame is blocked because the peer does not read: called repeatedly. On failure
     * the send is abandoned. */
    mf_status (*waits)(mf_inbox *in, int peer, const mf_frame *f);
    /* The connection has ended, possibly between begin() and end(). */
    void (*gone)(mf_inbox *in, int peer, const char *why);
} mf_inbox_kind;
struct mf_inbox {
    const mf_inbox_kind *kind;
};

typedef struct mf_transport mf_transport;

/* Access control of a transport that reaches other hosts. Without any of it, it listens on loopback
 * addresses only. */
typedef struct mf_security {
    const char *ca, *cert, *key; /* PEM files for mutual TLS; or NULL */
    bool insecure_any_peer; /* no TLS; accept any peer */
    bool trusted; /* the network is trusted: for transports that do not encrypt */
} mf_security;

typedef struct mf_transport_options {
    mf_inbox *inbox;
    int self, n_peers; /* peers have the numbers of their tasks */
    const char *address; /* where to listen: "host:port"; port 0: any */
    const char *meet; /* if address is NULL: listen on an interface from which this address is
                         reachable */
    mf_security security;
} mf_transport_options;

typedef struct mf_transport_kind {
    const char *name, *about;
    bool knows_peers; /* finds peers by number: addresses are informative only */
    /* Listens on return. Owns: borrows the options, copies what it keeps. */
    mf_status (*open)(const mf_transport_options *o, mf_transport **out);
    /* Where it listens. */
    const char *(*address)(const mf_transport *t);
    /* One attempt. Fails: UNAVAILABLE (the peer is not up yet), DEADLINE_EXCEEDED (no response in
     * time, or no route); other failures are permanent. */
    mf_status (*connect)(mf_transport *t, int peer, const char *address, int64_t deadline_ns);
    /* Returns when the memory may be reused. Fails: UNAVAILABLE (the peer is lost),
     * DEADLINE_EXCEEDED. Thread: any. */
    mf_status (*send)(mf_transport *t, int peer, const mf_frame *f, const void *data,
                      int64_t deadline_ns);
    /* Closes the connection with a peer: gone() is called soon, unless it was already. */
    void (*drop)(mf_transport *t, int peer);
    /* Closes all connections; the inbox is not called any more after the return. */
    void (*close)(mf_transport *t);
    /* If mf_transport.polls > 0. poll(): the calling thread reads what has arrived, except
     * requests, and does not wait; meanwhile the transport's own thread rests. Returns true if it
     * read something. send() polls, too, while the peer does not read. end_poll(): the caller stops
     * polling, and may sleep: the transport's own thread reads again. Thread: any that holds no
     * lock which the inbox acquires. */
    bool (*poll)(mf_transport *t);
    void (*end_poll)(mf_transport *t);
} mf_transport_kind;

enum { MF_TRANSPORT_POLLS_LEAST = 4 }; /* polls before a sleep, however many have been useless */
struct mf_transport {
    const mf_transport_kind *kind;
    int64_t polls; /* maximum number of polls before a sleep; 0: poll() is not offered */
};

extern const mf_transport_kind mf_transport_local; /* uds_transport.c */

#endif
