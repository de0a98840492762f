/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_inside.h - calls by name between servers of one process: no sockets, no plugin. Each call has
 * a thread, as with gRPC. Whoever listens is found by the address that was asked for. */
#ifndef MF_FUZZ_RPC_INSIDE_H
#define MF_FUZZ_RPC_INSIDE_H

#include "comm/rpc.h"

extern const mf_rpc_kind rpc_inside;

#endif
