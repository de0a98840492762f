/* SPDX-License-Identifier: Apache-2.0 */
/* iterator_private.h - an iterator inside: a ring of slots that threads fill.
 *
 * Batches are numbered by tickets; ticket t is made in slot t % n_slots, so a ring of slots is all
 * the memory there is. Invariants:
 *  1. Tickets are given out one after the other under order_lock, each with its samples already
 *     chosen. Which thread makes a batch therefore changes nothing about it.
 *  2. order_lock is taken before lock, never after it.
 *  3. A slot belongs to whoever its state says: FREE to the ring, BUSY to one thread, READY and
 *     LENT to the consumer. Only the state itself is guarded by lock. */
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
    int64_t next_epoch, next_first; /* where the batch behind it begins */
    int64_t *indices, *ids; /* of the whole batch */
    int64_t *own_ids; /* of what is read, where that is not one behind the other */
    const mf_ranges *rows; /* that are read; NULL: n from `place` on */
    mf_tensor **columns;
    mf_error error; /* why the batch could not be made; status MF_OK: it could */
} mf_slot;

struct mf_iterator {
    mf_dataset *set;
    mf_iterator_options o; /* defaults filled in */
    int64_t most; /* samples of a batch, or of our part of it */
    mf_needed needed[MF_NEEDED]; /* changed while no threads run */
    int n_needed;
    int64_t epoch, first; /* of the next batch; the consumer's */
    int64_t taken; /* ticket that the consumer takes next; its own */
    mf_slot *slots;
    int64_t n_slots, cap_slots;

    pthread_mutex_t order_lock;
    int64_t next_epoch, next_first, next_ticket; /* guarded by order_lock */
    int64_t *order; /* permutation of order_epoch; guarded by order_lock; NULL: in order */
    int64_t order_epoch; /* -1: none yet */
    mf_slices *slices; /* that make the order; NULL: it is by element */
    bool over; /* the last ticket is out; guarded by order_lock */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot's state, or stop */
    bool stop; /* guarded by lock */
    pthread_t *threads;
    int64_t cap_threads;
    int n_threads; /* running; the consumer's */
};

/* What follows a batch that ends at `first`. */
static inline void mf_iterator_normalise(const mf_iterator *it, int64_t *epoch, int64_t *first)
{
    const int64_t left = it->set->count - *first;

    if (left == 0 || (it->o.drop_partial && left < it->o.batch)) {
        ++*epoch;
        *first = 0;
    }
}

/* What each thread does (iterator_make.c): takes tickets and makes batches until there are none. */
void *mf_iterator_work(void *it);

/* What is read of a batch of so many samples: how many, and from which on. */
static inline int64_t mf_iterator_part(const mf_iterator_options *o, int64_t whole, int64_t *from)
{
    const int64_t first = mf_shard_begin(whole, o->shards, o->first_shard);
    const int64_t n = mf_shard_begin(whole, o->shards, o->first_shard + o->n_shards) - first;
    const int64_t skip = mf_shard_begin(n, o->shards, o->part_first);

    *from = o->part_n > 0 ? first + skip : first;
    return o->part_n > 0 ? mf_shard_begin(n, o->shards, o->part_first + o->part_n) - skip : n;
}

/* Those that are read of a batch of so many; NULL: our part of it. */
static inline const mf_ranges *mf_iterator_rows(const mf_iterator *it, int64_t whole)
{
    for (int i = 0; i < it->n_needed; i++) {
        if (it->needed[i].whole == whole)
            return &it->needed[i].rows;
    }
    return NULL;
}

#endif
