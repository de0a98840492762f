/* SPDX-License-Identifier: Apache-2.0 */
/* hostname.h - is the name of a host known here? */
#ifndef MF_NET_HOSTNAME_H
#define MF_NET_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>

/* The host of "host:port" cannot be looked up; then *why says so: "the name 'a' does not resolve:
 * ...". May take as long as the name servers take. */
bool mf_hostname_is_unknown(const char *address, char *why, size_t size);

#endif
