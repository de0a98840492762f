/* SPDX-License-Identifier: Apache-2.0 */
/* iovec.c - copies a message's separate buffers into one. */
#include "base/iovec.h"

#include <string.h>

void mf_iovec_gather(const mf_iovec *parts, int n, size_t from, size_t size, void *out)
{
    char *to = out;
    size_t at = 0;

    for (int i = 0; i < n && size > 0; at += parts[i++].size) {
        const size_t a = from > at ? from - at : 0;
        const size_t here = a < parts[i].size ? parts[i].size - a : 0;
        const size_t some = here < size ? here : size;

        if (some > 0)
            memcpy(to, (const char *)parts[i].data + a, some);
        to += some;
        from += some;
        size -= some;
    }
}
