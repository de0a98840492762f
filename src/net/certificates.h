/* SPDX-License-Identifier: Apache-2.0 */
/* certificates.h - the interface of what makes certificates for mutual TLS: a certificate authority
 * of one's own, for tests and closed sites. */
#ifndef MF_NET_CERTIFICATES_H
#define MF_NET_CERTIFICATES_H

#include "base/status.h"

/* A certificate, its key, and who has signed it; PEM. Owns: mf_free() each. */
typedef struct mf_certificate {
    char *cert, *key;
} mf_certificate;

typedef struct mf_certificate_options {
    const char *name; /* CN, for people */
    const char *task; /* it speaks for this task and no other; NULL: for any */
    const char *const *hosts; /* names and addresses it may be reached at */
    int n_hosts;
    int64_t begin_s, end_s; /* valid, in seconds since 1970 */
} mf_certificate_options;

typedef struct mf_certificates {
    /* Signed by `ca`, or (NULL) by itself: an authority. */
    mf_status (*make)(const mf_certificate_options *o, const mf_certificate *ca,
                      mf_certificate *out);
    /* Until when the first certificate of a PEM text is good, in seconds since 1970. */
    mf_status (*ends)(const char *pem, int64_t *out_s);
} mf_certificates;

/* How a certificate says for which task it speaks: a subject alternative name of this kind, with
 * what no URI may hold written as %20. */
#define MF_CERTIFICATE_TASK "meshflow:task:"
/* The name of those who are no task: they may ask for sessions, and serve nobody. */
#define MF_CERTIFICATE_CLIENT "client"

#endif
