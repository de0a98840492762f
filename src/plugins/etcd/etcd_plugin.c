/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_plugin.c - the plugin `etcd`: a store for several hosts. */
#include "plugins/common/host.h"
#include "plugins/etcd/etcd.h"

static const mf_store_kind *const stores[] = { &mf_store_etcd, NULL };

static const mf_plugin_v1 plugin = {
    .abi = MF_PLUGIN_ABI,
    .size = sizeof plugin,
    .name = "etcd",
    .about = "store in etcd, through its HTTP gateway",
    .stores = stores,
};

const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host)
{
    mf_plugin_use(host);
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? &plugin : NULL;
}
