/* SPDX-License-Identifier: Apache-2.0 */
/* lender.h - lends memory of the shared region (shared_region.h) to another process of the host,
 * the borrower: lent memory stays unchanged until it is returned.
 *
 * The lender holds a reference to a lent buffer. The borrower returns it by clearing a word in
 * memory that both processes map; the lender reads these words before it writes. */
#ifndef MF_TENSOR_LENDER_H
#define MF_TENSOR_LENDER_H

#include "base/iovec.h"
#include "base/status.h"

#include <stdatomic.h>
#include <sys/types.h>

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
extern atomic_int mf_lender_lent;
/* Release all parts that borrowers have returned. Thread: any. */
void mf_lender_settle(void);

#endif
