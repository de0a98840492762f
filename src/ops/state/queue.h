/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - queues of tuples of tensors: FIFO, shuffled, padded or by priority.
 *
 * Enqueues, dequeues and closes wait in two lists and are served in order, each list from its
 * front: an enqueue of many elements inserts as many as there is room for, a dequeue of many takes
 * what there is, so that more than the capacity can pass through in one call. */
#ifndef MF_OPS_STATE_QUEUE_H
#define MF_OPS_STATE_QUEUE_H

#include "base/rng.h"
#include "ops/state/op_waiter.h"

typedef enum mf_queue_kind {
    MF_QUEUE_FIFO,
    MF_QUEUE_SHUFFLE,
    MF_QUEUE_PADDING,
    MF_QUEUE_PRIORITY, /* component 0 is an int64 scalar; the smallest comes out first */
    MF_QUEUE_STAGE, /* FIFO of the staging ops */
} mf_queue_kind;

/* One element. */
typedef struct mf_queue_row {
    struct mf_queue_row *next; /* in lists of a waiting op, and in the free list */
    int64_t order; /* of arrival: breaks ties of priorities */
    mf_tensor parts[];
} mf_queue_row;

typedef struct mf_queue_spec {
    mf_queue_kind kind;
    const char *name;
    int64_t capacity; /* negative: no limit */
    int64_t min_after; /* shuffled: this many elements remain until it is closed */
    uint64_t seed, seed2;
    const mf_dtype *types;
    const mf_shape *shapes; /* NULL: not declared */
    int n_parts;
} mf_queue_spec;

typedef struct mf_queue {
    mf_object object;
    mf_queue_kind kind;
    char *name;
    int64_t capacity, min_after;
    mf_dtype *types;
    mf_shape *shapes;
    int n_parts;
    pthread_mutex_t lock; /* guards all members below */
    mf_queue_row **ring; /* `count` rows from `head` on; for shuffle and heap, head is 0 */
    int64_t ring_cap, head, count, arrivals;
    mf_queue_row *spare;
    bool closed;
    mf_wait_line enqueues, dequeues;
    mf_philox random;
    uint32_t drawn[4];
    int n_drawn; /* number of used elements of `drawn` */
} mf_queue;

extern const mf_object_type mf_queue_type;

/* mf_object_make; ctx is a mf_queue_spec. */
MF_MUST mf_status mf_queue_make(void *spec, mf_object **out);
/* Fails: INVALID_ARGUMENT naming the first difference between an existing queue and a node's
 * attributes. */
MF_MUST mf_status mf_queue_matches(const mf_queue *q, const mf_queue_spec *spec);
/* The name of a kind, as in messages: "FIFOQueue". */
const char *mf_queue_kind_name(mf_queue_kind kind);

/* What a waiting op does. */
typedef enum mf_queue_action { MF_ENQUEUE, MF_DEQUEUE, MF_CLOSE } mf_queue_action;

/* Bodies of asynchronous kernels: they complete k, now or later, even on failure. */
/* Enqueues the tuple of inputs [first, n_in), or, with `many`, each slice of it. */
void mf_queue_enqueue(mf_kernel *k, mf_queue *q, int first, bool many);
/* Dequeues one tuple (n < 0) or a batch of n; up_to: fewer if the queue is closed. */
void mf_queue_dequeue(mf_kernel *k, mf_queue *q, int64_t n, bool up_to);
void mf_queue_close(mf_kernel *k, mf_queue *q, bool cancel_pending);

/* Direct operations: remove all elements; close; enqueue one element, moving its parts out of the
 * array, whatever the capacity. */
void mf_queue_clear(mf_queue *q);
void mf_queue_shut(mf_queue *q);
MF_MUST mf_status mf_queue_offer(mf_queue *q, mf_tensor *parts);

/* The container (queue_rows.c); the caller holds the lock. */
MF_MUST mf_status mf_queue_reserve(mf_queue *q, int64_t rows);
void mf_queue_push(mf_queue *q, mf_queue_row *row); /* room was reserved */
void mf_queue_push_front(mf_queue *q, mf_queue_row *row);
mf_queue_row *mf_queue_pop(mf_queue *q); /* count > 0 */
mf_queue_row *mf_queue_row_new(mf_queue *q); /* NULL: out of memory */
void mf_queue_row_drop(mf_queue *q, mf_queue_row *row);

/* Output c of k: part c of `n` rows as one batch, padded if the queue pads. */
MF_MUST mf_status mf_queue_batch(const mf_queue *q, mf_kernel *k, int c, mf_queue_row *rows,
                                 int64_t n);

#endif
