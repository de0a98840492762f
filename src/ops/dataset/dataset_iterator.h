/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_iterator.h - an iterator over a dataset that lives in the server across steps. */
#ifndef MF_OPS_DATASET_DATASET_ITERATOR_H
#define MF_OPS_DATASET_DATASET_ITERATOR_H

#include "ops/dataset/dataset_op.h"

/* Description of the iterator that a node creates. */
typedef struct mf_seq_iterator_spec {
    mf_element_spec parts;
    const char *container, *name; /* its key; name NULL: anonymous */
    bool is_private; /* among the session's resources, not the server's */
} mf_seq_iterator_spec;

typedef struct mf_seq_iterator {
    mf_object object;
    mf_dtype *types; /* of its elements */
    mf_shape *shapes; /* NULL: any */
    int n_parts;
    char *text; /* result of IteratorToStringHandle; NULL: anonymous */
    pthread_mutex_t lock; /* guards `busy` and `owner` */
    pthread_cond_t idle; /* signals that it is no longer busy */
    bool busy; /* a thread makes an element or starts the iterator: it owns the members below */
    pthread_t owner; /* while busy */
    mf_walk walk;
    mf_cursor *cursor; /* NULL: not initialized */
} mf_seq_iterator;

extern const mf_object_type mf_seq_iterator_type;

/* mf_object_make; ctx is a mf_seq_iterator_spec. */
MF_MUST mf_status mf_seq_iterator_make(void *spec, mf_object **out);
/* Starts iteration over d from its beginning. `once`: unless it has been started already. */
MF_MUST mf_status mf_seq_iterator_start(mf_seq_iterator *it, const mf_step *step, mf_dataset_op *d,
                                        bool once);
MF_MUST mf_status mf_seq_iterator_has_started(mf_seq_iterator *it, const mf_step *step, bool *out);
/* The next element into an empty row of n_parts. Fails: FAILED_PRECONDITION (not initialized, or
 * called by the function that makes the element). All three functions wait for other threads at
 * most until the step ends. */
MF_MUST mf_status mf_seq_iterator_next(mf_seq_iterator *it, const mf_step *step, mf_tensor *row,
                                       bool *end);
static inline mf_element_spec mf_seq_iterator_parts(const mf_seq_iterator *it)
{
    return (mf_element_spec){ it->n_parts, it->types, it->shapes };
}

#endif
