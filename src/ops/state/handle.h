/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - shared by ops that create, find and read shared objects (variables, queues,
 * accumulators). */
#ifndef MF_OPS_STATE_HANDLE_H
#define MF_OPS_STATE_HANDLE_H

#include "graph/op.h"

/* State of an op that outputs a handle to a named object: the last lookup, which is valid as long
 * as nothing is removed from the registry. First member of such an op's state. */
typedef struct mf_handle {
    const char *container, *name; /* "" is the container "localhost" */
    mf_resources *owner; /* NULL: the step's; otherwise the session's, for private objects */
    pthread_mutex_t lock;
    mf_tensor tensor; /* the handle; guarded by lock, like the two members below */
    mf_resources *from; /* registry and generation of the lookup */
    uint64_t generation;
} mf_handle;

/* Reads container and shared_name. Without a shared name the object is named after the node; with
 * `is_private` it then also belongs to the session, so that two sessions do not share it. */
MF_MUST mf_status mf_handle_init(mf_handle *h, mf_prepare *p, bool is_private);
void mf_handle_deinit(mf_handle *h);
/* Sets *out (empty or not) to the handle; creates the object if it does not exist. */
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

/* The known shape of the variable that input i refers to: a reference edge has it, a resource edge
 * is followed to the op that made the handle. */
mf_shape mf_infer_variable(const mf_infer *in, int input);

/* Makes dst a copy of `src` that outlives the step: storage owned by a plan or the caller is
 * copied. */
MF_MUST mf_status mf_tensor_keep(mf_tensor *dst, const mf_tensor *src);

#endif
