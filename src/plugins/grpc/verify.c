/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - checks our own certificate first, because peers would only close the connection. */
#include "plugins/grpc/grpc_wire.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/* All certificates of a PEM text; the first one, and the rest. */
static STACK_OF(X509) * read_all(const char *pem)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    BIO *in = BIO_new_mem_buf(pem, -1);
    X509 *x;

    while (all && in && (x = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
        if (!sk_X509_push(all, x))
            X509_free(x);
    }
    BIO_free(in);
    ERR_clear_error(); /* the end of the text counts as an error */
    return all;
}

static mf_status grpc_verify_check_key(const mf_security *s, X509 *cert, const char *key)
{
    BIO *in = BIO_new_mem_buf(key, -1);
    EVP_PKEY *k = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    mf_status st = MF_OK;

    if (!k)
        st =
            MF_FAIL(MF_INVALID_ARGUMENT, "'%s' contains no private key without a password", s->key);
    else if (X509_check_private_key(cert, k) != 1)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is not the key of '%s'", s->key, s->cert);
    EVP_PKEY_free(k);
    BIO_free(in);
    ERR_clear_error();
    return st;
}

static const char *reason_of(int error)
{
    switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "it is from another authority";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "it has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "it is not valid yet, or the clock of this host is wrong";
    default:
        return X509_verify_cert_error_string(error);
    }
}

static mf_status check_chain(const mf_security *s, STACK_OF(X509) * authorities,
                             STACK_OF(X509) * chain)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    mf_status st = MF_OK;

    for (int i = 0; store && i < sk_X509_num(authorities); i++)
        (void)X509_STORE_add_cert(store, sk_X509_value(authorities, i));
    if (!store || !ctx || !X509_STORE_CTX_init(ctx, store, sk_X509_value(chain, 0), chain))
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "out of memory for certificates");
    else if (X509_verify_cert(ctx) != 1)
        st = MF_FAIL(MF_UNAUTHENTICATED,
                     "certificate '%s' is not valid with authority '%s': %s (`meshflow cert` "
                     "creates new ones)",
                     s->cert, s->ca, reason_of(X509_STORE_CTX_get_error(ctx)));
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return st;
}

mf_status security_check_serves(const mf_security *s)
{
    FILE *f = s->cert ? fopen(s->cert, "re") : NULL;
    X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    const bool serves = !x || X509_check_purpose(x, X509_PURPOSE_SSL_SERVER, 0) == 1;

    X509_free(x);
    if (f)
        (void)fclose(f);
    ERR_clear_error();
    if (!serves)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "certificate '%s' is for clients only: a task cannot listen with it",
                       s->cert);
    return MF_OK;
}

mf_status security_check_own(const mf_security *s, const char *ca, const char *cert,
                             const char *key)
{
    STACK_OF(X509) *authorities = read_all(ca), *chain = read_all(cert);
    mf_status st = MF_OK;

    if (!authorities || sk_X509_num(authorities) == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' contains no certificate", s->ca);
    else if (!chain || sk_X509_num(chain) == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' contains no certificate", s->cert);
    if (st == MF_OK)
        st = grpc_verify_check_key(s, sk_X509_value(chain, 0), key);
    if (st == MF_OK)
        st = check_chain(s, authorities, chain);
    sk_X509_pop_free(authorities, X509_free);
    sk_X509_pop_free(chain, X509_free);
    return st;
}
