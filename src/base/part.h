/* SPDX-License-Identifier: Apache-2.0 */
/* part.h - a piece of a message that lies somewhere else than its other pieces. */
#ifndef MF_BASE_PART_H
#define MF_BASE_PART_H

#include <stddef.h>

/* The bytes stay as they are until release(ctx) is called, once, by whoever has the part, from any
 * thread. release NULL: they are there only as long as the call they were given to. */
typedef struct mf_part {
    const void *data;
    size_t size;
    void (*release)(void *ctx);
    void *ctx;
} mf_part;

static inline size_t mf_parts_size(const mf_part *parts, int n)
{
    size_t size = 0;

    for (int i = 0; i < n; i++)
        size += parts[i].size;
    return size;
}

/* Bytes from a place in the whole on, which are there, to memory. */
void mf_parts_gather(const mf_part *parts, int n, size_t from, size_t size, void *out);

static inline void mf_parts_release(const mf_part *parts, int n)
{
    for (int i = 0; i < n; i++) {
        if (parts[i].release)
            parts[i].release(parts[i].ctx);
    }
}

#endif
