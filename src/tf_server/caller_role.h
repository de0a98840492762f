/* SPDX-License-Identifier: Apache-2.0 */
/* caller_role.h - authorization of callers. */
#ifndef MF_TF_SERVER_CALLER_ROLE_H
#define MF_TF_SERVER_CALLER_ROLE_H

#include "tf_server/task_table.h"

/* names: those of the caller's certificate (mf_rpc_call); NULL: no certificates are used, all calls
 * are allowed. A client may call all methods of the master and GetStatus of a worker; a task of the
 * cluster may call all methods. Fails: PERMISSION_DENIED. */
MF_MUST mf_status mf_role_check(const mf_server_tasks *tasks, const char *names,
                                const char *method);

#endif
