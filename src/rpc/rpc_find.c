/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_find.c - opens the plugin that carries calls between hosts. */
#include "base/plugin.h"
#include "rpc/rpc.h"

mf_status mf_rpc_find(const mf_rpc_kind **out)
{
    static const mf_plugin_wanted wanted = { "grpc", "calls", "libgrpc-dev", "libgrpc29" };
    const mf_plugin_v1 *p;

    *out = NULL;
    MF_TRY(mf_plugin_get(&wanted, &p));
    if (!p->rpc)
        return MF_FAIL(MF_FAILED_PRECONDITION, "plugin %s does not provide calls", p->name);
    *out = p->rpc;
    return MF_OK;
}
