/* SPDX-License-Identifier: Apache-2.0 */
/* wrong_abi.c - a plugin for another Meshflow, which must be refused. */
#include <meshflow/plugin.h>

const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host)
{
    static const mf_plugin_v1 plugin = { .abi = 4711, .size = sizeof plugin, .name = "old" };

    (void)host;
    return &plugin;
}
