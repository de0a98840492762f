/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c - heap wrappers with failure injection, and the arena. */
#include "base/mem.h"

#include "base/poison.h"
#include "base/quota.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong fail_countdown; /* 0: never */
static atomic_llong calls;

int64_t mf_mem_calls(void)
{
    return atomic_load(&calls);
}

void mf_mem_fail_at(int64_t nth)
{
    atomic_store(&fail_countdown, nth);
}

static bool injected_failure(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0)
        return false;
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

/* The size of the block, which may exceed the request, and the allocator's header before it. */
static int64_t mem_size_of(void *p)
{
    return (int64_t)(malloc_usable_size(p) + sizeof(size_t));
}

void *mf_calloc(int64_t count, size_t size)
{
    int64_t bytes;
    void *p;

    if (!mf_mul_i64(count, (int64_t)size, &bytes) || injected_failure() || !mf_quota_allows(bytes))
        return NULL;
    p = calloc(1, bytes > 0 ? (size_t)bytes : 1);
    if (p)
        mf_quota_heap(mem_size_of(p));
    return p;
}

void *mf_realloc(void *old, int64_t count, size_t size)
{
    const int64_t had = old ? mem_size_of(old) : 0;
    int64_t bytes;
    void *p;

    if (!mf_mul_i64(count, (int64_t)size, &bytes) || injected_failure() ||
        (bytes > had && !mf_quota_allows(bytes)))
        return NULL;
    p = realloc(old, bytes > 0 ? (size_t)bytes : 1);
    if (p)
        mf_quota_heap(mem_size_of(p) - had);
    return p;
}

void mf_free(void *p)
{
    if (p)
        mf_quota_heap(-mem_size_of(p));
    free(p);
}

void *mf_disown(void *p)
{
    if (p)
        mf_quota_heap(-mem_size_of(p));
    return p;
}

char *mf_strndup(const char *s, size_t len)
{
    char *copy = mf_calloc((int64_t)len + 1, 1);

    if (copy)
        memcpy(copy, s, len);
    return copy;
}

char *mf_strdup(const char *s)
{
    return mf_strndup(s, strlen(s));
}

mf_status mf_grow(void *array_pointer, int64_t *cap, int64_t need, size_t elem_size)
{
    void *old, *grown;
    int64_t new_cap = *cap > 0 ? *cap : 8;

    if (need <= *cap)
        return MF_OK;
    while (new_cap < need) {
        if (!mf_mul_i64(new_cap, 2, &new_cap))
            return MF_NOMEM("a growing array");
    }
    memcpy(&old, array_pointer, sizeof old);
    grown = mf_realloc(old, new_cap, elem_size);
    if (!grown)
        return MF_NOMEM("a growing array");
    memset((char *)grown + (size_t)*cap * elem_size, 0, (size_t)(new_cap - *cap) * elem_size);
    memcpy(array_pointer, &grown, sizeof grown);
    *cap = new_cap;
    return MF_OK;
}

/* ---- arena ---- */

enum { ARENA_ALIGN = 16, ARENA_FIRST = 4096, ARENA_MAX_CHUNK = 1 << 20 };

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size; /* bytes behind this header */
} arena_chunk;

_Static_assert(sizeof(arena_chunk) % 8 == 0, "chunk data must stay aligned");
#define CHUNK_HEADER ((sizeof(arena_chunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)

struct mf_arena {
    arena_chunk *head;
    size_t total, limit;
};

mf_arena *mf_arena_new(void)
{
    return mf_calloc(1, sizeof(mf_arena));
}

void mf_arena_free(mf_arena *arena)
{
    if (!arena)
        return;
    while (arena->head) {
        arena_chunk *next = arena->head->next;

        mf_free(arena->head);
        arena->head = next;
    }
    mf_free(arena);
}

static arena_chunk *chunk_add(mf_arena *arena, size_t need)
{
    size_t size = arena->head ? arena->head->size * 2 : ARENA_FIRST;
    arena_chunk *chunk;

    if (size > ARENA_MAX_CHUNK)
        size = ARENA_MAX_CHUNK;
    if (size < need)
        size = need;
    chunk = mf_calloc((int64_t)(CHUNK_HEADER + size), 1);
    if (!chunk)
        return NULL;
    chunk->size = size;
    chunk->next = arena->head;
    arena->head = chunk;
    MF_POISON((char *)chunk + CHUNK_HEADER, size);
    return chunk;
}

void *mf_arena_alloc(mf_arena *arena, int64_t count, size_t size)
{
    int64_t bytes;
    size_t need;
    arena_chunk *chunk = arena->head;
    void *p;

    if (!mf_mul_i64(count, (int64_t)size, &bytes) || bytes > INT64_MAX - 2 * ARENA_MAX_CHUNK)
        return NULL;
    need = ((size_t)bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (arena->limit > 0 && arena->total + need > arena->limit)
        return NULL;
    if (!chunk || chunk->size - chunk->used < need + MF_POISON_GAP)
        chunk = chunk_add(arena, need + MF_POISON_GAP);
    if (!chunk)
        return NULL;
    p = (char *)chunk + CHUNK_HEADER + chunk->used;
    MF_UNPOISON(p, (size_t)bytes);
    chunk->used += need + MF_POISON_GAP;
    arena->total += need;
    return p;
}

char *mf_arena_strndup(mf_arena *arena, const char *s, size_t len)
{
    char *copy = mf_arena_alloc(arena, (int64_t)len + 1, 1);

    if (copy)
        memcpy(copy, s, len);
    return copy;
}

char *mf_arena_strdup(mf_arena *arena, const char *s)
{
    return mf_arena_strndup(arena, s, strlen(s));
}

const char **mf_arena_strings(mf_arena *arena, const char *const *from, int64_t n)
{
    const char **out = MF_ARENA_ARRAY(arena, const char *, n + 1);

    for (int64_t i = 0; out && i < n; i++) {
        out[i] = mf_arena_strdup(arena, from[i]);
        if (!out[i])
            return NULL;
    }
    return out;
}

char *mf_arena_printf(mf_arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = len < 0 ? NULL : mf_arena_alloc(arena, len + 1, 1);
    if (!text)
        return NULL;
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

size_t mf_arena_used(const mf_arena *arena)
{
    return arena->total;
}

void mf_arena_limit(mf_arena *arena, size_t max_bytes)
{
    arena->limit = max_bytes;
}
