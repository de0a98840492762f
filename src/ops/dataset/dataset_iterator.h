/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_iterator.h - a walk through a data set that lives in the server, from step to step. */
#ifndef MF_OPS_DATASET_DATASET_ITERATOR_H
#define MF_OPS_DATASET_DATASET_ITERATOR_H

#include "ops/dataset/dataset_op.h"

/* What a node says of the iterator it makes. */
typedef struct mf_seq_iterator_spec {
    mf_element_spec parts;
    const char *container, *name; /* by which it is found again; name NULL: not at all */
    bool is_private; /* among the session's objects, not the server's */
} mf_seq_iterator_spec;

typedef struct mf_seq_iterator {
    mf_object object;
    mf_dtype *types; /* of its elements */
    mf_shape *shapes; /* NULL: any */
    int n_parts;
    char *text; /* what IteratorToStringHandle says; NULL: it cannot be found */
    pthread_mutex_t lock; /* guards `busy` and `owner` */
    pthread_cond_t idle; /* it is not busy any more */
    bool busy; /* somebody makes an element, or begins: what is below is theirs */
    pthread_t owner; /* while busy */
    mf_walk walk;
    mf_cursor *cursor; /* NULL: not initialized */
} mf_seq_iterator;

extern const mf_object_type mf_seq_iterator_type;

/* mf_object_make; ctx is a mf_seq_iterator_spec. */
MF_MUST mf_status mf_seq_iterator_make(void *spec, mf_object **out);
/* From now on it walks through d, from the beginning. `once`: unless it has begun already. */
MF_MUST mf_status mf_seq_iterator_start(mf_seq_iterator *it, const mf_step *step, mf_dataset_op *d,
                                        bool once);
MF_MUST mf_status mf_seq_iterator_has_started(mf_seq_iterator *it, const mf_step *step, bool *out);
/* The next element into an empty row, of n_parts. FAILED_PRECONDITION: not initialized, or asked by
 * the function that makes the element. All three wait for others no longer than the step lasts. */
MF_MUST mf_status mf_seq_iterator_next(mf_seq_iterator *it, const mf_step *step, mf_tensor *row,
                                       bool *end);
static inline mf_element_spec mf_seq_iterator_parts(const mf_seq_iterator *it)
{
    return (mf_element_spec){ it->n_parts, it->types, it->shapes };
}

#endif
