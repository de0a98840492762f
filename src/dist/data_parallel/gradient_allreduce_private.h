/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce_private.h - the inside of the exchange of gradient_allreduce.h: its buckets,
 * and how they are packed. */
#ifndef MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_PRIVATE_H
#define MF_DIST_DATA_PARALLEL_GRADIENT_ALLREDUCE_PRIVATE_H

#include "dist/codec/codec_bucket.h"
#include "dist/data_parallel/gradient_allreduce.h"

#include <pthread.h>

enum { MF_GRADIENT_ALLREDUCE_ALIGN = 16 }; /* elements: where an item begins in the vector */

typedef struct mf_gradient_allreduce_bucket {
    const mf_exchange_bucket *about; /* of the current step */
    mf_tensor packed; /* this worker's parts, one vector after the other */
    mf_tensor result;
    int64_t count; /* elements of a vector */
    int64_t exact; /* of these, items that travel exactly */
    int64_t *at; /* offset of each item; NULL: not laid out yet */
    mf_codec_bucket coded; /* the other items */
    mf_tensor scratch;
    int64_t *rows; /* rows of each item, of concatenated items */
    bool ready, done; /* ready: packed; done: the result is set */
    mf_kernel *waiting; /* for done */
} mf_gradient_allreduce_bucket;

struct mf_gradient_allreduce {
    mf_exchange base; /* first */
    mf_gradient_allreduce_options o;
    mf_shard_owners shares;
    mf_aux_state_list before; /* codec state of a checkpoint */
    mf_gradient_allreduce_bucket *buckets;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, closing; /* closing: guarded by lock */
    mf_error error; /* the exchange has failed permanently; guarded by lock */
    int next; /* bucket; the thread's */
    int64_t step;
    int64_t begun_ns, computed_ns; /* when the step began; when the last bucket was handed in;
                                      guarded by lock */
    float factor; /* of this worker's gradients, in this step */
    int step_flags; /* this worker's */
    int joined_step_flags; /* of all workers; guarded by lock */
    char what[48]; /* of the current collective; the thread's */
    /* Bytes sent by codecs, and of the same items without them. Guarded by lock. */
    int64_t coded_bytes, plain_bytes;
};

/* Does this bucket have the step flags after its exact items? */
static inline bool mf_gradient_allreduce_has_vote(const mf_gradient_allreduce *x,
                                                  const mf_exchange_bucket *b)
{
    return b->id == x->o.n_buckets - 1;
}

/* Thread: the exchange's. */
mf_collective mf_gradient_allreduce_call(mf_gradient_allreduce *x,
                                         const mf_gradient_allreduce_bucket *k, const char *what);

/* ---- gradient_allreduce_pack.c ---- */

/* False: a loss, a metric, a statistic, numbers of rows, or outputs of samples. */
bool mf_gradient_allreduce_is_gradient(const mf_exchange_bucket *b, int i);
mf_codec_item mf_gradient_allreduce_describe(const mf_gradient_allreduce *x,
                                             const mf_exchange_bucket *b, int i);
/* Multiply this worker's gradients by their weight. */
void mf_gradient_allreduce_weigh(const mf_gradient_allreduce *x, const mf_exchange_bucket *b, int i,
                                 void *data, int64_t n);
/* values, part after part, become one vector for each part, in k->packed. */
MF_MUST mf_status mf_gradient_allreduce_pack(mf_gradient_allreduce *x,
                                             mf_gradient_allreduce_bucket *k,
                                             const mf_tensor *const *values);

/* ---- gradient_allreduce_rows.c ---- */

/* Pack the values of one part, item by item, as bytes in k->packed. */
MF_MUST mf_status mf_gradient_allreduce_pack_rows(const mf_gradient_allreduce *x,
                                                  mf_gradient_allreduce_bucket *k,
                                                  const mf_tensor *const *values);
/* The rows of all workers, item by item, in k->result; their numbers in k->rows. */
MF_MUST mf_status mf_gradient_allreduce_concat(mf_gradient_allreduce *x,
                                               mf_gradient_allreduce_bucket *k);

#endif
