/* SPDX-License-Identifier: Apache-2.0 */
/* peer_tasks.h - RPC stubs for the other tasks of a cluster. */
#ifndef MF_TF_SERVER_PEER_TASKS_H
#define MF_TF_SERVER_PEER_TASKS_H

#include "rpc/rpc_stub.h"
#include "tf_server/task_table.h"

typedef struct mf_peer_tasks mf_peer_tasks;

/* True if tasks of one host and user use Unix sockets (rpc/uds_rpc.h). Not with certificates, which
 * decide the permissions of a caller. */
bool mf_server_is_local(const mf_security *security);

/* tasks: must outlive it. security is copied. */
MF_MUST mf_status mf_peer_tasks_new(const mf_rpc_kind *rpc, const mf_server_tasks *tasks,
                                    const mf_security *security, mf_peer_tasks **out);
/* Cancels calls in flight and waits until they have ended. */
void mf_peer_tasks_free(mf_peer_tasks *p);
/* The stub of a task; it connects at its first call. Owned by the peers. Thread: any. */
MF_MUST mf_status mf_peer_tasks_caller(mf_peer_tasks *p, int task, mf_rpc_stub **out);

#endif
