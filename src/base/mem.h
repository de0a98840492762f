/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - heap and arena memory, with overflow-checked sizes.
 *
 * Two lifetimes: mf_new/mf_free for single owners, and an arena for objects that are freed together
 * (a graph, a compiled step). Tensor storage has its own pool, tensor/buffer.h. */
#ifndef MF_BASE_MEM_H
#define MF_BASE_MEM_H

#include "base/status.h"

/* a*b and a+b of non-negative values; false (and *out untouched) when the result does not fit. */
static inline bool mf_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool mf_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Zeroed memory for count objects of `size` bytes; NULL if memory is exhausted or the limit of
 * quota.h is reached. Free with mf_free(). */
void *mf_calloc(int64_t count, size_t size) __attribute__((malloc));
/* As realloc; the tail is not zeroed. NULL leaves `old` alive. */
void *mf_realloc(void *old, int64_t count, size_t size);
void mf_free(void *p);
/* Ownership of this memory goes to a library that calls free(): it no longer counts towards the
 * quota. Returns p. */
void *mf_disown(void *p);
char *mf_strndup(const char *s, size_t len);
char *mf_strdup(const char *s);

/* Make room for one more element in a growing array: doubles *cap. RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_grow(void *array_pointer, int64_t *cap, int64_t need, size_t elem_size);

/* Allocations through these functions since the process began. A step in steady state makes none.
 */
int64_t mf_mem_calls(void);
/* Tests: the n-th allocation from now fails (0 = none). Affects the whole process. */
void mf_mem_fail_at(int64_t nth);

#define MF_NOMEM(what) MF_FAIL(MF_RESOURCE_EXHAUSTED, "out of memory for %s", (what))

/* A growing arena: many allocations, one release. Thread: one at a time. */
typedef struct mf_arena mf_arena;

mf_arena *mf_arena_new(void);
void mf_arena_free(mf_arena *arena);
/* Zeroed, aligned to 16 bytes; NULL when memory is exhausted or the arena's limit is reached. */
void *mf_arena_alloc(mf_arena *arena, int64_t count, size_t size);
char *mf_arena_strndup(mf_arena *arena, const char *s, size_t len);
char *mf_arena_strdup(mf_arena *arena, const char *s);
/* Copies n strings and adds a final NULL. Returns NULL when memory is exhausted. */
const char **mf_arena_strings(mf_arena *arena, const char *const *from, int64_t n);
char *mf_arena_printf(mf_arena *arena, const char *fmt, ...) MF_PRINTF(2, 3);
/* Bytes allocated so far, and the limit (0 = no limit). */
size_t mf_arena_used(const mf_arena *arena);
void mf_arena_limit(mf_arena *arena, size_t max_bytes);

#define MF_ARENA_NEW(arena, type) ((type *)mf_arena_alloc((arena), 1, sizeof(type)))
#define MF_ARENA_ARRAY(arena, type, n) ((type *)mf_arena_alloc((arena), (n), sizeof(type)))

#endif
