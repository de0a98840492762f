/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_plugin.h - the interfaces of the plugin `grpc`. */
#ifndef MF_GRPC_GRPC_PLUGIN_H
#define MF_GRPC_GRPC_PLUGIN_H

#include "net/certificates.h"
#include "net/transport.h"
#include "rpc/rpc.h"

extern const mf_transport_kind mf_transport_grpc;
extern const mf_certificates mf_certificates_openssl;
extern const mf_rpc_kind mf_rpc_grpc;

#endif
