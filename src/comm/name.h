/* SPDX-License-Identifier: Apache-2.0 */
/* name.h - is the name of a host known here? */
#ifndef MF_COMM_NAME_H
#define MF_COMM_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The host of "host:port" cannot be looked up; then *why says so: "the name 'a' does not resolve:
 * ...". May take as long as the name servers take. */
bool mf_name_is_unknown(const char *address, char *why, size_t size);

#endif
