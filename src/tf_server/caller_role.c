/* SPDX-License-Identifier: Apache-2.0 */
/* caller_role.c - which RPC methods a caller may use, by its certificate. */
#include "tf_server/caller_role.h"

#include "net/certificates.h"

#include <stdlib.h>
#include <string.h>

/* GetStatus identifies a task, as ListDevices does. */
static bool is_for_clients(const char *method)
{
    static const char service[] = "/tensorflow.MasterService/";

    return strncmp(method, service, strlen(service)) == 0 ||
           strcmp(method, "/tensorflow.WorkerService/GetStatus") == 0;
}

/* "worker 0" */
static bool is_task(const mf_server_tasks *tasks, const char *name, size_t len)
{
    for (int i = 0; i < tasks->n; i++) {
        const mf_server_task *t = &tasks->all[i];
        const size_t job = strlen(t->job);
        char *end;

        if (len > job + 1 && strncmp(name, t->job, job) == 0 && name[job] == ' ' &&
            strtol(name + job + 1, &end, 10) == t->index && end == name + len)
            return true;
    }
    return false;
}

mf_status mf_role_check(const mf_server_tasks *tasks, const char *names, const char *method)
{
    const char *at = names;

    while (at && *at) {
        const size_t len = strcspn(at, "\n");
        const bool is_client =
            len == strlen(MF_CERTIFICATE_CLIENT) && strncmp(at, MF_CERTIFICATE_CLIENT, len) == 0;

        if ((is_client && is_for_clients(method)) || is_task(tasks, at, len))
            return MF_OK;
        at += len + (at[len] == '\n');
    }
    if (!names)
        return MF_OK;
    return MF_FAIL(
        MF_PERMISSION_DENIED,
        "%s: the caller's certificate is that of %.100s; clients may call MasterService, tasks "
        "of this cluster also WorkerService (create one with `meshflow cert --task`)",
        method, names);
}
