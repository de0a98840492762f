/* SPDX-License-Identifier: Apache-2.0 */
/* hostname.h - checks that a host name resolves. */
#ifndef MF_NET_HOSTNAME_H
#define MF_NET_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>

/* True: the host of "host:port" does not resolve; *why is then "the name 'a' does not resolve:
 * ...". Blocks as long as the name servers take. */
bool mf_hostname_is_unknown(const char *address, char *why, size_t size);

#endif
