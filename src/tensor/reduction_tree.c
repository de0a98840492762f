/* SPDX-License-Identifier: Apache-2.0 */
/* reduction_tree.c - combines partial sums of the fixed tree. */
#include "tensor/reduction_tree.h"

#include <string.h>

/* The node of `size` leaves at lo, clipped to the tree. */
static mf_reduction_tree_node node_at(int64_t leaves, int64_t lo, int64_t size)
{
    return (mf_reduction_tree_node){ lo, lo + size < leaves ? lo + size : leaves };
}

static int64_t root_size(int64_t leaves)
{
    int64_t size = 1;

    while (size < leaves)
        size *= 2;
    return size;
}

/* grain: nodes with more leaves are split. */
static int find_parts(int64_t leaves, int64_t lo, int64_t size, mf_reduction_tree_node within,
                      int64_t grain, mf_reduction_tree_node *parts)
{
    const mf_reduction_tree_node node = node_at(leaves, lo, size);
    int n;

    if (node.lo >= node.hi || node.hi <= within.lo || node.lo >= within.hi)
        return 0;
    if (node.lo >= within.lo && node.hi <= within.hi && size <= grain) {
        parts[0] = node;
        return 1;
    }
    n = find_parts(leaves, lo, size / 2, within, grain, parts);
    return n + find_parts(leaves, lo + size / 2, size / 2, within, grain, parts + n);
}

int mf_reduction_tree_parts(int64_t leaves, int64_t from, int64_t to, mf_reduction_tree_node *parts)
{
    const int64_t root = root_size(leaves);

    return find_parts(leaves, 0, root, (mf_reduction_tree_node){ from, to }, root, parts);
}

int mf_reduction_tree_share(int64_t shards, int64_t first, int64_t count, int64_t samples,
                            int64_t grain, mf_reduction_tree_node *parts)
{
    const int64_t used = samples < count ? samples : count;
    const int64_t leaves = used < count ? first + used : shards, root = root_size(leaves);
    const mf_reduction_tree_node share = { first, first + used };

    return find_parts(leaves, 0, root, share, grain > 0 ? grain : root, parts);
}

/* ---- adding ---- */

/* Blocks of all levels fit in the second-level cache, those in use in the first-level cache. */
enum { BLOCK_BYTES = 8 << 10, LEVELS = 12 };
_Static_assert(1 << LEVELS == MF_REDUCTION_TREE_LEAVES, "a level for each bit");

typedef struct sum {
    int64_t leaves;
    const mf_reduction_tree_part *parts;
    int n;
    mf_dtype dtype;
    size_t cell;
    int64_t at, count; /* the current block */
    char scratch[LEVELS][BLOCK_BYTES];
} sum;

/* Four vectors of 16 bytes at a time, all read before the first is written: vectorisation does not
 * depend on the compiler's alias analysis (`out` may be `a`), and every processor has these
 * vectors. */
#define ADD(NAME, TYPE)                                                                            \
    typedef TYPE NAME##_vector __attribute__((vector_size(16), aligned(sizeof(TYPE)), may_alias)); \
                                                                                                   \
    static void NAME(void *out, const void *a, const void *b, int64_t n)                           \
    {                                                                                              \
        const int64_t width = 64 / (int64_t)sizeof(TYPE);                                          \
        const TYPE *x = a, *y = b;                                                                 \
        TYPE *o = out;                                                                             \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (; i + width <= n; i += width) {                                                       \
            const NAME##_vector *v = (const NAME##_vector *)(x + i);                               \
            const NAME##_vector *w = (const NAME##_vector *)(y + i);                               \
            const NAME##_vector s0 = v[0] + w[0], s1 = v[1] + w[1];                                \
            const NAME##_vector s2 = v[2] + w[2], s3 = v[3] + w[3];                                \
            NAME##_vector *to = (NAME##_vector *)(o + i);                                          \
                                                                                                   \
            to[0] = s0;                                                                            \
            to[1] = s1;                                                                            \
            to[2] = s2;                                                                            \
            to[3] = s3;                                                                            \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            o[i] = (TYPE)(x[i] + y[i]);                                                            \
    }

ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_u32, uint32_t) /* integers wrap */
ADD(add_u64, uint64_t)

