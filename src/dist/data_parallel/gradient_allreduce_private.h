/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce_private.h - the exchange of gradient_allreduce.h inside: its buckets, and how
 * they are packed. */
#ifndef MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_PRIVATE_H
#define MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_PRIVATE_H

#include "dist/codec/codec_bucket.h"
#include "dist/data_parallel/gradient_allreduce.h"

#include <pthread.h>

enum { MF_GRADIENT_ALLREDUCE_ALIGN = 16 }; /* elements: where an item begins in the vector */

typedef struct mf_gradient_allreduce_bucket {
    const mf_exchange_bucket *about; /* of the step at hand */
    mf_tensor packed; /* our parts, one vector behind the other */
    mf_tensor result;
    int64_t count; /* elements of a vector */
    int64_t exact; /* of these, that travel as they are */
    int64_t *at; /* where each item begins in it; NULL: not laid out yet */
    mf_codec_bucket coded; /* the other items */
    mf_tensor scratch;
    int64_t *rows; /* rows of each item; of concatenated ones */
    bool ready, done; /* ready: packed; done: result is there */
    mf_kernel *waiting; /* for done */
} mf_gradient_allreduce_bucket;

struct mf_gradient_allreduce {
    mf_exchange base; /* first */
    mf_gradient_allreduce_options o;
    mf_shard_owners shares;
    mf_aux_state_list before; /* what a checkpoint had of codecs */
    mf_gradient_allreduce_bucket *buckets;
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
    int step_flags; /* ours */
    int joined_step_flags; /* everybody's; guarded by lock */
    char what[48]; /* of the collective at hand; the thread's */
    /* Sent by codecs; and of the same items without them. Guarded by lock. */
    int64_t coded_bytes, plain_bytes;
};

/* Behind the exact items of this bucket stand the step_flags. */
static inline bool mf_gradient_allreduce_has_vote(const mf_gradient_allreduce *x,
                                                  const mf_exchange_bucket *b)
{
    return b->id == x->o.n_buckets - 1;
}

/* Thread: the exchange's. */
mf_collective mf_gradient_allreduce_call(mf_gradient_allreduce *x,
                                         const mf_gradient_allreduce_bucket *k, const char *what);

/* ---- gradient_allreduce_pack.c ---- */

/* Else it is a loss, a metric, a statistic, the numbers of rows, or what samples have to tell. */
bool mf_gradient_allreduce_is_gradient(const mf_exchange_bucket *b, int i);
mf_codec_item mf_gradient_allreduce_describe(const mf_gradient_allreduce *x,
                                             const mf_exchange_bucket *b, int i);
/* Our gradients count as much as they shall. */
void mf_gradient_allreduce_weigh(const mf_gradient_allreduce *x, const mf_exchange_bucket *b, int i,
                                 void *data, int64_t n);
/* values, part after part, become one vector for each part, in k->packed. */
MF_MUST mf_status mf_gradient_allreduce_pack(mf_gradient_allreduce *x,
                                             mf_gradient_allreduce_bucket *k,
                                             const mf_tensor *const *values);

/* ---- gradient_allreduce_rows.c ---- */

/* values, of one part, become bytes in k->packed: of all items, one behind the other. */
MF_MUST mf_status mf_gradient_allreduce_pack_rows(const mf_gradient_allreduce *x,
                                                  mf_gradient_allreduce_bucket *k,
                                                  const mf_tensor *const *values);
/* Everybody's rows, item by item, in k->result; how many in k->rows. */
MF_MUST mf_status mf_gradient_allreduce_concat(mf_gradient_allreduce *x,
                                               mf_gradient_allreduce_bucket *k);

#endif
