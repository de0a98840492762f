/* SPDX-License-Identifier: Apache-2.0 */
/* network_trust.h - whether it is safe to talk to others as one is told to. */
#ifndef MF_COMMON_NETWORK_TRUST_H
#define MF_COMMON_NETWORK_TRUST_H

#include "net/transport.h"
#include "plugins/common/tcp_address.h"

/* Files for TLS are named. */
bool mf_security_has_tls(const mf_security *s);
/* All three of them, or none. INVALID_ARGUMENT. */
MF_MUST mf_status mf_security_check_files(const mf_security *s);
/* Without TLS, loopback only, unless told otherwise. FAILED_PRECONDITION. */
MF_MUST mf_status mf_security_check_address(const mf_security *s, const mf_endpoint *e,
                                            const char *address, const char *verb);

#endif
