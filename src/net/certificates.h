/* SPDX-License-Identifier: Apache-2.0 */
/* certificates.h - the interface for creating certificates for mutual TLS: a private certificate
 * authority, for tests and closed sites. */
#ifndef MF_NET_CERTIFICATES_H
#define MF_NET_CERTIFICATES_H

#include "base/status.h"

/* A certificate, its key, and its issuer's certificate; PEM. Owns: the caller calls mf_free() for
 * each. */
typedef struct mf_certificate {
    char *cert, *key;
} mf_certificate;

typedef struct mf_certificate_options {
    const char *name; /* CN, informative only */
    const char *task; /* valid for this task only; NULL: for any task */
    const char *const *hosts; /* names and addresses of its hosts */
    int n_hosts;
    int64_t begin_s, end_s; /* validity in seconds since 1970 */
} mf_certificate_options;

typedef struct mf_certificates {
    /* Signed by `ca`, or (NULL) self-signed: an authority. */
    mf_status (*make)(const mf_certificate_options *o, const mf_certificate *ca,
                      mf_certificate *out);
    /* Expiry of the first certificate of a PEM text, in seconds since 1970. */
    mf_status (*ends)(const char *pem, int64_t *out_s);
} mf_certificates;

/* Prefix of the subject alternative name that states the task of a certificate; characters that a
 * URI cannot contain are escaped, such as %20. */
#define MF_CERTIFICATE_TASK "meshflow:task:"
/* The task name in certificates of clients: they may open sessions, but not serve. */
#define MF_CERTIFICATE_CLIENT "client"

#endif
