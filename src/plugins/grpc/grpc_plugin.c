/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_plugin.c - the plugin `grpc`: a transport between hosts, calls, and the certificates they
 * need. */
#include "plugins/grpc/grpc_plugin.h"

#include "base/clock.h"
#include "base/log.h"
#include "plugins/common/host.h"

#include <grpc/support/log.h>
#include <stdatomic.h>
#include <string.h>

static const int64_t QUIET_NS = 10000000000;

/* gRPC logs errors to stderr that callers receive anyway; only refused connections are reported
 * nowhere else. Peers retry, so each reason is logged once. */
static void take_log(gpr_log_func_args *a)
{
    static atomic_llong said;
    const bool refused = strstr(a->message, "andshake failed") != NULL;
    long long last = atomic_load(&said);
    const int64_t now = mf_clock_ns();
    const bool say =
        refused && now - last > QUIET_NS && atomic_compare_exchange_strong(&said, &last, now);

    if (strstr(a->message, "certificate verify failed")) {
        mf_log_write(say ? MF_LOG_WARNING : MF_LOG_DEBUG, a->file, a->line,
                     "a connection was refused: the certificate of the peer is not from our "
                     "authority, or has expired");
        return;
    }
    mf_log_write(say ? MF_LOG_WARNING : MF_LOG_DEBUG, a->file, a->line, "%s%s",
                 refused ? "a connection was refused: " : "gRPC: ", a->message);
}

static const mf_transport_kind *const transports[] = { &mf_transport_grpc, NULL };

static const mf_plugin_v1 plugin = {
    .abi = MF_PLUGIN_ABI,
    .size = sizeof plugin,
    .name = "grpc",
    .about = "transport between hosts on gRPC, calls as in TensorFlow, and certificates",
    .transports = transports,
    .certificates = &mf_certificates_openssl,
    .rpc = &mf_rpc_grpc,
};

const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host)
{
    mf_plugin_use(host);
    gpr_set_log_function(take_log);
    return &plugin;
}
