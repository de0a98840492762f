/* SPDX-License-Identifier: Apache-2.0 */
/* transport_registry.h - the available transports, the selection for a job, and its security
 * settings. */
#ifndef MF_NET_TRANSPORT_REGISTRY_H
#define MF_NET_TRANSPORT_REGISTRY_H

#include "net/certificates.h"
#include "net/transport.h"

/* "local", "grpc", "ucx", "mpi". Fails: INVALID_ARGUMENT (unknown name), NOT_FOUND or
 * FAILED_PRECONDITION (its plugin is not installed or cannot be loaded: what to install). */
MF_MUST mf_status mf_transport_find(const char *name, const mf_transport_kind **out);
/* Name i; NULL beyond the last one. */
const char *mf_transport_name(int i);

/* The transport for these addresses ("host:port", or names without a port): local if all are on one
 * host, else grpc. NULL addresses are ignored. */
MF_MUST mf_status mf_transport_choose(const char *const *addresses, int n,
                                      const mf_transport_kind **out);
/* "127.0.0.1:80", "localhost:80", "[::1]:80", "name". */
bool mf_address_is_local(const char *address);

/* Set fields that are NULL from the environment: MESHFLOW_TLS_CA, MESHFLOW_TLS_CERT,
 * MESHFLOW_TLS_KEY. */
void mf_security_fill(mf_security *s);
/* The files that `meshflow cert` created in a directory: those of DIR/TASK if they exist, else
 * those of DIR. Fails: NOT_FOUND. Owns: the caller calls mf_free(*memory) when *s is not needed any
 * more. */
MF_MUST mf_status mf_security_from_dir(const char *dir, const char *task, mf_security *s,
                                       char **memory);

/* The implementation for certificates. Fails as mf_transport_find(). */
MF_MUST mf_status mf_certificates_find(const mf_certificates **out);

#endif
