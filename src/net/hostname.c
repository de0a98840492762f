/* SPDX-License-Identifier: Apache-2.0 */
/* hostname.c - checks with getaddrinfo() whether a host name is unknown. */
#include "net/hostname.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool mf_hostname_is_unknown(const char *address, char *why, size_t size)
{
    const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    char host[256];
    int bad;

    if (!colon || address[0] == '[' || (size_t)(colon - address) >= sizeof host)
        return false; /* not a name */
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    bad = getaddrinfo(host, NULL, &wanted, &found);
    if (found)
        freeaddrinfo(found);
    if (bad)
        (void)snprintf(why, size, "the name '%s' does not resolve: %s", host, gai_strerror(bad));
    return bad != 0;
}
