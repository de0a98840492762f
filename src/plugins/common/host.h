/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - access of a plugin to the library. Plugins include base/status.h, mem.h, log.h, clock.h
 * and net/transport.h and are written like library code. The functions they call are defined in
 * host.c, which is linked into every plugin and forwards to the table that the plugin was given.
 * Functions that host.c does not define fail to link. */
#ifndef MF_PLUGINS_HOST_H
#define MF_PLUGINS_HOST_H

#include <meshflow/plugin.h>

/* Call it first in mf_plugin_open_v1(). */
void mf_plugin_use(const mf_plugin_host *host);

#endif
