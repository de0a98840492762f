/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_net.h - connects the devices of a mesh across processes. Task t has the devices first[t] up
 * to first[t + 1]. */
#ifndef MF_SPMD_SESSION_MESH_NET_H
#define MF_SPMD_SESSION_MESH_NET_H

#include "net/net.h"
#include "spmd/session/mesh_session.h"

/* The net must outlive the wire; its requests have no other handler. first: n_tasks + 1 elements,
 * copied. Owns: mf_mesh_wire_net_free(), after the session. */
MF_MUST mf_status mf_mesh_wire_net_new(mf_net *net, const int *first, int n_tasks,
                                       int64_t timeout_ns, mf_mesh_wire **out);
void mf_mesh_wire_net_free(mf_mesh_wire *w);
/* Bytes that this process has sent. */
int64_t mf_mesh_wire_net_bytes(const mf_mesh_wire *w);

#endif
