/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_address.c - TCP addresses. */
#include "plugins/common/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mf_status common_tcp_address_parse(const char *address, int flags, mf_endpoint *out)
{
    const struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    char host[MF_ADDRESS_MAX];
    size_t len = colon ? (size_t)(colon - address) : 0;
    int why;

    if (len == 0 || len >= sizeof host || colon[1] == '\0')
        return MF_FAIL(MF_INVALID_ARGUMENT, "address '%s' is not HOST:PORT", address);
    memcpy(host, address, len);
    host[len] = '\0';
    if (host[0] == '[' && host[len - 1] == ']') {
        memmove(host, host + 1, len - 2);
        host[len - 2] = '\0';
    }
    why = getaddrinfo(host, colon + 1, &want, &found);
    if (why != 0)
        return MF_FAIL(MF_UNAVAILABLE, "the name '%s' does not resolve: %s", host,
                       gai_strerror(why));
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return MF_OK;
}

mf_status mf_endpoint_parse(const char *address, mf_endpoint *out)
{
    return common_tcp_address_parse(address, 0, out);
}

mf_status mf_endpoint_read(const char *numbers, mf_endpoint *out)
{
    return common_tcp_address_parse(numbers, AI_NUMERICHOST, out);
}

void mf_endpoint_print(const mf_endpoint *e, char out[MF_ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    const bool six = e->at.ss_family == AF_INET6;

    if (getnameinfo((const struct sockaddr *)&e->at, e->size, host, sizeof host, NULL, 0,
                    NI_NUMERICHOST) != 0)
        (void)snprintf(host, sizeof host, "?");
    (void)snprintf(out, MF_ADDRESS_MAX, six ? "[%s]:%d" : "%s:%d", host, mf_endpoint_port(e));
}

bool mf_endpoint_is_loopback(const mf_endpoint *e)
{
    if (e->at.ss_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)&e->at)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return ntohl(((const struct sockaddr_in *)&e->at)->sin_addr.s_addr) >> 24 == 127;
}

bool mf_endpoint_is_any(const mf_endpoint *e)
{
    if (e->at.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&e->at)->sin6_addr);
    return ((const struct sockaddr_in *)&e->at)->sin_addr.s_addr == htonl(INADDR_ANY);
}

int mf_endpoint_port(const mf_endpoint *e)
{
    return ntohs(e->at.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&e->at)->sin6_port
                                             : ((const struct sockaddr_in *)&e->at)->sin_port);
}

void mf_endpoint_set_port(mf_endpoint *e, int port)
{
    if (e->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&e->at)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&e->at)->sin_port = htons((uint16_t)port);
}

/* Connecting a datagram socket sends nothing: the kernel only selects a route. */
mf_status mf_endpoint_towards(const char *meet, mf_endpoint *out)
{
    mf_endpoint there;
    int fd;
    bool ok;

    MF_TRY(mf_endpoint_parse(meet, &there));
    fd = socket(there.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    out->size = sizeof out->at;
    ok = fd >= 0 && connect(fd, (struct sockaddr *)&there.at, there.size) == 0 &&
         getsockname(fd, (struct sockaddr *)&out->at, &out->size) == 0;
    if (!ok)
        (void)MF_FAIL(MF_UNAVAILABLE, "no route to %s: %s", meet, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (!ok)
        return MF_UNAVAILABLE;
    mf_endpoint_set_port(out, 0);
    return MF_OK;
}

/* ---- owner of the peer ---- */

/* The 128 bits of an address, IPv4 mapped into IPv6. */
static void common_tcp_address_bits_of(const mf_endpoint *e, uint32_t word[4])
{
    word[0] = word[1] = 0;
    word[2] = htonl(0xffff);
    if (e->at.ss_family == AF_INET6)
        memcpy(word, &((const struct sockaddr_in6 *)&e->at)->sin6_addr, 16);
    else
        word[3] = ((const struct sockaddr_in *)&e->at)->sin_addr.s_addr;
}

bool mf_endpoint_same(const mf_endpoint *a, const mf_endpoint *b)
{
    uint32_t x[4], y[4];

    common_tcp_address_bits_of(a, x);
    common_tcp_address_bits_of(b, y);
    return memcmp(x, y, sizeof x) == 0 && mf_endpoint_port(a) == mf_endpoint_port(b);
}

/* In the format of the kernel's socket table: 32-bit words in the machine's byte order. */
static void table_form(const mf_endpoint *e, bool six, char out[48])
{
    uint32_t word[4];

    common_tcp_address_bits_of(e, word);
    if (six)
        (void)snprintf(out, 48, "%08X%08X%08X%08X:%04X", word[0], word[1], word[2], word[3],
                       (unsigned)mf_endpoint_port(e));
    else
        (void)snprintf(out, 48, "%08X:%04X", word[3], (unsigned)mf_endpoint_port(e));
}

enum { ESTABLISHED = 1, LISTENS = 10 }; /* socket states in that table */

/* Returns -1 if the socket is not in this table. */
static long owner_in(const char *table, bool six, const mf_endpoint *theirs,
                     const mf_endpoint *ours)
{
    char line[512], want_local[48], want_remote[48], local[48], remote[48];
    FILE *f = fopen(table, "re");
    long owner = -1;

    if (!f)
        return -1;
    table_form(theirs, six, want_local);
    if (ours)
        table_form(ours, six, want_remote);
    while (owner < 0 && fgets(line, sizeof line, f)) {
        unsigned state;
        long uid;

        if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %ld", local, remote, &state, &uid) == 4 &&
            strcmp(local, want_local) == 0 &&
            (ours ? state == ESTABLISHED && strcmp(remote, want_remote) == 0 : state == LISTENS))
            owner = uid;
    }
    (void)fclose(f);
    return owner;
}

mf_status mf_endpoint_check_owner(const mf_endpoint *theirs, const mf_endpoint *ours)
{
    char text[MF_ADDRESS_MAX];
    long uid = -1;

    if (uid < 0)
        uid = owner_in("/proc/net/tcp", false, theirs, ours);
    if (uid < 0)
        uid = owner_in("/proc/net/tcp6", true, theirs, ours);
    if (uid == (long)geteuid())
        return MF_OK;
    mf_endpoint_print(theirs, text);
    if (uid < 0)
        return MF_FAIL(MF_PERMISSION_DENIED, "cannot determine the owner of the process at %s",
                       text);
    return MF_FAIL(
        MF_PERMISSION_DENIED,
        "the process at %s belongs to another user (%ld); without TLS only processes of the same "
        "user are accepted",
        text, uid);
}
