/* SPDX-License-Identifier: Apache-2.0 */
/* inproc_rpc.h - calls (rpc.h) between servers and sessions of one process, without sockets and
 * plugins. A server gets the address "inside:N", whatever address was requested. Each call has its
 * own thread, because its service may block. */
#ifndef MF_RPC_INPROC_RPC_H
#define MF_RPC_INPROC_RPC_H

#include "rpc/rpc.h"

extern const mf_rpc_kind mf_rpc_inproc;

/* Is this the address, or target, of an in-process server? */
bool mf_is_inproc(const char *address);

#endif
