/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.h - large tensors in memory that other processes of this user can read, too: so a
 * value goes to another process of the host by saying where it is.
 *
 * A process has one region, or none: mf_shared_region_open() makes it, and large buffers (buffer.h)
 * lie in it from then on. What is lent stays as it is until it is given back: a lent buffer has a
 * reference more. The borrower says that it is done with it by clearing a word, in memory that both
 * see; the lender looks at these words when it would like to write. */
#ifndef MF_TENSOR_SHARED_REGION_H
#define MF_TENSOR_SHARED_REGION_H

#include "base/iovec.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Buffers of this size or more lie in the region. */
enum { MF_SHARED_REGION_MIN = 64 << 10 };

/* Thread: any. Where it cannot be had nothing changes: values are copied. */
void mf_shared_region_open(void);
/* To be handed to others, who map it; -1: there is none. */
int mf_shared_region_fd(void);
/* Where this lies in the region; false: elsewhere. */
bool mf_shared_region_find(const void *data, uint64_t *offset);

/* Pages for so many bytes; NULL: heap memory will do. */
void *mf_shared_region_take(size_t bytes);
/* Is it from there? Then it is given back, its pages at once. */
bool mf_shared_region_give(void *block, size_t bytes);

/* ---- lending ---- */

enum { MF_LEND_SLOTS = 1024 };

/* The words of what one borrower has. */
typedef struct mf_lend_words {
    atomic_uint lent[MF_LEND_SLOTS]; /* 1: it is still read */
} mf_lend_words;

typedef struct mf_lender mf_lender;

/* words: a mapping, that is unmapped in the end, also when this fails. pid: the borrower's. */
MF_MUST mf_status mf_lender_new(mf_lend_words *words, pid_t pid, mf_lender **out);
/* Nothing more is lent. What is out stays out until it is given back, or the borrower has died. */
void mf_lender_close(mf_lender *l);
/* The part, which has a release, is released when it was given back. -1: too many are lent. Returns
 * the number of its word. Thread: any. */
int mf_lender_lend(mf_lender *l, const mf_iovec *part);

/* What is lent by this process, and was not seen to be given back. */
extern atomic_int mf_shared_region_lent;
/* Release what all borrowers have given back. Thread: any. */
void mf_shared_region_settle(void);

#endif
