/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - counted tensor storage from a pool that reuses freed blocks, so that a program in its
 * steady state asks the heap for nothing.
 *
 * Storage of types without plain bytes (strings, objects) knows how to release its elements. */
#ifndef MF_TENSOR_BUFFER_H
#define MF_TENSOR_BUFFER_H

#include "base/mem_accounting.h"
#include "base/status.h"
#include "tensor/shared_region.h"

#include <meshflow/tensor.h>

#include <stdatomic.h>

enum { MF_BUFFER_ALIGN = 64 };
#define MF_BUFFER_MOST (INT64_C(1) << 48) /* bytes: no machine has more */

typedef struct mf_buffer {
    atomic_int refs;
    mf_dtype dtype; /* of the elements, when they need releasing */
    int size_class; /* of a pooled block; -1: caller's memory */
    bool read_only; /* caller's memory that must not be written */
    size_t bytes; /* usable */
    void *data;
    void (*release)(void *data, void *ctx); /* caller's memory only */
    void *ctx;
    struct mf_buffer *next_free; /* in the pool's list */
    mf_mem_account *account; /* a reference to whom it counts for; NULL: nobody */
} mf_buffer;

/* Uninitialised storage for `count` elements (cells of strings and objects are zeroed).
 * Fails: RESOURCE_EXHAUSTED, also beyond the limit of base/quota.h. */
MF_MUST mf_status mf_buffer_new(mf_dtype dtype, int64_t count, mf_buffer **out);
MF_MUST mf_status mf_buffer_wrap(void *data, size_t bytes, void (*release)(void *, void *),
                                 void *ctx, mf_buffer **out);
/* The part's bytes, which nobody writes: they count as storage does. The part is released with the
 * last reference; on failure it stays the caller's. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_buffer_borrow(const mf_iovec *part, mf_buffer **out);

static inline mf_buffer *mf_buffer_ref(mf_buffer *b)
{
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}
void mf_buffer_unref(mf_buffer *b);
/* Bytes of it, or of memory that it keeps: the part takes over a reference. */
mf_iovec mf_buffer_part(mf_buffer *b, const void *data, size_t size);

/* Only this reference exists, so its holder may write. */
static inline bool mf_buffer_is_sole(const mf_buffer *b)
{
    if (b->read_only)
        return false;
    if (atomic_load_explicit(&b->refs, memory_order_acquire) == 1)
        return true;
    if (atomic_load_explicit(&mf_shared_region_lent, memory_order_relaxed) == 0)
        return false;
    mf_shared_region_settle(); /* another process may have had it */
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

/* What storage of so many bytes, at most MF_BUFFER_MOST, takes: sizes come in classes. */
int64_t mf_buffer_room(int64_t bytes);
/* Bytes in live buffers now, and blocks ever taken from the heap (tests count them). */
int64_t mf_buffer_live_bytes(void);
int64_t mf_buffer_heap_calls(void);
/* Give cached blocks back to the system. */
void mf_buffer_trim(void);
/* Somebody is done: what was needed so far says nothing of what will be. Beyond buffer_cache_mib,
 * cached blocks go back to the system. */
void mf_buffer_settle(void);

#endif
