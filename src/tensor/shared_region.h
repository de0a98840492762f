/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.h - large tensors in memory that other processes of this user can read: a value is
 * passed to another process of the host by its offset.
 *
 * A process has at most one region: mf_shared_region_open() creates it, and large buffers
 * (buffer.h) are allocated in it from then on. Lent memory stays unchanged until it is returned:
 * the lender holds a reference to a lent buffer. The borrower returns it by clearing a word in
 * memory that both processes map; the lender reads these words before it writes. */
#ifndef MF_TENSOR_SHARED_REGION_H
#define MF_TENSOR_SHARED_REGION_H

#include "base/iovec.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Buffers of this size or larger are in the region. */
enum { MF_SHARED_REGION_MIN = 64 << 10 };

/* Thread: any. If it is unavailable, values are copied. */
void mf_shared_region_open(void);
/* Passed to other processes, which map it; -1: no region. */
int mf_shared_region_fd(void);
/* The offset of data in the region; false: it is elsewhere. */
bool mf_shared_region_find(const void *data, uint64_t *offset);

/* Pages for this many bytes; NULL: use heap memory. */
void *mf_shared_region_take(size_t bytes);
/* Returns false if the block is not in the region. Else frees it, and its pages at once. */
bool mf_shared_region_give(void *block, size_t bytes);

/* ---- lending ---- */

enum { MF_LEND_SLOTS = 1024 };

/* One word per part that a borrower holds. */
typedef struct mf_lend_words {
    atomic_uint lent[MF_LEND_SLOTS]; /* 1: still in use */
} mf_lend_words;

typedef struct mf_lender mf_lender;

/* words: a mapping that is unmapped at the end, also when this fails. pid: the borrower's. */
MF_MUST mf_status mf_lender_new(mf_lend_words *words, pid_t pid, mf_lender **out);
/* No more lending. Parts in use stay lent until they are returned or the borrower has died. */
void mf_lender_close(mf_lender *l);
/* Lend the part, which must have a release function; it is called after the part is returned.
 * Returns the number of its word, or -1 if too many parts are lent. Thread: any. */
int mf_lender_lend(mf_lender *l, const mf_iovec *part);

/* Number of parts lent by this process and not known to be returned. */
extern atomic_int mf_shared_region_lent;
/* Release all parts that borrowers have returned. Thread: any. */
void mf_shared_region_settle(void);

#endif
