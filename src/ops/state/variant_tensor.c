/* SPDX-License-Identifier: Apache-2.0 */
/* variant_tensor.c - a tensor as an element of a variant tensor. */
#include "ops/state/variant_tensor.h"

typedef struct boxed {
    mf_object object;
    mf_tensor tensor;
} boxed;

static void boxed_destroy(mf_object *o)
{
    mf_tensor_clear(&((boxed *)o)->tensor);
    mf_free(o);
}
static const mf_object_type boxed_type = { .name = "tensor", .destroy = boxed_destroy };

mf_status mf_variant_tensor_set(mf_object **cell, const mf_tensor *t)
{
    boxed *b = mf_calloc(1, sizeof *b);

    if (!b)
        return MF_NOMEM("a variant");
    b->object.type = &boxed_type;
    atomic_store(&b->object.refs, 1);
    mf_tensor_set(&b->tensor, t);
    mf_object_unref(*cell);
    *cell = &b->object;
    return MF_OK;
}

mf_status mf_variant_tensor_get(const mf_object *cell, const mf_tensor **out)
{
    *out = NULL;
    if (!cell || cell->type != &boxed_type)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a variant holds %s, not a tensor",
                       cell ? cell->type->name : "nothing");
    *out = &((const boxed *)cell)->tensor;
    return MF_OK;
}
