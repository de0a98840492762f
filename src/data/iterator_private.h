/* SPDX-License-Identifier: Apache-2.0 */
/* iterator_private.h - internals of an iterator: a ring of slots that threads fill.
 *
 * Batches are numbered by tickets; ticket t is made in slot t % n_slots, so memory is bounded by
 * the ring. Invariants:
 *  1. Tickets are issued in order under order_lock, with their samples already chosen. So a batch
 *     does
 *     not depend on the thread that makes it.
 *  2. order_lock is taken before lock, never after it.
 *  3. The state of a slot determines its owner: FREE the ring, BUSY one thread, READY and LENT the
 *     consumer. Only the state itself is guarded by lock. */
#ifndef MF_DATA_ITERATOR_PRIVATE_H
#define MF_DATA_ITERATOR_PRIVATE_H

#include "data/file_slices.h"
#include "data/sample_subset.h"
#include "graph/shard.h"

#include <pthread.h>

typedef enum mf_slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY, SLOT_LENT, SLOT_END } mf_slot_state;

typedef struct mf_slot {
    mf_slot_state state;
    mf_batch batch;
    int64_t next_epoch, next_first; /* start of the next batch */
    int64_t *indices, *ids; /* of the whole batch */
    int64_t *own_ids; /* of the samples read, if they are not contiguous */
    const mf_ranges *rows; /* rows to read; NULL: n rows from `place` */
    mf_tensor **columns;
    mf_error error; /* the batch's failure; status MF_OK: none */
} mf_slot;

struct mf_iterator {
    mf_dataset *set;
    mf_iterator_options o; /* with defaults */
    int64_t most; /* maximum number of samples of this iterator's part of a batch */
    mf_needed needed[MF_NEEDED]; /* changed only while no threads run */
    int n_needed;
    int64_t epoch, first; /* of the next batch; used by the consumer */
    int64_t taken; /* next ticket of the consumer */
    mf_slot *slots;
    int64_t n_slots, cap_slots;

    pthread_mutex_t order_lock;
    int64_t next_epoch, next_first, next_ticket; /* guarded by order_lock */
    int64_t *order; /* permutation of order_epoch; guarded by order_lock; NULL: not shuffled */
    int64_t order_epoch; /* -1: none yet */
    mf_slices *slices; /* define the order; NULL: sliced by element */
    bool over; /* the last ticket is issued; guarded by order_lock */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals a slot's state, or stop */
    bool stop; /* guarded by lock */
    pthread_t *threads;
    int64_t cap_threads;
    int n_threads; /* running; used by the consumer */
};

/* Advances to the next epoch if the batch ends at the end of one. */
static inline void mf_iterator_normalise(const mf_iterator *it, int64_t *epoch, int64_t *first)
{
    const int64_t left = it->set->count - *first;

    if (left == 0 || (it->o.drop_partial && left < it->o.batch)) {
        ++*epoch;
        *first = 0;
    }
}

/* Thread function (iterator_make.c): takes tickets and makes batches until there are none. */
void *mf_iterator_work(void *it);

/* Number of samples read of a batch of `whole`, and the first of them. */
static inline int64_t mf_iterator_part(const mf_iterator_options *o, int64_t whole, int64_t *from)
{
    const int64_t first = mf_shard_begin(whole, o->shards, o->first_shard);
    const int64_t n = mf_shard_begin(whole, o->shards, o->first_shard + o->n_shards) - first;
    const int64_t skip = mf_shard_begin(n, o->shards, o->part_first);

    *from = o->part_n > 0 ? first + skip : first;
    return o->part_n > 0 ? mf_shard_begin(n, o->shards, o->part_first + o->part_n) - skip : n;
}

/* Rows read of a batch of `whole`; NULL: this iterator's contiguous part. */
static inline const mf_ranges *mf_iterator_rows(const mf_iterator *it, int64_t whole)
{
    for (int i = 0; i < it->n_needed; i++) {
        if (it->needed[i].whole == whole)
            return &it->needed[i].rows;
    }
    return NULL;
}

#endif
