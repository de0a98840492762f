/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - reference-counted tensor storage from a pool that reuses freed blocks: in steady state
 * a program allocates nothing from the heap.
 *
 * Storage of types without a fixed-size representation (strings, objects) releases its elements. */
#ifndef MF_TENSOR_BUFFER_H
#define MF_TENSOR_BUFFER_H

#include "base/mem_accounting.h"
#include "base/status.h"
#include "tensor/lender.h"

#include <meshflow/tensor.h>

#include <stdatomic.h>

enum { MF_BUFFER_ALIGN = 64 };
#define MF_BUFFER_MOST (INT64_C(1) << 48) /* in bytes; exceeds any machine */

typedef struct mf_buffer {
    atomic_int refs;
    mf_dtype dtype; /* of the elements, if they need releasing */
    int size_class; /* of a pooled block; -1: the caller's memory */
    bool read_only; /* the caller's memory, which must not be written */
    size_t bytes; /* usable size */
    void *data;
    void (*release)(void *data, void *ctx); /* for the caller's memory only */
    void *ctx;
    struct mf_buffer *next_free; /* in the pool's list */
    mf_mem_account *account; /* reference to the account it counts for; NULL: none */
} mf_buffer;

/* Uninitialised storage for `count` elements (cells of strings and objects are zeroed).
 * Fails: RESOURCE_EXHAUSTED, also beyond the limit of base/quota.h. */
MF_MUST mf_status mf_buffer_new(mf_dtype dtype, int64_t count, mf_buffer **out);
MF_MUST mf_status mf_buffer_wrap(void *data, size_t bytes, void (*release)(void *, void *),
                                 void *ctx, mf_buffer **out);
/* The part's bytes, which are never written, as storage. They count like other storage. The part is
 * released with the last reference; on failure the caller keeps it. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_buffer_borrow(const mf_iovec *part, mf_buffer **out);

static inline mf_buffer *mf_buffer_ref(mf_buffer *b)
{
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}
void mf_buffer_unref(mf_buffer *b);
/* Bytes of the buffer, or of memory that it keeps alive: the part takes over a reference. */
mf_iovec mf_buffer_part(mf_buffer *b, const void *data, size_t size);

/* Only this reference exists, so its holder may write. */
static inline bool mf_buffer_is_sole(const mf_buffer *b)
{
    if (b->read_only)
        return false;
    if (atomic_load_explicit(&b->refs, memory_order_acquire) == 1)
        return true;
    if (atomic_load_explicit(&mf_lender_lent, memory_order_relaxed) == 0)
        return false;
    mf_lender_settle(); /* another process may still have had it */
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

/* The size of storage for at most this many bytes, up to MF_BUFFER_MOST: sizes come in classes. */
int64_t mf_buffer_room(int64_t bytes);
/* Bytes in live buffers now, and blocks ever allocated from the heap (for tests). */
int64_t mf_buffer_live_bytes(void);
int64_t mf_buffer_heap_calls(void);
/* Return cached blocks to the system. */
void mf_buffer_trim(void);
/* A phase is over: its needs do not predict later ones. Cached blocks beyond buffer_cache_mib
 * return to the system. */
void mf_buffer_settle(void);

#endif
