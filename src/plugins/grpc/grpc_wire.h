/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_wire.h - internals of the transport `grpc`.
 *
 * Each pair of tasks has one bidirectional streaming call on a connection of its own. The first
 * message in each direction is the greeting or the answer to it; after it, messages form a byte
 * stream of consecutive frames, and message boundaries have no meaning.
 *
 * One thread handles all completions, including reads. gRPC is never called with a stream's lock
 * held: its callbacks take that lock. */
#ifndef MF_GRPC_GRPC_WIRE_H
#define MF_GRPC_GRPC_WIRE_H

#include "net/transport.h"
#include "plugins/common/network_trust.h"
#include "plugins/common/reading.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>

enum {
    HELLO_MAX = 16 << 10,
    PIECE = 1 << 20, /* bytes passed to gRPC at once */
    SMALL = 16 << 10, /* frames up to this size are copied, so that senders need not wait */
    PENDING_MAX = 64, /* parts that can be pending */
    MESSAGE_MAX = 4 << 20, /* maximum size of a received message */
};
#define MF_GRPC_METHOD "/meshflow.Transport/Connect"

typedef struct grpc_wire grpc_wire;
typedef struct stream stream;

/* Identifies a completion. */
typedef struct tag {
    void (*done)(stream *s, bool ok);
    stream *s;
} tag;

typedef enum stream_state {
    AWAIT_GREETING, /* incoming call: wait for the peer's greeting */
    AWAIT_ANSWER, /* outgoing call: wait for the answer */
    HAVE_ANSWER,
    FRAMES,
} stream_state;

struct stream {
    grpc_wire *t;
    int peer; /* -1: has not identified itself */
    bool refused; /* it was refused, and the reason is being sent */
    grpc_call *call; /* NULL: ended, and not used any more */
    grpc_channel *channel; /* of an outgoing call */
    int fd; /* a duplicate descriptor of its socket, see socket.c; -1: unknown */
    char seen_at[MF_ADDRESS_MAX]; /* the address of the connecting task, as its peer sees it */
    struct stream *next; /* list of all streams, guarded by the wire's lock */
    int round; /* last iteration of for_each() that visited it; or of close() */
    tag opened, sent, received, ended, closed;

    pthread_mutex_t lock; /* guards all fields below, up to `receiving` */
    pthread_cond_t changed;
    int refs; /* by_peer, users of the stream, and each pending tag */
    int uses; /* of the call: users of the stream, and each pending tag */
    grpc_slice pending[PENDING_MAX];
    int n_pending;
    size_t pending_bytes;
    grpc_byte_buffer *outgoing; /* the message being sent; NULL: none */
    bool framing; /* a sender is in the middle of a frame */
    int held; /* parts of senders' memory that gRPC still refers to */
    bool dead; /* nothing is sent any more */
    stream_state state;
    char *answer; /* HAVE_ANSWER: its text */
    mf_status answer_status;
    bool is_ended; /* the call has ended in both directions */
    bool is_closing; /* our direction was closed */

    /* for the completion thread */
    bool receiving;
    grpc_byte_buffer *incoming;
    mf_reading reading;
    bool told; /* gone() was called */
    char why[300]; /* reason of the end */
    grpc_status_code status; /* of an outgoing call */
    grpc_slice details;
    grpc_metadata_array initial, trailing;
    int cancelled; /* of an incoming call */
};

struct grpc_wire {
    mf_transport base;
    mf_inbox *inbox;
    int n_peers;
    mf_security security; /* owns its strings */
    mf_endpoint at;
    char address[MF_ADDRESS_MAX];
    const char *hello; /* owned by the inbox */
    grpc_completion_queue *queue;
    grpc_server *server;
    grpc_channel_credentials *credentials;
    pthread_t thread;
    bool has_thread;
    tag accepted, stopped;
    grpc_call *next_call; /* for the completion thread, as the two below */
    grpc_call_details details;
    grpc_metadata_array metadata;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    stream **by_peer;
    stream *all;
    bool is_stopped;
    int round; /* of close() */
    int64_t close_at;
};

/* ---- grpc_stream.c ---- */

/* The state of a call. Takes ownership of call and channel, also on failure (NULL). Starts with one
 * reference and one use, which belong to the caller. */
stream *stream_new(grpc_wire *t, grpc_call *call, grpc_channel *channel);
void stream_ref(stream *s);
void stream_unref(stream *s);
void stream_unuse(stream *s);
/* For streams found in the list: false if the stream is being freed. */
bool stream_try_ref(stream *s);
bool stream_is_ended(stream *s);
/* Sends a greeting or an answer, the first message. */
void stream_send_first(stream *s, grpc_slice part);
/* Outgoing: sends the greeting and waits for the answer. */
void stream_start_client(stream *s);
/* Incoming: waits for the greeting. */
void stream_start_server(stream *s);
/* The peer is known: start receiving frames. */
void stream_start_frames(stream *s, int peer);
MF_MUST mf_status stream_send(stream *s, const mf_frame *f, const void *data, int64_t deadline_ns);
/* Ends it immediately: everything pending completes soon. */
void stream_break(stream *s);
/* Waits until everything was sent. */
void stream_flush(stream *s, int64_t deadline_ns);
/* Ends it after everything pending was sent. */
void stream_finish(stream *s);

/* ---- grpc_transport.c ---- */

/* Handles the greeting of an incoming call; returns the answer. */
MF_MUST mf_status wire_greet(stream *s, const char *text);
void wire_forget(stream *s);

/* ---- socket.c ---- */

/* Finds the socket of this call, and its endpoints. */
MF_MUST mf_status socket_claim(stream *s, mf_endpoint *theirs, mf_endpoint *ours);
void socket_release(stream *s);
/* The same for a call accepted by the server that listens at `at`. *fd: a duplicate descriptor of
 * the socket, which the caller closes. */
MF_MUST mf_status socket_of_caller(grpc_call *call, const mf_endpoint *at, mf_endpoint *theirs,
                                   mf_endpoint *ours, int *fd);

/* ---- grpc_security.c ---- */

MF_MUST mf_status security_open(const mf_security *s, grpc_server_credentials **server,
                                grpc_channel_credentials **client);
/* Verifies the identity of the peer: the task of its certificate or, without TLS, a process of our
 * user. */
MF_MUST mf_status security_check_peer(stream *s, const char *hello);
/* The tasks that the caller's certificate names, one per line; "": none. */
void security_tasks(grpc_call *call, char *out, size_t size);

/* ---- listening.c ---- */

/* Let the server listen at `at`, whose text is `address`, after the address was checked; port 0 is
 * replaced by the actual port in both. *channels: credentials for outgoing calls; NULL: none. */
MF_MUST mf_status listen_at(grpc_server *server, const mf_security *security, mf_endpoint *at,
                            char address[MF_ADDRESS_MAX], grpc_channel_credentials **channels);

/* ---- verify.c ---- */

/* Fails with FAILED_PRECONDITION if the certificate is for clients only. */
MF_MUST mf_status security_check_serves(const mf_security *s);
/* Checks that certificate, key and authority (their texts) match and are valid now. */
MF_MUST mf_status security_check_own(const mf_security *s, const char *ca, const char *cert,
                                     const char *key);

#endif
