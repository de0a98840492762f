/* SPDX-License-Identifier: Apache-2.0 */
/* uds_rpc.h - calls (rpc.h) between processes of one host and user: over a Unix socket, and large
 * parts of answers not at all, when they lie in memory that both can see (tensor/shared_region.h).
 *
 * Below: what both ends share. A message is a frame, then a text, then bytes. */
#ifndef MF_RPC_UDS_RPC_H
#define MF_RPC_UDS_RPC_H

#include "rpc/rpc.h"
#include "tensor/shared_region.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

extern const mf_rpc_kind mf_rpc_local;

enum { MF_UDS_RPC_MAGIC = 0x4d466c31 };

typedef enum mf_local_kind {
    MF_UDS_HELLO = 1, /* first, in both directions, with a file: the words of what is lent; the
                           region, if there is one */
    MF_UDS_ASK, /* text: the method */
    MF_UDS_CANCEL,
    MF_UDS_ANSWER, /* text: the message of a status; what is lent follows its bytes */
} mf_local_kind;

typedef struct mf_uds_frame {
    uint32_t magic, kind, status;
    uint32_t text; /* bytes */
    uint64_t id, size;
    int64_t left_ns; /* of a question: until nobody waits any more; INT64_MAX: never */
    uint64_t lent_at, lent_size; /* in the region; 0, 0: nothing */
    uint64_t slot; /* of the words */
} mf_uds_frame;

/* One end of a connection. */
typedef struct mf_uds_line {
    int fd;
    pthread_mutex_t writing;
    char *in; /* bytes that have come: [from, to) */
    size_t from, to;
    int came; /* a file that has come; -1: none */
    int64_t until_ns; /* when the message that is being read must be there */
} mf_uds_line;

MF_MUST mf_status mf_uds_line_init(mf_uds_line *l, int fd);
void mf_uds_line_deinit(mf_uds_line *l);
/* All or nothing: on failure the connection is shut. file: goes with it; -1: none. Thread: any. */
MF_MUST mf_status mf_uds_line_send(mf_uds_line *l, const mf_uds_frame *frame, const char *text,
                                   const mf_iovec *parts, int n, int file);
/* Reads a whole message of which something has come: the frame, its text, with a NUL behind it, at
 * *text, its bytes at *data. Owns: *text is to be freed by mf_free(), *data goes with it.
 * UNAVAILABLE: the other end is gone, is not Meshflow, or stopped in the middle (rpc_stuck_ms). */
MF_MUST mf_status mf_uds_line_read(mf_uds_line *l, mf_uds_frame *frame, char **text,
                                   const void **data);
/* There is more than was read: no need to wait for it. */
bool mf_uds_line_has_more(const mf_uds_line *l);
/* The file that came, mapped; NULL: none has, it cannot be, or the other end could make it shorter
 * (it is not sealed). *size: how large it is. */
void *mf_uds_line_map(mf_uds_line *l, bool writable, size_t *size);

/* The two halves of the kind. */
MF_MUST mf_status mf_uds_rpc_serve(const mf_rpc_server_options *o, mf_rpc_server **out);
const char *mf_uds_rpc_address(const mf_rpc_server *s);
void mf_uds_rpc_answer(mf_rpc_call *call, mf_status status, const char *message,
                       const mf_iovec *parts, int n_parts);
void mf_uds_rpc_stop(mf_rpc_server *s);
/* The name of the socket of the server at this address. 0: it is too long. */
socklen_t mf_uds_rpc_name(const char *address, struct sockaddr_un *out);

#endif
