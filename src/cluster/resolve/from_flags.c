/* SPDX-License-Identifier: Apache-2.0 */
/* from_flags.c - --cluster JSON or FILE; --ps_hosts and --worker_hosts, as TensorFlow 1 scripts
 * have them. --job_name and --task_index select this task (resolve.c). */
#include "base/file.h"
#include "cluster/resolve/resolver.h"

#include <ctype.h>
#include <string.h>

static bool flags_applies(const mf_cluster_request *request)
{
    return request->cluster || request->ps_hosts || request->worker_hosts;
}

static void from_flags_read_cluster(const mf_cluster_request *request, mf_cluster *c)
{
    const char *text = request->cluster + strspn(request->cluster, " \t\r\n");
    char *data = NULL;
    size_t len = 0;

    if (*text == '{') {
        mf_cluster_fact(c, "cluster", "--cluster", "JSON of the command line");
        mf_tf_config_decode(c, text, strlen(text), "--cluster");
        return;
    }
    mf_cluster_fact(c, "cluster", "--cluster", "%s", request->cluster);
    if (mf_file_read(request->cluster, MF_CLUSTER_MAX_BYTES, &data, &len) != MF_OK)
        mf_cluster_mistake(
            c, "--cluster",
            "name a file that holds {\"worker\": [\"host:port\", ...]}, or give that", "%s",
            mf_error_message());
    else
        mf_tf_config_decode(c, data, len, mf_cluster_text(c, "%s", request->cluster));
    mf_free(data);
}

/* "a:1,b:2" */
static void read_hosts(mf_cluster *c, const char *list, mf_role role, const char *flag)
{
    int64_t index = 0;

    if (!list)
        return;
    mf_cluster_fact(c, mf_role_name(role), flag, "%s", list);
    for (const char *at = list;; index++) {
        const size_t n = strcspn(at, ",");
        size_t begin = 0, end = n;
        const char *place = mf_cluster_text(c, "%s[%lld]", flag, (long long)index);

        while (begin < end && isspace((unsigned char)at[begin]))
            begin++;
        while (end > begin && isspace((unsigned char)at[end - 1]))
            end--;
        mf_cluster_add(c, role, index, mf_cluster_text(c, "%.*s", (int)(end - begin), at + begin),
                       place);
        if (!at[n] || c->no_memory || index >= MF_CLUSTER_MAX_TASKS)
            return;
        at += n + 1;
    }
}

static void flags_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    if (request->cluster && (request->ps_hosts || request->worker_hosts))
        mf_cluster_mistake(c, "--cluster", "give --cluster alone, or --ps_hosts and --worker_hosts",
                           "--cluster and %s both list tasks",
                           request->ps_hosts ? "--ps_hosts" : "--worker_hosts");
    else if (request->cluster)
        from_flags_read_cluster(request, c);
    read_hosts(c, request->worker_hosts, MF_ROLE_WORKER, "--worker_hosts");
    read_hosts(c, request->ps_hosts, MF_ROLE_PS, "--ps_hosts");
}

const mf_resolver mf_resolver_flags = {
    .name = "flags",
    .applies = flags_applies,
    .resolve = flags_resolve,
};