typedef void add_fn(void *out, const void *a, const void *b, int64_t n);

static add_fn *adder(mf_dtype dtype)
{
    switch (dtype) {
    case MF_DTYPE_F32:
        return add_f32;
    case MF_DTYPE_F64:
        return add_f64;
    case MF_DTYPE_I32:
        return add_u32;
    case MF_DTYPE_I64:
        return add_u64;
    default:
        return NULL;
    }
}

static const char *reduction_tree_find_part(const sum *s, mf_reduction_tree_node node)
{
    for (int i = 0; i < s->n; i++) {
        if (s->parts[i].node.lo == node.lo && s->parts[i].node.hi == node.hi)
            return (const char *)s->parts[i].data + (size_t)s->at * s->cell;
    }
    return NULL;
}

/* The block of this node: its existing memory, or `out`. */
static const char *reduction_tree_block_of(sum *s, int64_t lo, int64_t size, int level, char *out)
{
    const char *have = reduction_tree_find_part(s, node_at(s->leaves, lo, size)), *left, *right;

    if (have)
        return have;
    MF_ASSERT(size > 1); /* the parts cover the tree */
    left = reduction_tree_block_of(s, lo, size / 2, level, out);
    if (lo + size / 2 >= s->leaves)
        return left;
    right = reduction_tree_block_of(s, lo + size / 2, size / 2, level + 1, s->scratch[level]);
    adder(s->dtype)(out, left, right, s->count);
    return out;
}

static bool covers(int64_t leaves, int64_t lo, int64_t size, const mf_reduction_tree_part *parts,
                   int n)
{
    const mf_reduction_tree_node node = node_at(leaves, lo, size);

    for (int i = 0; i < n; i++) {
        if (parts[i].node.lo == node.lo && parts[i].node.hi == node.hi)
            return true;
    }
    return size > 1 && covers(leaves, lo, size / 2, parts, n) &&
           (lo + size / 2 >= leaves || covers(leaves, lo + size / 2, size / 2, parts, n));
}

bool mf_reduction_tree_covers(int64_t leaves, const mf_reduction_tree_part *parts, int n)
{
    return leaves >= 1 && leaves <= MF_REDUCTION_TREE_LEAVES &&
           covers(leaves, 0, root_size(leaves), parts, n);
}

mf_status mf_reduction_tree_sum(int64_t leaves, mf_reduction_tree_node of,
                                const mf_reduction_tree_part *parts, int n, mf_dtype dtype,
                                int64_t count, void *out)
{
    const int64_t block = BLOCK_BYTES / 8;
    int64_t size = root_size(leaves);
    sum s;

    if (leaves > MF_REDUCTION_TREE_LEAVES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "invalid number of shards %lld: the maximum is %d",
                       (long long)leaves, MF_REDUCTION_TREE_LEAVES);
    if (!adder(dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "shards of type %s cannot be added",
                       mf_dtype_name(dtype));
    s.leaves = leaves;
    s.parts = parts;
    s.n = n;
    s.dtype = dtype;
    s.cell = mf_dtype_size(dtype);
    while (size > 1 && node_at(leaves, of.lo, size).hi > of.hi)
        size /= 2;
    for (s.at = 0; s.at < count; s.at += block) {
        char *to = (char *)out + (size_t)s.at * s.cell;
        const char *from;

        s.count = count - s.at < block ? count - s.at : block;
        from = reduction_tree_block_of(&s, of.lo, size, 0, to);
        if (from != to)
            memcpy(to, from, (size_t)s.count * s.cell);
    }
    return MF_OK;
}
