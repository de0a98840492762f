/* SPDX-License-Identifier: Apache-2.0 */
/* peer_tasks.h - the other tasks of a cluster, and asking them. */
#ifndef MF_TF_SERVER_PEER_TASKS_H
#define MF_TF_SERVER_PEER_TASKS_H

#include "rpc/rpc_stub.h"
#include "tf_server/task_table.h"

typedef struct mf_peer_tasks mf_peer_tasks;

/* Do tasks of one host and user have a way of their own (rpc/uds_rpc.h)? Not where certificates
 * say who may do what. */
bool mf_server_is_local(const mf_security *security);

/* tasks: must outlive it. security is copied. */
MF_MUST mf_status mf_peer_tasks_new(const mf_rpc_kind *rpc, const mf_server_tasks *tasks,
                                    const mf_security *security, mf_peer_tasks **out);
/* Cancels what is being asked, and waits until all is answered. */
void mf_peer_tasks_free(mf_peer_tasks *p);
/* How to ask a task, by its number; connects when it is asked. The peers' own. Thread: any. */
MF_MUST mf_status mf_peer_tasks_caller(mf_peer_tasks *p, int task, mf_rpc_stub **out);

#endif
