/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - functions for kernels: output memory, objects in handles, files. */
#include "graph/op.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An input of the same type and size with a sole reference to its storage. */
static const mf_tensor *reusable_input(const mf_kernel *k, mf_dtype dtype, int64_t count)
{
    for (int i = 0; i < k->n_in && i < 64; i++) {
        const mf_tensor *in = k->in[i];

        if (k->reuse >> i & 1 && in->dtype == dtype && in->count == count && in->buffer &&
            in->buffer->size_class >= 0 && in->data == in->buffer->data &&
            mf_buffer_is_sole(in->buffer))
            return in;
    }
    return NULL;
}

/* A kernel that waited may be resumed by a thread of another account. */
static mf_status alloc_for(const mf_kernel *k, mf_tensor *out, mf_dtype dtype,
                           const mf_shape *shape)
{
    mf_resources *resources = k->step->resources;
    mf_mem_account *before =
        resources ? mf_mem_account_enter(mf_resources_account(resources)) : mf_mem_account_here();
    const mf_status st = mf_tensor_alloc(out, dtype, shape);

    (void)mf_mem_account_enter(before);
    return st;
}

mf_status mf_kernel_alloc(mf_kernel *k, int i, const mf_shape *shape, mf_tensor **t)
{
    mf_tensor *out = k->out[i];
    const mf_dtype dtype = mf_type_base(k->node->out_types[i]);
    char planned[MF_SHAPE_TEXT], actual[MF_SHAPE_TEXT];
    int64_t count;

    *t = out;
    if (out->data && !out->buffer)
        return MF_FAIL(MF_INTERNAL, "output %d was planned as %s but is %s", i,
                       mf_shape_text(&out->shape, planned), mf_shape_text(shape, actual));
    if (k->def->flags & MF_OP_INPLACE && mf_dtype_is_plain(dtype)) {
        const mf_tensor *in;

        MF_TRY(mf_shape_count(shape, &count));
        in = reusable_input(k, dtype, count);
        if (in) {
            mf_tensor_reshape(out, in, shape);
            return MF_OK;
        }
    }
    mf_tensor_clear(out);
    return alloc_for(k, out, dtype, shape);
}

void mf_kernel_set(mf_kernel *k, int i, const mf_tensor *t)
{
    mf_tensor_set(k->out[i], t);
}

mf_status mf_kernel_object(const mf_kernel *k, int i, const mf_object_type *type, mf_object **out)
{
    const mf_tensor *t = k->in[i];
    mf_object *o = t->count == 1 && !mf_dtype_is_plain(t->dtype) && t->dtype != MF_DTYPE_STRING
                       ? *(mf_object **)t->data
                       : NULL;

    *out = NULL;
    if (!o || o->type != type)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input %d holds %s, expected a %s", i,
                       o ? o->type->name : "no resource", type->name);
    *out = o;
    return MF_OK;
}

mf_status mf_kernel_variable(const mf_kernel *k, int i, mf_variable **out)
{
    mf_object *o;

    *out = NULL;
    MF_TRY(mf_kernel_object(k, i, &mf_variable_type, &o));
    *out = (mf_variable *)o;
    return MF_OK;
}

mf_status mf_kernel_set_object(mf_kernel *k, int i, mf_object *object)
{
    mf_tensor t = { 0 };

    MF_TRY(mf_tensor_alloc(&t, MF_DTYPE_RESOURCE, &MF_SCALAR));
    *(mf_object **)t.data = mf_object_ref(object);
    mf_tensor_move(k->out[i], &t);
    return MF_OK;
}
