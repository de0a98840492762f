/* SPDX-License-Identifier: Apache-2.0 */
/* iovec.h - a piece of a message that lies somewhere else than its other pieces. */
#ifndef MF_BASE_IOVEC_H
#define MF_BASE_IOVEC_H

#include <stddef.h>

/* The bytes stay as they are until release(ctx) is called, once, by whoever has the part, from any
 * thread. release NULL: they are there only as long as the call they were given to. */
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

/* Bytes from a place in the whole on, which are there, to memory. */
void mf_iovec_gather(const mf_iovec *parts, int n, size_t from, size_t size, void *out);

static inline void mf_iovec_release(const mf_iovec *parts, int n)
{
    for (int i = 0; i < n; i++) {
        if (parts[i].release)
            parts[i].release(parts[i].ctx);
    }
}

#endif
