/* SPDX-License-Identifier: Apache-2.0 */
/* network_trust.c - checks whether the security settings allow a connection to an address. */
#include "plugins/common/network_trust.h"

bool mf_security_has_tls(const mf_security *s)
{
    return s->ca || s->cert || s->key;
}

mf_status mf_security_check_files(const mf_security *s)
{
    if (mf_security_has_tls(s) && (!s->ca || !s->cert || !s->key))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "TLS needs an authority, a certificate and a key; %s is missing (%s)",
                       !s->ca     ? "the authority"
                       : !s->cert ? "the certificate"
                                  : "the key",
                       !s->ca     ? "MESHFLOW_TLS_CA"
                       : !s->cert ? "MESHFLOW_TLS_CERT"
                                  : "MESHFLOW_TLS_KEY");
    return MF_OK;
}

mf_status mf_security_check_address(const mf_security *s, const mf_endpoint *e, const char *address,
                                    const char *verb)
{
    if (mf_security_has_tls(s) || s->insecure_any_peer || mf_endpoint_is_loopback(e))
        return MF_OK;
    return MF_FAIL(
        MF_FAILED_PRECONDITION,
        "%s %s without TLS would accept any peer on the network: create certificates with "
        "`meshflow cert --out DIR --host NAME` and name them with --tls-dir DIR or "
        "MESHFLOW_TLS_CA, MESHFLOW_TLS_CERT and MESHFLOW_TLS_KEY (--insecure-any-peer allows it)",
        verb, address);
}
