/* SPDX-License-Identifier: Apache-2.0 */
/* huffman.h - canonical Huffman codes of at most 15 bits, and bit streams, most significant bit
 * first. The lengths define the codes: codes of one length are consecutive in the order of their
 * symbols, and longer codes follow shorter ones. */
#ifndef MF_FORMATS_HUFFMAN_H
#define MF_FORMATS_HUFFMAN_H

#include "base/buf.h"

enum { MF_HUFFMAN_BITS = 15, MF_HUFFMAN_SYMBOLS = 4096 };

/* Bits being written to a buffer. */
typedef struct mf_bits_out {
    mf_buf *out;
    uint32_t rest; /* its lowest n bits are pending */
    int n;
} mf_bits_out;

void mf_bits_put(mf_bits_out *b, uint32_t bits, int n); /* n <= 16 */
void mf_bits_end(mf_bits_out *b); /* pads to a full byte */

/* Bits read from bytes; beyond the end they are zeros, and `over` is set. */
typedef struct mf_bits_in {
    const uint8_t *data;
    size_t len, at; /* in bytes; in bits */
    bool over;
} mf_bits_in;

uint32_t mf_bits_get(mf_bits_in *b, int n);

/* For symbols 0 ... n-1 with these counts: lengths of their codes, 0 for symbols that do not occur.
 * Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_huffman_lengths(const int64_t *counts, int n, uint8_t *lengths);

typedef struct mf_huffman {
    int n;
    uint8_t lengths[MF_HUFFMAN_SYMBOLS];
    uint16_t codes[MF_HUFFMAN_SYMBOLS];
    uint16_t sorted[MF_HUFFMAN_SYMBOLS]; /* symbols in the order of their codes */
    int count[MF_HUFFMAN_BITS + 1]; /* number of codes by length */
} mf_huffman;

/* Build the decoder from lengths[0 ... n-1], set by the caller. Fails: DATA_LOSS (invalid lengths).
 */
MF_MUST mf_status mf_huffman_make(mf_huffman *h);
static inline void mf_huffman_put(const mf_huffman *h, mf_bits_out *b, int symbol)
{
    mf_bits_put(b, h->codes[symbol], h->lengths[symbol]);
}
/* Returns -1 if the bits are not a code. */
int mf_huffman_get(const mf_huffman *h, mf_bits_in *b);

#endif
