/* SPDX-License-Identifier: Apache-2.0 */
/* cert.c - creates certificates, with the library that gRPC uses for TLS, so formats are
 * compatible. */
#include "base/mem.h"
#include "plugins/grpc/grpc_plugin.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

static mf_status grpc_cert_failed(const char *what)
{
    char why[200];

    ERR_error_string_n(ERR_get_error(), why, sizeof why);
    return MF_FAIL(MF_INTERNAL, "cannot make %s: %s", what, why);
}

/* ---- PEM ---- */

static mf_status grpc_cert_text_of(BIO *b, char **out)
{
    char *data;
    const long n = BIO_get_mem_data(b, &data);

    *out = n > 0 ? mf_strndup(data, (size_t)n) : NULL;
    return *out ? MF_OK : MF_NOMEM("a certificate");
}

static mf_status write_pem(X509 *x, EVP_PKEY *key, mf_certificate *out)
{
    BIO *a = BIO_new(BIO_s_mem()), *b = BIO_new(BIO_s_mem());
    mf_status st = MF_OK;

    if (!a || !b || !PEM_write_bio_X509(a, x) ||
        !PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL))
        st = grpc_cert_failed("a certificate");
    if (st == MF_OK)
        st = grpc_cert_text_of(a, &out->cert);
    if (st == MF_OK)
        st = grpc_cert_text_of(b, &out->key);
    BIO_free(a);
    BIO_free(b);
    return st;
}

static mf_status read_pem(const mf_certificate *in, X509 **x, EVP_PKEY **key)
{
    BIO *a = BIO_new_mem_buf(in->cert, -1), *b = BIO_new_mem_buf(in->key, -1);

    *x = a ? PEM_read_bio_X509(a, NULL, NULL, NULL) : NULL;
    *key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, NULL) : NULL;
    BIO_free(a);
    BIO_free(b);
    if (!*x || !*key || !X509_check_private_key(*x, *key))
        return MF_FAIL(MF_INVALID_ARGUMENT, "certificate and key of the authority do not match");
    return MF_OK;
}

/* ---- contents ---- */

static mf_status add_extension(X509 *x, X509 *ca, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, ca, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok ? MF_OK : grpc_cert_failed("an extension of a certificate");
}

static mf_status add_name(GENERAL_NAMES *names, int type, const void *bytes, size_t n)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = type == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();

    if (!name || !value || !ASN1_STRING_set(value, bytes, (int)n) ||
        !sk_GENERAL_NAME_push(names, name)) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return grpc_cert_failed("a name of a certificate");
    }
    GENERAL_NAME_set0_value(name, type, value);
    return MF_OK;
}

static mf_status grpc_cert_add_host(GENERAL_NAMES *names, const char *host)
{
    unsigned char bytes[16];

    if (inet_pton(AF_INET, host, bytes) == 1)
        return add_name(names, GEN_IPADD, bytes, 4);
    if (inet_pton(AF_INET6, host, bytes) == 1)
        return add_name(names, GEN_IPADD, bytes, 16);
    for (const char *p = host; *p || p == host; p++) {
        const bool good = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                          (*p >= '0' && *p <= '9') || *p == '-' || *p == '.' || *p == '_' ||
                          (*p == '*' && p == host);

        if (!good)
            return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is neither a host name nor an address", host);
    }
    return add_name(names, GEN_DNS, host, strlen(host));
}

static mf_status grpc_cert_add_task(GENERAL_NAMES *names, const char *task)
{
    char uri[256];
    size_t n = (size_t)snprintf(uri, sizeof uri, MF_CERTIFICATE_TASK);

    for (const char *p = task; *p; p++) {
        if (n + 4 >= sizeof uri || *p < ' ' || *p > '~' || *p == '%' || *p == '/')
            return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is not a valid task name", task);
        if (*p == ' ')
            n += (size_t)snprintf(uri + n, sizeof uri - n, "%%20");
        else
            uri[n++] = *p;
    }
    return add_name(names, GEN_URI, uri, n);
}

