/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.c - canonical Huffman codes: construction, encoding, decoding, bit streams. */
#include "formats/huffman.h"

#include "base/mem.h"

#include <stdlib.h>

/* ---- bits ---- */

void mf_bits_put(mf_bits_out *b, uint32_t bits, int n)
{
    b->rest = b->rest << n | (bits & ((1u << n) - 1));
    b->n += n;
    while (b->n >= 8) {
        const char byte = (char)(b->rest >> (b->n - 8));

        mf_buf_bytes(b->out, &byte, 1);
        b->n -= 8;
    }
}

void mf_bits_end(mf_bits_out *b)
{
    if (b->n > 0)
        mf_bits_put(b, 0, 8 - b->n);
}

static uint32_t next_bit(mf_bits_in *b)
{
    const size_t byte = b->at / 8, bit = b->at % 8;

    if (byte >= b->len) {
        b->over = true;
        return 0;
    }
    b->at++;
    return b->data[byte] >> (7 - bit) & 1u;
}

uint32_t mf_bits_get(mf_bits_in *b, int n)
{
    uint32_t bits = 0;

    for (int i = 0; i < n; i++)
        bits = bits << 1 | next_bit(b);
    return bits;
}

/* ---- lengths ---- */

/* A symbol, or two joined nodes. */
typedef struct tree_node {
    int64_t count;
    int left, right; /* -1: a symbol */
    int symbol;
} tree_node;

static int huffman_by_count(const void *a, const void *b)
{
    const tree_node *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

/* Two ascending queues: the remaining symbols, and the joined nodes. */
static int take_least(const tree_node *all, int *leaf, int leaves, int *joined, int end)
{
    if (*leaf < leaves && (*joined >= end || all[*leaf].count <= all[*joined].count))
        return (*leaf)++;
    return (*joined)++;
}

/* The length of the longest code. Nodes follow the nodes they were joined from. */
static int huffman_walk(const tree_node *all, int n_nodes, uint8_t *depth, uint8_t *lengths)
{
    int longest = 0;

    depth[n_nodes - 1] = 0;
    for (int i = n_nodes - 1; i >= 0; i--) {
        if (all[i].left < 0) {
            lengths[all[i].symbol] = depth[i] > 0 ? depth[i] : 1;
            longest = depth[i] > longest ? depth[i] : longest;
            continue;
        }
        depth[all[i].left] = depth[all[i].right] = (uint8_t)(depth[i] + 1);
    }
    return longest;
}

static int64_t huffman_sum_of(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Counts grow at least like Fibonacci numbers along a branch, so no depth exceeds 90. */
static int make_tree(const int64_t *counts, int n, int shift, tree_node *all, uint8_t *depth,
                     uint8_t *lengths)
{
    int leaves = 0, leaf = 0, joined, end;

    for (int i = 0; i < n; i++) {
        lengths[i] = 0;
        if (counts[i] > 0)
            all[leaves++] = (tree_node){ huffman_sum_of(counts[i] >> shift, 1), -1, -1, i };
    }
    if (leaves == 0)
        return 0;
    qsort(all, (size_t)leaves, sizeof *all, huffman_by_count);
    joined = end = leaves;
    while (leaves - leaf + end - joined > 1) {
        const int a = take_least(all, &leaf, leaves, &joined, end);
        const int b = take_least(all, &leaf, leaves, &joined, end);

        all[end++] = (tree_node){ huffman_sum_of(all[a].count, all[b].count), a, b, -1 };
    }
    return huffman_walk(all, end, depth, lengths);
}

mf_status mf_huffman_lengths(const int64_t *counts, int n, uint8_t *lengths)
{
    tree_node *all = mf_calloc(2 * (int64_t)n + 1, sizeof *all);
    uint8_t *depth = mf_calloc(2 * (int64_t)n + 1, 1);
    mf_status st = all && depth ? MF_OK : MF_NOMEM("a code");

    /* Shifting makes counts more equal and the tree flatter; at the end all counts are 1. */
    for (int shift = 0; st == MF_OK; shift++) {
        if (make_tree(counts, n, shift, all, depth, lengths) <= MF_HUFFMAN_BITS)
            break;
    }
    mf_free(all);
    mf_free(depth);
    return st;
}

/* ---- codes ---- */

mf_status mf_huffman_make(mf_huffman *h)
{
    int at[MF_HUFFMAN_BITS + 2] = { 0 }, left = 1;
    uint32_t next[MF_HUFFMAN_BITS + 2] = { 0 };

    for (int i = 0; i <= MF_HUFFMAN_BITS; i++)
        h->count[i] = 0;
    for (int i = 0; i < h->n; i++) {
        if (h->lengths[i] > MF_HUFFMAN_BITS)
            return MF_FAIL(MF_DATA_LOSS, "a Huffman code of %d bits", h->lengths[i]);
        h->count[h->lengths[i]]++;
    }
    h->count[0] = 0;
    for (int i = 1; i <= MF_HUFFMAN_BITS; i++) {
        left = 2 * left - h->count[i];
        if (left < 0)
            return MF_FAIL(MF_DATA_LOSS, "more codes of %d bits than there are", i);
        at[i + 1] = at[i] + h->count[i];
        next[i + 1] = (next[i] + (uint32_t)h->count[i]) << 1;
    }
    for (int i = 0; i < h->n; i++) {
        const int bits = h->lengths[i];

        if (bits == 0)
            continue;
        h->sorted[at[bits]++] = (uint16_t)i;
        h->codes[i] = (uint16_t)next[bits]++;
    }
    return MF_OK;
}

int mf_huffman_get(const mf_huffman *h, mf_bits_in *b)
{
    int code = 0, first = 0, at = 0;

    for (int bits = 1; bits <= MF_HUFFMAN_BITS; bits++) {
        code |= (int)next_bit(b);
        if (code - first < h->count[bits])
            return h->sorted[at + code - first];
        at += h->count[bits];
        first = (first + h->count[bits]) << 1;
        code <<= 1;
    }
    return -1;
}
