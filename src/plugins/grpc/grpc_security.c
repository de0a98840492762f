/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_security.c - access control: with TLS, peers with a certificate of our authority; without
 * TLS, processes of our user on this host. */
#include "base/mem.h"
#include "net/certificates.h"
#include "plugins/grpc/grpc_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20 };

/* ---- files ---- */

static mf_status grpc_security_read_file(const char *path, char **out)
{
    FILE *f = fopen(path, "re");
    size_t n;

    *out = NULL;
    if (!f)
        return MF_FAIL(errno == ENOENT ? MF_NOT_FOUND : MF_PERMISSION_DENIED,
                       "cannot read '%s': %s", path, strerror(errno));
    *out = mf_calloc(FILE_MAX + 1, 1);
    n = *out ? fread(*out, 1, FILE_MAX, f) : 0;
    (void)fclose(f);
    if (!*out)
        return MF_NOMEM("a certificate");
    if (n == 0 || n == FILE_MAX || !strstr(*out, "-----BEGIN "))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is not a PEM file", path);
    return MF_OK;
}

/* ---- credentials ---- */

mf_status security_open(const mf_security *s, grpc_server_credentials **server,
                        grpc_channel_credentials **client)
{
    char *ca = NULL, *cert = NULL, *key = NULL;
    mf_status st = MF_OK;

    if (!mf_security_has_tls(s)) {
        *server = grpc_insecure_server_credentials_create();
        *client = grpc_insecure_credentials_create();
        return MF_OK;
    }
    MF_TRY_TO(done, grpc_security_read_file(s->ca, &ca));
    MF_TRY_TO(done, grpc_security_read_file(s->cert, &cert));
    MF_TRY_TO(done, grpc_security_read_file(s->key, &key));
    MF_TRY_TO(done, security_check_own(s, ca, cert, key));
    grpc_ssl_pem_key_cert_pair pair = { .private_key = key, .cert_chain = cert };

    *server = grpc_ssl_server_credentials_create_ex(
        ca, &pair, 1, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
    *client = grpc_ssl_credentials_create(ca, &pair, NULL, NULL);
    if (!*server || !*client)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s', '%s' and '%s' are not usable for TLS", s->ca,
                     s->cert, s->key);
done:
    mf_free(ca);
    mf_free(cert);
    if (key)
        explicit_bzero(key, strlen(key));
    mf_free(key);
    return st;
}

/* ---- peers ---- */

/* The value of "name=worker 2" in a greeting, escaped as in a URI. */
static void name_in(const char *hello, char *out, size_t size)
{
    const char *p = strncmp(hello, "name=", 5) == 0 ? hello : strstr(hello, "\nname=");
    size_t n = 0;

    p = p ? strchr(p, '=') + 1 : "";
    for (; *p && *p != '\n' && n + 4 < size; p++) {
        if (*p == ' ')
            n += (size_t)snprintf(out + n, size - n, "%%20");
        else
            out[n++] = *p;
    }
    out[n] = '\0';
}

/* Append a line, with %20 converted to a space. A name that does not fit must not look like another
 * name. */
static void add_line(char *out, size_t size, const char *uri, size_t len)
{
    size_t n = strlen(out);

    if (n + len + 2 > size) {
        (void)snprintf(out, size, "?");
        return;
    }
    if (n > 0)
        out[n++] = '\n';
    for (size_t i = 0; i < len; n++) {
        const bool space = len - i >= 3 && strncmp(uri + i, "%20", 3) == 0;

        out[n] = space ? ' ' : uri[i];
        i += space ? 3 : 1;
    }
    out[n] = '\0';
}

/* Names in readable form. */
static mf_status refuse_name(const char *name, const char *other)
{
    char says[256] = "", is[256] = "";

    add_line(says, sizeof says, name, strlen(name));
    add_line(is, sizeof is, other, strlen(other));
    return MF_FAIL(MF_PERMISSION_DENIED,
                   "it identifies itself as %s, but its certificate is that of %s; use the one "
                   "of `meshflow cert --task '%s'`",
                   says, is, says);
}

/* A certificate that names tasks is valid for these only. */
static mf_status check_certificate(grpc_call *call, const char *hello)
{
    const size_t n = strlen(MF_CERTIFICATE_TASK);
    grpc_auth_context *who = grpc_call_auth_context(call);
    grpc_auth_property_iterator at;
    const grpc_auth_property *p;
    char name[256], other[256] = "";
    bool named = false, fits = false;

    if (!who || !grpc_auth_context_peer_is_authenticated(who)) {
        grpc_auth_context_release(who);
        return MF_FAIL(MF_UNAUTHENTICATED, "it has no certificate");
    }
    name_in(hello, name, sizeof name);
    at = grpc_auth_context_find_properties_by_name(who, GRPC_X509_SAN_PROPERTY_NAME);
    while ((p = grpc_auth_property_iterator_next(&at)) != NULL) {
        if (p->value_length <= n || strncmp(p->value, MF_CERTIFICATE_TASK, n) != 0)
            continue;
        named = true;
        (void)snprintf(other, sizeof other, "%.*s", (int)(p->value_length - n), p->value + n);
        fits |= strcmp(other, name) == 0;
    }
    grpc_auth_context_release(who);
    if (named && !fits)
        return refuse_name(name, other);
    return MF_OK;
}

void security_tasks(grpc_call *call, char *out, size_t size)
{
    const size_t head = strlen(MF_CERTIFICATE_TASK);
    grpc_auth_context *who = grpc_call_auth_context(call);
    grpc_auth_property_iterator at;
    const grpc_auth_property *p;

    out[0] = '\0';
    if (!who)
        return;
    at = grpc_auth_context_find_properties_by_name(who, GRPC_X509_SAN_PROPERTY_NAME);
    while ((p = grpc_auth_property_iterator_next(&at)) != NULL) {
        if (p->value_length > head && strncmp(p->value, MF_CERTIFICATE_TASK, head) == 0)
            add_line(out, size, p->value + head, p->value_length - head);
    }
    grpc_auth_context_release(who);
}

mf_status security_check_peer(stream *s, const char *hello)
{
    mf_endpoint theirs, ours;

    MF_TRY(socket_claim(s, &theirs, &ours));
    if (mf_security_has_tls(&s->t->security))
        return check_certificate(s->call, hello);
    if (s->t->security.insecure_any_peer && !mf_endpoint_is_loopback(&theirs))
        return MF_OK;
    return mf_endpoint_check_owner(&theirs, &ours);
}
