/* SPDX-License-Identifier: Apache-2.0 */
/* transport_registry.h - which transports there are, which one a job needs, and what secures it. */
#ifndef MF_NET_TRANSPORT_REGISTRY_H
#define MF_NET_TRANSPORT_REGISTRY_H

#include "net/certificates.h"
#include "net/transport.h"

/* "local", "grpc", "ucx", "mpi". Fails: INVALID_ARGUMENT (no such name), NOT_FOUND or
 * FAILED_PRECONDITION (its plugin is not here or cannot be used: what to install). */
MF_MUST mf_status mf_transport_find(const char *name, const mf_transport_kind **out);
/* The names, one after the other; NULL at the end. */
const char *mf_transport_name(int i);

/* The one that fits these addresses ("host:port", or names without a port): local if all are on
 * one host, else grpc. NULL addresses say nothing. */
MF_MUST mf_status mf_transport_choose(const char *const *addresses, int n,
                                      const mf_transport_kind **out);
/* "127.0.0.1:80", "localhost:80", "[::1]:80", "name". */
bool mf_address_is_local(const char *address);

/* Fill in from the environment what is NULL: MESHFLOW_TLS_CA, MESHFLOW_TLS_CERT, MESHFLOW_TLS_KEY.
 */
void mf_security_fill(mf_security *s);
/* The files that `meshflow cert` has put into a directory: those of DIR/TASK if it has them, else
 * those of DIR. NOT_FOUND. Owns: mf_free(*memory) when *s is not needed any more. */
MF_MUST mf_status mf_security_from_dir(const char *dir, const char *task, mf_security *s,
                                       char **memory);

/* What makes certificates. Fails as mf_transport_find() does. */
MF_MUST mf_status mf_certificates_find(const mf_certificates **out);

#endif
