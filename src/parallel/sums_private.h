/* SPDX-License-Identifier: Apache-2.0 */
/* sums_private.h - the exchange of sums.h inside: its buckets, and how they are packed. */
#ifndef MF_PARALLEL_SUMS_PRIVATE_H
#define MF_PARALLEL_SUMS_PRIVATE_H

#include "parallel/coded.h"
#include "parallel/sums.h"

#include <pthread.h>

enum { MF_SUMS_ALIGN = 16 }; /* elements: where an item begins in the vector */

typedef struct mf_sums_bucket {
    const mf_exchange_bucket *about; /* of the step at hand */
    mf_tensor packed; /* our parts, one vector behind the other */
    mf_tensor result;
    int64_t count; /* elements of a vector */
    int64_t exact; /* of these, that travel as they are */
    int64_t *at; /* where each item begins in it; NULL: not laid out yet */
    mf_coded coded; /* the other items */
    mf_tensor scratch;
    int64_t *rows; /* rows of each item; of concatenated ones */
    bool ready, done; /* ready: packed; done: result is there */
    mf_kernel *waiting; /* for done */
} mf_sums_bucket;

struct mf_sums {
    mf_exchange base; /* first */
    mf_sums_options o;
    mf_shares shares;
    mf_extra_list before; /* what a checkpoint had of codecs */
    mf_sums_bucket *buckets;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, closing; /* closing: guarded by lock */
    mf_error error; /* the exchange has failed for good; guarded by lock */
    int next; /* bucket; the thread's */
    int64_t step;
    int64_t begun_ns, computed_ns; /* when the step began; when the last bucket was handed in;
                                      guarded by lock */
    float factor; /* of our gradients, in this step */
    int votes; /* ours */
    int voted; /* everybody's; guarded by lock */
    char what[48]; /* of the collective at hand; the thread's */
    /* Sent by codecs; and of the same items without them. Guarded by lock. */
    int64_t coded_bytes, plain_bytes;
};

/* Behind the exact items of this bucket stand the votes. */
static inline bool mf_sums_has_vote(const mf_sums *x, const mf_exchange_bucket *b)
{
    return b->id == x->o.n_buckets - 1;
}

/* Thread: the exchange's. */
mf_collective mf_sums_call(mf_sums *x, const mf_sums_bucket *k, const char *what);

/* ---- sums_pack.c ---- */

/* Else it is a loss, a metric, a statistic, the numbers of rows, or what samples have to tell. */
bool mf_sums_is_gradient(const mf_exchange_bucket *b, int i);
mf_codec_item mf_sums_describe(const mf_sums *x, const mf_exchange_bucket *b, int i);
/* Our gradients count as much as they shall. */
void mf_sums_weigh(const mf_sums *x, const mf_exchange_bucket *b, int i, void *data, int64_t n);
/* values, part after part, become one vector for each part, in k->packed. */
MF_MUST mf_status mf_sums_pack(mf_sums *x, mf_sums_bucket *k, const mf_tensor *const *values);

/* ---- sums_rows.c ---- */

/* values, of one part, become bytes in k->packed: of all items, one behind the other. */
MF_MUST mf_status mf_sums_pack_rows(const mf_sums *x, mf_sums_bucket *k,
                                    const mf_tensor *const *values);
/* Everybody's rows, item by item, in k->result; how many in k->rows. */
MF_MUST mf_status mf_sums_concat(mf_sums *x, mf_sums_bucket *k);

#endif
