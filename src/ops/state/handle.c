/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c - creates, finds and reads shared objects: variables, queues, accumulators. */
#include "ops/state/handle.h"

#include <string.h>

mf_status mf_handle_init(mf_handle *h, mf_prepare *p, bool is_private)
{
    const char *shared = mf_node_string(p->node, "shared_name");

    h->container = mf_arena_strdup(p->arena, mf_node_string(p->node, "container"));
    h->name = mf_arena_strdup(p->arena, shared[0] ? shared : p->node->name);
    h->owner = is_private && !shared[0] ? p->session : NULL;
    if (!h->container || !h->name)
        return MF_NOMEM("a handle");
    pthread_mutex_init(&h->lock, NULL);
    return MF_OK;
}

void mf_handle_deinit(mf_handle *h)
{
    mf_tensor_clear(&h->tensor);
    pthread_mutex_destroy(&h->lock);
}

/* The caller holds the lock. */
static mf_status handle_look_up(mf_handle *h, mf_resources *from, const mf_object_type *type,
                                mf_object_make *make, void *ctx)
{
    const uint64_t generation = mf_resources_generation(from); /* before the lookup, so never newer
                                                                  than its result */
    mf_tensor t = { 0 };
    mf_object *object;
    mf_status st;

    MF_TRY(mf_resources_get(from, h->container, h->name, type, make, ctx, &object));
    st = mf_tensor_alloc(&t, MF_DTYPE_RESOURCE, &MF_SCALAR);
    if (st != MF_OK) {
        mf_object_unref(object);
        return st;
    }
    *(mf_object **)t.data = object;
    mf_tensor_move(&h->tensor, &t);
    h->from = from;
    h->generation = generation;
    return MF_OK;
}

mf_status mf_handle_get(mf_handle *h, const mf_step *step, const mf_object_type *type,
                        mf_object_make *make, void *ctx, mf_tensor *out)
{
    mf_resources *from = h->owner ? h->owner : step->resources;
    mf_status st = MF_OK;

    pthread_mutex_lock(&h->lock);
    if (h->from != from || h->generation != mf_resources_generation(from))
        st = handle_look_up(h, from, type, make, ctx);
    if (st == MF_OK)
        mf_tensor_set(out, &h->tensor);
    pthread_mutex_unlock(&h->lock);
    return st;
}

mf_status mf_handle_run(mf_handle *h, mf_kernel *k, const mf_object_type *type,
                        mf_object_make *make, void *ctx)
{
    return mf_handle_get(h, k->step, type, make, ctx, k->out[0]);
}

mf_shape mf_infer_variable(const mf_infer *in, int input)
{
    const mf_node *node = in->node;
    int at = input;

    if (mf_type_is_ref(node->in_types[input]))
        return in->in[input];
    for (int hops = 0; hops < 64 && at < node->n_inputs; hops++) {
        node = node->inputs[at].node;
        if (!node)
            break;
        if (strcmp(node->op_name, "VarHandleOp") == 0)
            return *mf_node_shape(node, "shape");
        if (strcmp(node->op_name, "Identity") != 0 && strcmp(node->op_name, "Enter") != 0 &&
            strcmp(node->op_name, "Switch") != 0)
            break;
        at = 0;
    }
    return MF_SHAPE_UNKNOWN;
}

mf_status mf_tensor_keep(mf_tensor *dst, const mf_tensor *src)
{
    const mf_buffer *b = src->buffer;

    if (!b || b->size_class < 0)
        return mf_tensor_clone(dst, src);
    mf_tensor_set(dst, src);
    return MF_OK;
}