static mf_status grpc_cert_add_names(X509 *x, const mf_certificate_options *o)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    mf_status st = names ? MF_OK : grpc_cert_failed("a certificate");

    for (int i = 0; i < o->n_hosts && st == MF_OK; i++)
        st = grpc_cert_add_host(names, o->hosts[i]);
    if (st == MF_OK && o->task)
        st = grpc_cert_add_task(names, o->task);
    if (st == MF_OK && sk_GENERAL_NAME_num(names) > 0 &&
        X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) != 1)
        st = grpc_cert_failed("names of a certificate");
    GENERAL_NAMES_free(names);
    return st;
}

static mf_status add_extensions(X509 *x, X509 *ca, const mf_certificate_options *o)
{
    const bool is_ca = x == ca;
    const bool is_client = o->task && strcmp(o->task, MF_CERTIFICATE_CLIENT) == 0;

    MF_TRY(add_extension(x, ca, NID_basic_constraints,
                         is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE"));
    MF_TRY(add_extension(x, ca, NID_key_usage,
                         is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"));
    if (!is_ca)
        MF_TRY(add_extension(x, ca, NID_ext_key_usage,
                             is_client ? "clientAuth" : "serverAuth,clientAuth"));
    MF_TRY(add_extension(x, ca, NID_subject_key_identifier, "hash"));
    MF_TRY(add_extension(x, ca, NID_authority_key_identifier, "keyid"));
    return grpc_cert_add_names(x, o);
}

static mf_status grpc_cert_fill(X509 *x, const mf_certificate_options *o, X509 *ca, EVP_PKEY *key)
{
    X509_NAME *name = X509_get_subject_name(x);
    ASN1_INTEGER *serial = X509_get_serialNumber(x);
    unsigned char bytes[8];
    BIGNUM *number;
    bool ok;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return grpc_cert_failed("a random number");
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 1); /* positive and not zero */
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    ok = number && BN_to_ASN1_INTEGER(number, serial) && X509_set_version(x, 2) &&
         ASN1_TIME_set(X509_getm_notBefore(x), o->begin_s) &&
         ASN1_TIME_set(X509_getm_notAfter(x), o->end_s) && X509_set_pubkey(x, key) &&
         X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Meshflow", -1,
                                    -1, 0) &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)o->name, -1,
                                    -1, 0) &&
         X509_set_issuer_name(x, X509_get_subject_name(ca));
    BN_free(number);
    if (!ok)
        return grpc_cert_failed("a certificate");
    return add_extensions(x, ca, o);
}

static mf_status openssl_make(const mf_certificate_options *o, const mf_certificate *ca,
                              mf_certificate *out)
{
    EVP_PKEY *key = EVP_EC_gen("P-256"), *ca_key = NULL;
    X509 *x = X509_new(), *ca_cert = NULL;
    mf_status st = MF_OK;

    *out = (mf_certificate){ 0 };
    ERR_clear_error();
    if (!key || !x) {
        st = grpc_cert_failed("a key");
        goto done;
    }
    if (ca)
        MF_TRY_TO(done, read_pem(ca, &ca_cert, &ca_key));
    MF_TRY_TO(done, grpc_cert_fill(x, o, ca ? ca_cert : x, key));
    if (X509_sign(x, ca ? ca_key : key, EVP_sha256()) <= 0) {
        st = grpc_cert_failed("a signature");
        goto done;
    }
    st = write_pem(x, key, out);

done:
    if (st != MF_OK) {
        mf_free(out->cert);
        mf_free(out->key);
        *out = (mf_certificate){ 0 };
    }
    EVP_PKEY_free(ca_key);
    X509_free(ca_cert);
    EVP_PKEY_free(key);
    X509_free(x);
    return st;
}

static mf_status openssl_ends(const char *pem, int64_t *out_s)
{
    BIO *in = BIO_new_mem_buf(pem, -1);
    X509 *x = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    struct tm end;
    const bool read = x && ASN1_TIME_to_tm(X509_get0_notAfter(x), &end) == 1;

    *out_s = read ? (int64_t)timegm(&end) : 0;
    X509_free(x);
    BIO_free(in);
    ERR_clear_error();
    return read ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "it contains no certificate");
}

const mf_certificates mf_certificates_openssl = { .make = openssl_make, .ends = openssl_ends };
