/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c - per-step stacks, in which loops keep values for their gradients. A stack cannot be
 * looked up by name: its users have an edge to it. */
#include "ops/state/handle.h"

typedef struct stack {
    mf_object object;
    mf_dtype dtype;
    int64_t max_size; /* negative: no limit */
    pthread_mutex_t lock;
    mf_tensor *items; /* guarded by lock, like all members below */
    int64_t n, cap;
    bool closed;
} stack;

static void stack_clear(stack *s)
{
    while (s->n > 0)
        mf_tensor_clear(&s->items[--s->n]);
}

static void stack_destroy(mf_object *o)
{
    stack *s = (stack *)o;

    stack_clear(s);
    mf_free(s->items);
    pthread_mutex_destroy(&s->lock);
    mf_free(s);
}

static const mf_object_type stack_type = { .name = "stack", .destroy = stack_destroy };

static mf_status stack_make_run(mf_kernel *k)
{
    stack *s;
    mf_status st;

    if (k->in[0]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Stack size must be a scalar");
    s = mf_calloc(1, sizeof *s);
    if (!s)
        return MF_NOMEM("a stack");
    s->object.type = &stack_type;
    atomic_store(&s->object.refs, 1);
    pthread_mutex_init(&s->lock, NULL);
    s->dtype = mf_node_type(k->node, "elem_type");
    s->max_size = mf_tensor_int_at(k->in[0], 0);
    st = mf_kernel_set_object(k, 0, &s->object);
    mf_object_unref(&s->object);
    return st;
}

static mf_status input_stack(const mf_kernel *k, mf_dtype dtype, stack **out)
{
    mf_object *o = NULL;

    *out = NULL;
    MF_TRY(mf_kernel_object(k, 0, &stack_type, &o));
    *out = (stack *)o;
    if (dtype != MF_DTYPE_INVALID && (*out)->dtype != dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Must have type %s but got %s",
                       mf_dtype_name((*out)->dtype), mf_dtype_name(dtype));
    return MF_OK;
}

static mf_status push_locked(const mf_kernel *k, stack *s)
{
    if (s->closed)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Stack[%s] has already been closed.", k->node->name);
    if (s->max_size >= 0 && s->n >= s->max_size)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Stack[%s] overflowed its max_size (%lld)",
                       k->node->name, (long long)s->max_size);
    MF_TRY(mf_grow(&s->items, &s->cap, s->n + 1, sizeof *s->items));
    MF_TRY(mf_tensor_keep(&s->items[s->n], k->in[1]));
    s->n++;
    return MF_OK;
}

static mf_status stack_push_run(mf_kernel *k)
{
    stack *s;
    mf_status st;

    MF_TRY(input_stack(k, k->in[1]->dtype, &s));
    pthread_mutex_lock(&s->lock);
    st = push_locked(k, s);
    pthread_mutex_unlock(&s->lock);
    if (st == MF_OK)
        mf_kernel_set(k, 0, k->in[1]);
    return st;
}

static mf_status stack_pop_run(mf_kernel *k)
{
    stack *s;
    mf_status st = MF_OK;

    MF_TRY(input_stack(k, mf_type_base(k->node->out_types[0]), &s));
    pthread_mutex_lock(&s->lock);
    if (s->closed)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "Stack[%s] has already been closed.", k->node->name);
    else if (s->n == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "Stack[%s] is empty when calling Pop().", k->node->name);
    else
        mf_tensor_move(k->out[0], &s->items[--s->n]);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status stack_close_run(mf_kernel *k)
{
    stack *s;

    MF_TRY(input_stack(k, MF_DTYPE_INVALID, &s));
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    stack_clear(s);
    pthread_mutex_unlock(&s->lock);
    return MF_OK;
}

static mf_status push_infer(mf_infer *in)
{
    in->out[0] = in->in[1];
    return MF_OK;
}

#define OP(NAME, DEF, INFER, RUN)                                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = mf_grad_none, .run = RUN                                                           \
    }

const mf_op mf_ops_stack[] = {
    OP("StackV2",
       "(max_size:int32) -> (handle:resource) {elem_type:type, stack_name:string=''} is_stateful",
       mf_infer_scalar, stack_make_run),
    OP("StackPushV2",
       "(handle:resource, elem:T) -> (output:T) {T:type, swap_memory:bool=false} is_stateful",
       push_infer, stack_push_run),
    OP("StackPopV2", "(handle:resource) -> (elem:elem_type) {elem_type:type} is_stateful",
       mf_infer_unknown, stack_pop_run),
    OP("StackCloseV2", "(handle:resource) -> () {} is_stateful", mf_infer_none, stack_close_run),
    { 0 },
};
