/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_rpc.h - internals of calls (rpc/rpc.h) over gRPC: grpc_rpc_server.c, grpc_rpc_client.c and
 * grpc_rpc_peers.c. */
#ifndef MF_GRPC_GRPC_RPC_H
#define MF_GRPC_GRPC_RPC_H

#include "plugins/grpc/grpc_wire.h"
#include "rpc/rpc.h"

#define MF_GRPC_SETTING(name, number)                                                              \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = (char *)(name), .value.integer = (number)                 \
    }

/* ---- grpc_rpc_message.c ---- */

/* A message of these parts, which it takes over. NULL: no memory; the parts are released. */
grpc_byte_buffer *rpc_message_make(const mf_iovec *parts, int n);
/* Its bytes as one contiguous slice. False: it cannot be read. */
bool rpc_message_flatten(grpc_byte_buffer *message, grpc_slice *out);
/* Its bytes without copying, valid as long as the message. Owns: the caller calls mf_free(*out),
 * also on failure. */
bool rpc_message_parts(grpc_byte_buffer *message, mf_iovec **out, int *n);

/* ---- grpc_rpc_peers.c ---- */

/* Cache of checked connections. */
typedef struct rpc_peers {
    pthread_mutex_t lock;
    struct rpc_peer *all;
    int n, cap;
} rpc_peers;

void rpc_peers_init(rpc_peers *p);
void rpc_peers_deinit(rpc_peers *p);
/* Without TLS: fails with PERMISSION_DENIED unless the caller is a process of our user on this
 * host; UNAVAILABLE: it has closed the connection. */
MF_MUST mf_status rpc_peers_check(rpc_peers *p, const mf_security *security, const mf_endpoint *at,
                                  grpc_call *call);
/* Remove connections that have ended. */
void rpc_peers_sweep(rpc_peers *p);

/* ---- grpc_rpc_server.c ---- */

MF_MUST mf_status rpc_serve(const mf_rpc_server_options *o, mf_rpc_server **out);
const char *rpc_address(const mf_rpc_server *s);
void rpc_answer(mf_rpc_call *call, mf_status status, const char *message, const mf_iovec *parts,
                int n_parts);
void rpc_stop(mf_rpc_server *s);

#endif
