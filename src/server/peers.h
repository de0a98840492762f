/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - the other tasks of a cluster, and asking them. */
#ifndef MF_SERVER_PEERS_H
#define MF_SERVER_PEERS_H

#include "client/caller.h"
#include "server/tasks.h"

typedef struct mf_peers mf_peers;

/* Do tasks of one host and user have a way of their own (comm/local_rpc.h)? Not where certificates
 * say who may do what. */
bool mf_server_is_local(const mf_security *security);

/* tasks: must outlive it. security is copied. */
MF_MUST mf_status mf_peers_new(const mf_rpc_kind *rpc, const mf_server_tasks *tasks,
                               const mf_security *security, mf_peers **out);
/* Cancels what is being asked, and waits until all is answered. */
void mf_peers_free(mf_peers *p);
/* How to ask a task, by its number; connects when it is asked. The peers' own. Thread: any. */
MF_MUST mf_status mf_peers_caller(mf_peers *p, int task, mf_caller **out);

#endif
