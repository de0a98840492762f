/* SPDX-License-Identifier: Apache-2.0 */
/* network_trust.h - checks that the security settings allow a connection. */
#ifndef MF_COMMON_NETWORK_TRUST_H
#define MF_COMMON_NETWORK_TRUST_H

#include "net/transport.h"
#include "plugins/common/tcp_address.h"

/* Are files for TLS configured? */
bool mf_security_has_tls(const mf_security *s);
/* All three of them, or none. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_security_check_files(const mf_security *s);
/* Without TLS, only loopback addresses are allowed, unless configured otherwise. Fails:
 * FAILED_PRECONDITION. */
MF_MUST mf_status mf_security_check_address(const mf_security *s, const mf_endpoint *e,
                                            const char *address, const char *verb);

#endif
