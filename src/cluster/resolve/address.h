/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - "host:port", "[::1]:2222". */
#ifndef MF_CLUSTER_RESOLVE_ADDRESS_H
#define MF_CLUSTER_RESOLVE_ADDRESS_H

#include "base/status.h"

enum { MF_HOST_MAX = 256, MF_PORT_MAX = 65535 };

typedef struct mf_address {
    char host[MF_HOST_MAX]; /* without brackets */
    int port; /* 1 to 65535 */
} mf_address;

typedef struct mf_address_error {
    char problem[192]; /* "port '22x' is not a number" */
    const char *fix;
} mf_address_error;

/* False, with *error set, for text that is not an address. */
bool mf_address_parse(const char *text, mf_address *out, mf_address_error *error);

/* Letters, digits, '.', '-' and '_' only; not empty, not too long. */
bool mf_host_is_name(const char *text, size_t len);

/* A whole number in [min, max], digits only. */
bool mf_number_parse(const char *text, size_t len, int64_t min, int64_t max, int64_t *out);

#endif
