/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_plugin.c - the plugin `mpi`, built once per installed MPI. */
#include "plugins/mpi/mpi_plugin.h"

#include "plugins/common/host.h"

static const mf_transport_kind *const transports[] = { &mf_transport_mpi, NULL };

static const mf_plugin_v1 plugin = {
    .abi = MF_PLUGIN_ABI,
    .size = sizeof plugin,
    .name = "mpi",
    .about = "transport between tasks that MPI started",
    .transports = transports,
};

const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host)
{
    mf_plugin_use(host);
    return &plugin;
}
