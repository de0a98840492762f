/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.h - "host:port": is it safe to listen there, and which user owns the peer? */
#ifndef MF_COMMON_TCP_ADDRESS_H
#define MF_COMMON_TCP_ADDRESS_H

#include "base/status.h"

#include <sys/socket.h>

enum { MF_ADDRESS_MAX = 160 };

typedef struct mf_endpoint {
    struct sockaddr_storage at;
    socklen_t size;
} mf_endpoint;

/* Resolves "host:port" or "[host]:port" to its first address. Fails: INVALID_ARGUMENT, UNAVAILABLE
 * (the name does not resolve now). */
MF_MUST mf_status mf_endpoint_parse(const char *address, mf_endpoint *out);
/* Numeric form: "127.0.0.1:80", "[::1]:80". Parsing it does not use a resolver. */
MF_MUST mf_status mf_endpoint_read(const char *numbers, mf_endpoint *out);
void mf_endpoint_print(const mf_endpoint *e, char out[MF_ADDRESS_MAX]);
bool mf_endpoint_is_loopback(const mf_endpoint *e);
/* 0.0.0.0 or [::]: every address of this host. */
bool mf_endpoint_is_any(const mf_endpoint *e);
/* Also equal if one is an IPv4 address written as IPv6. */
bool mf_endpoint_same(const mf_endpoint *a, const mf_endpoint *b);
int mf_endpoint_port(const mf_endpoint *e);
void mf_endpoint_set_port(mf_endpoint *e, int port);

/* An address on which peers that know `meet` can reach this host, with any port: the source address
 * for connections to it. */
MF_MUST mf_status mf_endpoint_towards(const char *meet, mf_endpoint *out);

/* For a TCP connection inside this host: fails with PERMISSION_DENIED unless the socket at
 * `theirs`, connected with `ours`, belongs to our user. ours NULL: the socket that listens there.
 */
MF_MUST mf_status mf_endpoint_check_owner(const mf_endpoint *theirs, const mf_endpoint *ours);

#endif
