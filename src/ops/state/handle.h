/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - what ops that make, find and read shared objects (variables, queues, accumulators)
 * have in common. */
#ifndef MF_OPS_STATE_HANDLE_H
#define MF_OPS_STATE_HANDLE_H

#include "graph/op.h"

/* State of an op that puts out a handle to a named object: the last look-up, which holds as long as
 * nothing was removed from the registry. First member of such an op's state. */
typedef struct mf_handle {
    const char *container, *name; /* "" is the container "localhost" */
    mf_resources *owner; /* NULL: the step's; else the session's, for private objects */
    pthread_mutex_t lock;
    mf_tensor tensor; /* the handle; guarded by lock, as are the two below */
    mf_resources *from; /* where it was found, and when */
    uint64_t generation;
} mf_handle;

/* Reads container and shared_name. Without a shared name the object is called like the node; with
 * `is_private` it then also belongs to the session, so that two sessions do not share it. */
MF_MUST mf_status mf_handle_init(mf_handle *h, mf_prepare *p, bool is_private);
void mf_handle_deinit(mf_handle *h);
/* *out (empty or not) becomes the handle; the object is made when it does not exist. */
MF_MUST mf_status mf_handle_get(mf_handle *h, const mf_step *step, const mf_object_type *type,
                                mf_object_make *make, void *ctx, mf_tensor *out);
/* The same for output 0 of k. */
MF_MUST mf_status mf_handle_run(mf_handle *h, mf_kernel *k, const mf_object_type *type,
                                mf_object_make *make, void *ctx);
/* The object in a handle. */
static inline mf_object *mf_handle_object(const mf_tensor *handle)
{
    return *(mf_object **)handle->data;
}

/* What is known of the value of the variable that input i refers to: a reference edge says it
 * itself, a resource edge is followed to the op that made the handle. */
mf_shape mf_infer_variable(const mf_infer *in, int input);

/* dst becomes `src` for longer than this step: storage that a plan or the caller owns is copied. */
MF_MUST mf_status mf_tensor_keep(mf_tensor *dst, const mf_tensor *src);

#endif
