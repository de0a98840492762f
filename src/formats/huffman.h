/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.h - canonical Huffman codes of at most 15 bits, and bits in bytes, the highest first. The
 * lengths of the codes say all: codes of one length follow each other in the order of their
 * symbols, and longer ones follow shorter ones. */
#ifndef MF_FORMATS_HUFFMAN_H
#define MF_FORMATS_HUFFMAN_H

#include "base/buf.h"

enum { MF_HUFFMAN_BITS = 15, MF_HUFFMAN_SYMBOLS = 4096 };

/* Bits on their way into a buffer. */
typedef struct mf_bits_out {
    mf_buf *out;
    uint32_t rest; /* its lowest n bits have not been written yet */
    int n;
} mf_bits_out;

void mf_bits_put(mf_bits_out *b, uint32_t bits, int n); /* n <= 16 */
void mf_bits_end(mf_bits_out *b); /* up to a whole byte */

/* Bits read from bytes; behind the end there are zeros, and `over` is set. */
typedef struct mf_bits_in {
    const uint8_t *data;
    size_t len, at; /* bytes; bits */
    bool over;
} mf_bits_in;

uint32_t mf_bits_get(mf_bits_in *b, int n);

/* For symbols 0 ... n-1 that occur so often: lengths of codes, 0 for those that never do.
 * Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_huffman_lengths(const int64_t *counts, int n, uint8_t *lengths);

typedef struct mf_huffman {
    int n;
    uint8_t lengths[MF_HUFFMAN_SYMBOLS];
    uint16_t codes[MF_HUFFMAN_SYMBOLS];
    uint16_t sorted[MF_HUFFMAN_SYMBOLS]; /* symbols in the order of their codes */
    int count[MF_HUFFMAN_BITS + 1]; /* codes by length */
} mf_huffman;

/* From lengths[0 ... n-1], which are filled in. Fails: DATA_LOSS (these lengths are no code). */
MF_MUST mf_status mf_huffman_make(mf_huffman *h);
static inline void mf_huffman_put(const mf_huffman *h, mf_bits_out *b, int symbol)
{
    mf_bits_put(b, h->codes[symbol], h->lengths[symbol]);
}
/* -1: the bits are no symbol's. */
int mf_huffman_get(const mf_huffman *h, mf_bits_in *b);

#endif
