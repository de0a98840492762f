/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - a plugin's way to the library. Plugins include base/status.h, mem.h, log.h, clock.h and
 * net/transport.h and are written as the library is; what they call of these is in host.c, part of
 * every plugin, and goes through the table that the plugin was given. What host.c does not have,
 * the linker refuses. */
#ifndef MF_PLUGINS_HOST_H
#define MF_PLUGINS_HOST_H

#include <meshflow/plugin.h>

/* First thing in mf_plugin_open_v1(). */
void mf_plugin_use(const mf_plugin_host *host);

#endif
