/* SPDX-License-Identifier: Apache-2.0 */
/* iovec.h - one of several separate buffers that form a message. */
#ifndef MF_BASE_IOVEC_H
#define MF_BASE_IOVEC_H

#include <stddef.h>

/* The bytes stay unchanged until release(ctx) is called: once, by the owner of the part, from any
 * thread. release NULL: the bytes are valid only during the call that takes the part. */
typedef struct mf_iovec {
    const void *data;
    size_t size;
    void (*release)(void *ctx);
    void *ctx;
} mf_iovec;

static inline size_t mf_iovec_size(const mf_iovec *parts, int n)
{
    size_t size = 0;

    for (int i = 0; i < n; i++)
        size += parts[i].size;
    return size;
}

/* Copy n bytes, which must exist, from offset `from` of the message to memory. */
void mf_iovec_gather(const mf_iovec *parts, int n, size_t from, size_t size, void *out);

static inline void mf_iovec_release(const mf_iovec *parts, int n)
{
    for (int i = 0; i < n; i++) {
        if (parts[i].release)
            parts[i].release(parts[i].ctx);
    }
}

#endif
