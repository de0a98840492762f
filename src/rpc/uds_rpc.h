/* SPDX-License-Identifier: Apache-2.0 */
/* uds_rpc.h - calls (rpc.h) between processes of one host and user, over Unix sockets. Large parts
 * of replies are not sent if they are in shared memory (tensor/shared_region.h).
 *
 * The declarations below are shared by client and server. A message is a frame, then a text, then
 * bytes. */
#ifndef MF_RPC_UDS_RPC_H
#define MF_RPC_UDS_RPC_H

#include "rpc/rpc.h"
#include "tensor/lender.h"
#include "tensor/shared_region.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

extern const mf_rpc_kind mf_rpc_local;

enum { MF_UDS_RPC_MAGIC = 0x4d466c31 };

typedef enum mf_local_kind {
    MF_UDS_HELLO = 1, /* first message in both directions, with a file descriptor: from the client
                         the
                         lending words; from the server the region, if there is one */
    MF_UDS_ASK, /* text: the method */
    MF_UDS_CANCEL,
    MF_UDS_ANSWER, /* text: the message of a status; a lent part follows its bytes */
} mf_local_kind;

typedef struct mf_uds_frame {
    uint32_t magic, kind, status;
    uint32_t text; /* bytes */
    uint64_t id, size;
    int64_t left_ns; /* of a request: time until its deadline; INT64_MAX: none */
    uint64_t lent_at, lent_size; /* in the region; 0, 0: nothing is lent */
    uint64_t slot; /* number of the lending word */
} mf_uds_frame;

/* One end of a connection. */
typedef struct mf_uds_line {
    int fd;
    pthread_mutex_t writing;
    char *in; /* bytes received: [from, to) */
    size_t from, to;
    int received_fd; /* received file descriptor; -1: none */
    int64_t until_ns; /* deadline of the message being read */
} mf_uds_line;

MF_MUST mf_status mf_uds_line_init(mf_uds_line *l, int fd);
void mf_uds_line_deinit(mf_uds_line *l);
/* Atomic: on failure the connection is shut down. file: sent with it; -1: none. Thread: any. */
MF_MUST mf_status mf_uds_line_send(mf_uds_line *l, const mf_uds_frame *frame, const char *text,
                                   const mf_iovec *parts, int n, int file);
/* Reads a complete message after its first bytes have arrived: the frame, its text, NUL-terminated,
 * at *text, its bytes at *data. Owns: the caller frees *text with mf_free(), which also frees
 * *data. Fails: UNAVAILABLE (the peer is lost, is not Meshflow, or stopped in the middle:
 * rpc_io_timeout_ms). */
MF_MUST mf_status mf_uds_line_read(mf_uds_line *l, mf_uds_frame *frame, char **text,
                                   const void **data);
/* More data is already buffered: do not poll. */
bool mf_uds_line_has_more(const mf_uds_line *l);
/* The received file, mapped; NULL: none was received, it cannot be mapped, or it is not sealed, so
 * the peer could truncate it. *size: its size. */
void *mf_uds_line_map(mf_uds_line *l, bool writable, size_t *size);

/* Server and client of the implementation. */
MF_MUST mf_status mf_uds_rpc_serve(const mf_rpc_server_options *o, mf_rpc_server **out);
const char *mf_uds_rpc_address(const mf_rpc_server *s);
void mf_uds_rpc_answer(mf_rpc_call *call, mf_status status, const char *message,
                       const mf_iovec *parts, int n_parts);
void mf_uds_rpc_stop(mf_rpc_server *s);
/* The socket name of the server at this address. Returns 0 if it is too long. */
socklen_t mf_uds_rpc_name(const char *address, struct sockaddr_un *out);

#endif
