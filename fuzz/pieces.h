/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h - fragments of messages in separate allocations, so that reads beyond them are detected.
 */
#ifndef MF_FUZZ_PIECES_H
#define MF_FUZZ_PIECES_H

#include "base/iovec.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void piece_release(void *ctx)
{
    free(ctx);
}

static inline mf_iovec piece_of(const uint8_t *data, size_t size)
{
    void *copy = aligned_alloc(64, (size + 64) & ~(size_t)63);

    MF_ASSERT(copy);
    if (size > 0)
        memcpy(copy, data, size);
    return (mf_iovec){ .data = copy, .size = size, .release = piece_release, .ctx = copy };
}

#endif
