/* SPDX-License-Identifier: Apache-2.0 */
/* caller_role.h - what a caller may do. */
#ifndef MF_TF_SERVER_CALLER_ROLE_H
#define MF_TF_SERVER_CALLER_ROLE_H

#include "tf_server/task_table.h"

/* names: of the caller's certificate (mf_rpc_call). NULL: nothing is known against it. A client may
 * call a master's methods and ask a worker who it is, a task of the cluster may all.
 * PERMISSION_DENIED. */
MF_MUST mf_status mf_role_check(const mf_server_tasks *tasks, const char *names,
                                const char *method);

#endif
