/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cluster.c - descriptions of a cluster: the first byte selects a TF_CONFIG, a list of nodes,
 * tasks
 * per node, a hostfile or an address. A description that is parsed without errors must be
 * consistent. */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <stdint.h>
#include <string.h>

static const char *no_env(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

static void check_cluster(const mf_cluster *c)
{
    int trainers = 0;

    for (int i = 0; i < c->n_tasks; i++) {
        const mf_cluster_task *t = &c->tasks[i];

        MF_ASSERT(mf_cluster_find(c, t->role, t->index) == t);
        MF_ASSERT(!t->address || (t->port > 0 && t->port <= MF_PORT_MAX && t->host[0]));
        trainers += mf_role_trains(t->role);
    }
    MF_ASSERT(trainers == c->size && c->self < c->n_tasks && c->rank < c->size);
}

static void fuzz_config(mf_cluster *c, const char *text, size_t len)
{
    const mf_cluster_request request = { .env = no_env, .host = "here", .client = true };

    (void)mf_tf_config_speaks(text, len);
    mf_tf_config_decode(c, text, len, "input");
    mf_cluster_finish(c, &request);
    if (c->n_mistakes == 0)
        check_cluster(c);
}

static void check_hosts(const mf_hosts *hosts)
{
    MF_ASSERT(hosts->n <= MF_CLUSTER_MAX_TASKS);
    for (int64_t i = 0; i < hosts->n; i++)
        MF_ASSERT(hosts->hosts[i].slots >= 0 &&
                  mf_host_is_name(hosts->hosts[i].name, strlen(hosts->hosts[i].name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_cluster *c = mf_cluster_new();
    mf_hosts hosts = { 0 };
    mf_address_error error;
    mf_address address;
    char *text = size > 0 ? mf_strndup((const char *)data + 1, size - 1) : NULL;

    if (text && data[0] == 'c')
        fuzz_config(c, (const char *)data + 1, size - 1);
    else if (text && data[0] == 'n')
        (void)mf_nodelist_decode(c, text, "input", &hosts);
    else if (text && data[0] == 't' && mf_nodelist_decode(c, "n[1-5]", "list", &hosts))
        (void)mf_tasks_per_node_decode(c, text, "input", &hosts);
    else if (text && data[0] == 'h')
        (void)mf_hostfile_decode(c, (const char *)data + 1, size - 1, "input", &hosts);
    else if (text && mf_address_parse(text, &address, &error))
        MF_ASSERT(address.port > 0 && address.port <= MF_PORT_MAX && address.host[0]);
    check_hosts(&hosts);
    mf_free(hosts.hosts);
    mf_free(text);
    mf_cluster_free(c);
    return 0;
}
