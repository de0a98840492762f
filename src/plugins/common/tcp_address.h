/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.h - "host:port": whether it is safe to listen there, and who is at the other end. */
#ifndef MF_COMMON_TCP_ADDRESS_H
#define MF_COMMON_TCP_ADDRESS_H

#include "base/status.h"

#include <sys/socket.h>

enum { MF_ADDRESS_MAX = 160 };

typedef struct mf_endpoint {
    struct sockaddr_storage at;
    socklen_t size;
} mf_endpoint;

/* What "host:port" or "[host]:port" means; the first answer of the resolver. Fails:
 * INVALID_ARGUMENT, UNAVAILABLE (the name is not known, now). */
MF_MUST mf_status mf_endpoint_parse(const char *address, mf_endpoint *out);
/* As numbers: "127.0.0.1:80", "[::1]:80". Reading asks no resolver. */
MF_MUST mf_status mf_endpoint_read(const char *numbers, mf_endpoint *out);
void mf_endpoint_print(const mf_endpoint *e, char out[MF_ADDRESS_MAX]);
bool mf_endpoint_is_loopback(const mf_endpoint *e);
/* 0.0.0.0 or [::]: every address of this host. */
bool mf_endpoint_is_any(const mf_endpoint *e);
/* Also if one is written as an IPv6 address. */
bool mf_endpoint_same(const mf_endpoint *a, const mf_endpoint *b);
int mf_endpoint_port(const mf_endpoint *e);
void mf_endpoint_set_port(mf_endpoint *e, int port);

/* Where to listen so that whoever knows `meet` can reach us, with any port: the address from which
 * this host would speak to it. */
MF_MUST mf_status mf_endpoint_towards(const char *meet, mf_endpoint *out);

/* Both ends of a TCP connection are on this host: the one at `theirs`, connected with `ours`,
 * belongs to our user. ours NULL: the one that listens there. PERMISSION_DENIED. */
MF_MUST mf_status mf_endpoint_check_owner(const mf_endpoint *theirs, const mf_endpoint *ours);

#endif
