/* SPDX-License-Identifier: Apache-2.0 */
/* inproc_rpc.h - calls (rpc.h) between servers and sessions of one process: no sockets, no plugin,
 * nobody else. A server gets the address "inside:N", whatever was asked for. Each call has a thread
 * of its own, as its service may take its time. */
#ifndef MF_RPC_INPROC_RPC_H
#define MF_RPC_INPROC_RPC_H

#include "rpc/rpc.h"

extern const mf_rpc_kind mf_rpc_inside;

/* Is this an address, or a target, of such a server? */
bool mf_is_inside(const char *address);

#endif
