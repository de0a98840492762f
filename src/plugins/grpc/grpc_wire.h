/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_wire.h - the inside of the transport `grpc`.
 *
 * Two tasks have one call with each other, a stream of messages in both directions, on a connection
 * of its own. The first message each way is the greeting or the answer to it; from then on messages
 * are a stream of bytes in which frames follow each other, and their borders mean nothing.
 *
 * All completions come to one thread, which also does the reading. gRPC is never called with a
 * stream's lock held: what it calls back takes that lock. */
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
    PIECE = 1 << 20, /* bytes that are handed to gRPC at once */
    SMALL = 16 << 10, /* frames up to this size are copied, so that nobody waits for them */
    PENDING_MAX = 64, /* parts that wait while others are being sent */
    MESSAGE_MAX = 4 << 20, /* more never comes in one message */
};
#define MF_GRPC_METHOD "/meshflow.Transport/Connect"

typedef struct grpc_wire grpc_wire;
typedef struct stream stream;

/* What a completion is about. */
typedef struct tag {
    void (*done)(stream *s, bool ok);
    stream *s;
} tag;

typedef enum stream_state {
    AWAIT_GREETING, /* they have called: who are they? */
    AWAIT_ANSWER, /* we have called: are we welcome? */
    HAVE_ANSWER,
    FRAMES,
} stream_state;

struct stream {
    grpc_wire *t;
    int peer; /* -1: has not said who it is */
    bool refused; /* it was sent away, and is told so */
    grpc_call *call; /* NULL: over, and nobody uses it any more */
    grpc_channel *channel; /* of a call of ours */
    int fd; /* its socket, another descriptor of it: see socket.c; -1: not known */
    char seen_at[MF_ADDRESS_MAX]; /* the address of whoever called, as the other one sees it */
    struct stream *next; /* of all, guarded by the wire's lock */
    int round; /* the last in which for_each() was here; of close() */
    tag opened, sent, received, ended, closed;

    pthread_mutex_t lock; /* all below, up to `receiving` */
    pthread_cond_t changed;
    int refs; /* by_peer, whoever made it or works with it, and each tag that is out */
    int uses; /* of the call: whoever made the stream, for a while, and each tag that is out */
    grpc_slice pending[PENDING_MAX];
    int n_pending;
    size_t pending_bytes;
    grpc_byte_buffer *outgoing; /* what gRPC is sending; NULL: nothing */
    bool framing; /* somebody is in the middle of a frame */
    int held; /* parts of senders' memory that gRPC still refers to */
    bool dead; /* nothing is sent any more */
    stream_state state;
    char *answer; /* HAVE_ANSWER: its text */
    mf_status answer_status;
    bool is_ended; /* the call is over, both ways */
    bool is_closing; /* we have sent our end of it */

    /* the queue's thread */
    bool receiving;
    grpc_byte_buffer *incoming;
    mf_reading reading;
    bool told; /* gone() */
    char why[300]; /* it is gone */
    grpc_status_code status; /* of a call of ours */
    grpc_slice details;
    grpc_metadata_array initial, trailing;
    int cancelled; /* of a call of theirs */
};

struct grpc_wire {
    mf_transport base;
    mf_inbox *inbox;
    int n_peers;
    mf_security security; /* its strings are ours */
    mf_endpoint at;
    char address[MF_ADDRESS_MAX];
    const char *hello; /* the inbox's */
    grpc_completion_queue *queue;
    grpc_server *server;
    grpc_channel_credentials *credentials;
    pthread_t thread;
    bool has_thread;
    tag accepted, stopped;
    grpc_call *next_call; /* of the queue's thread, as are the two below */
    grpc_call_details details;
    grpc_metadata_array metadata;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    stream **by_peer;
    stream *all;
    bool is_stopped;
    int round; /* of close() */
    int64_t close_at;
};

/* ---- grpc_stream.c ---- */

/* A call's state. Takes over call and channel, also when it fails (NULL). With one reference and
 * one use, which are the caller's. */
stream *stream_new(grpc_wire *t, grpc_call *call, grpc_channel *channel);
void stream_ref(stream *s);
void stream_unref(stream *s);
void stream_unuse(stream *s);
/* For those who find it in the list of all: false if it is being freed. */
bool stream_try_ref(stream *s);
bool stream_is_ended(stream *s);
/* Greeting or answer, which nothing precedes. */
void stream_send_first(stream *s, grpc_slice part);
/* One of ours: says hello and waits for the answer. */
void stream_start_client(stream *s);
/* One of theirs: waits for their hello. */
void stream_start_server(stream *s);
/* The peer is known: frames may come. */
void stream_start_frames(stream *s, int peer);
MF_MUST mf_status stream_send(stream *s, const mf_frame *f, const void *data, int64_t deadline_ns);
/* Ends it at once: everything that is out comes back soon. */
void stream_break(stream *s);
/* Waits until everything is on its way. */
void stream_flush(stream *s, int64_t deadline_ns);
/* Ends it behind what is on its way. */
void stream_finish(stream *s);

/* ---- grpc_transport.c ---- */

/* A greeting has come from one of theirs; the answer to it. */
MF_MUST mf_status wire_meet(stream *s, const char *text);
void wire_forget(stream *s);

/* ---- socket.c ---- */

/* Finds the socket that this call uses, and who is at its ends. */
MF_MUST mf_status socket_claim(stream *s, mf_endpoint *theirs, mf_endpoint *ours);
void socket_release(stream *s);
/* The same of a call that has come to the server that listens at `at`. *fd: another descriptor of
 * the socket, the caller's to close. */
MF_MUST mf_status socket_of_caller(grpc_call *call, const mf_endpoint *at, mf_endpoint *theirs,
                                   mf_endpoint *ours, int *fd);

/* ---- grpc_security.c ---- */

MF_MUST mf_status security_open(const mf_security *s, grpc_server_credentials **server,
                                grpc_channel_credentials **client);
/* It is who it says it is: the task of its certificate or, without TLS, a process of our user. */
MF_MUST mf_status security_check_peer(stream *s, const char *hello);
/* The tasks that the caller's certificate speaks for, one a line; "": it names none. */
void security_tasks(grpc_call *call, char *out, size_t size);

/* ---- listening.c ---- */

/* Let the server listen at `at`, which is called `address` and allowed; port 0 becomes the one it
 * has in both. *channels: credentials for calls of our own; NULL: there are none. */
MF_MUST mf_status listen_at(grpc_server *server, const mf_security *security, mf_endpoint *at,
                            char address[MF_ADDRESS_MAX], grpc_channel_credentials **channels);

/* ---- verify.c ---- */

/* It is no certificate of a client, which nobody may listen with. FAILED_PRECONDITION. */
MF_MUST mf_status security_check_serves(const mf_security *s);
/* Certificate, key and authority (their texts) fit together, now. */
MF_MUST mf_status security_check_own(const mf_security *s, const char *ca, const char *cert,
                                     const char *key);

#endif
