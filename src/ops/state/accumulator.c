/* SPDX-License-Identifier: Apache-2.0 */
/* accumulator.c - ops on conditional accumulators, dense (with handles or references) and sparse.
 */
#include "ops/state/accumulator.h"

#include "ops/state/handle.h"

#include <string.h>

/* ---- the object ---- */

static void accumulator_destroy(mf_object *o)
{
    mf_accumulator *a = (mf_accumulator *)o;

    mf_accumulator_reset(a);
    mf_free(a->sparse.index);
    mf_free(a->sparse.slot);
    mf_free(a->sparse.times);
    mf_free(a->name);
    pthread_mutex_destroy(&a->lock);
    mf_free(a);
}

static const mf_object_type accumulator_type = { .name = "accumulator",
                                                 .destroy = accumulator_destroy };

typedef struct accumulator_state {
    mf_handle handle; /* first */
    mf_dtype dtype;
    mf_shape shape;
    bool is_mean, is_sparse;
} accumulator_state;

static mf_status accumulator_make(void *ctx, mf_object **out)
{
    const accumulator_state *s = ctx;
    mf_accumulator *a = mf_calloc(1, sizeof *a);

    *out = NULL;
    if (!a)
        return MF_NOMEM("an accumulator");
    a->object.type = &accumulator_type;
    atomic_store(&a->object.refs, 1);
    pthread_mutex_init(&a->lock, NULL);
    a->dtype = s->dtype;
    a->shape = s->shape;
    a->is_mean = s->is_mean;
    a->is_sparse = s->is_sparse;
    a->name = mf_strdup(s->handle.name);
    if (!a->name) {
        accumulator_destroy(&a->object);
        return MF_NOMEM("an accumulator");
    }
    *out = &a->object;
    return MF_OK;
}

static mf_status accumulator_make_prepare(mf_prepare *p)
{
    accumulator_state *s = MF_ARENA_NEW(p->arena, accumulator_state);

    p->state = NULL;
    if (!s)
        return MF_NOMEM("an accumulator");
    s->dtype = mf_node_type(p->node, "dtype");
    s->shape = *mf_node_shape(p->node, "shape");
    s->is_mean = strcmp(mf_node_string(p->node, "reduction_type"), "SUM") != 0;
    s->is_sparse = strncmp(p->node->op_name, "Sparse", 6) == 0;
    MF_TRY(mf_handle_init(&s->handle, p, true));
    p->state = s;
    return MF_OK;
}

static void accumulator_make_release(void *state)
{
    if (state)
        mf_handle_deinit(&((accumulator_state *)state)->handle);
}

static mf_status accumulator_make_run(mf_kernel *k)
{
    accumulator_state *s = k->state;
    const mf_accumulator *a;

    MF_TRY(mf_handle_run(&s->handle, k, &accumulator_type, accumulator_make, s));
    a = (const mf_accumulator *)mf_handle_object(k->out[0]);
    if (a->dtype != s->dtype || !mf_shape_equal(&a->shape, &s->shape) ||
        a->is_sparse != s->is_sparse || a->is_mean != s->is_mean)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Shared accumulator '%s' has another type, shape or reduction than requested", a->name);
    return MF_OK;
}

static mf_status input_accumulator(const mf_kernel *k, mf_accumulator **a)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &accumulator_type, &o);

    *a = (mf_accumulator *)o;
    return st;
}

/* ---- taking ---- */

typedef struct take_wait {
    mf_wait wait; /* first */
    int64_t wanted;
    struct take_wait *ended;
} take_wait;

/* Serves takers in order. The caller holds the lock. */
static void accumulator_serve(mf_accumulator *a, take_wait **ended)
{
    take_wait *w;

    while ((w = (take_wait *)a->takers.first) != NULL && a->count >= w->wanted) {
        const mf_status st = a->is_sparse ? mf_accumulator_put_sparse(a, w->wait.kernel)
                                          : mf_accumulator_put(a, w->wait.kernel);

        if (st != MF_OK)
            mf_wait_fail(&w->wait, st, "%s", mf_error_message());
        else
            a->step++;
        mf_wait_unlink(&w->wait);
        w->ended = *ended;
        *ended = w;
    }
}

static void accumulator_end_one(take_wait *w)
{
    mf_kernel *k = w->wait.kernel;
    mf_object *at = w->wait.at;
    const mf_status st = mf_wait_status(&w->wait);

    mf_free(w);
    mf_object_unref(at);
    mf_kernel_done(k, st);
}

static void accumulator_end_all(take_wait *ended)
{
    while (ended) {
        take_wait *w = ended;

        ended = w->ended;
        mf_wait_unhook(&w->wait);
        accumulator_end_one(w);
    }
}

static void accumulator_cancelled(mf_cancel_hook *hook)
{
    take_wait *w = (take_wait *)hook, *ended = NULL; /* the hook is the first member of both structs
                                                      */
    mf_accumulator *a = (mf_accumulator *)w->wait.at;

    pthread_mutex_lock(&a->lock);
    if (!w->wait.line) { /* another thread is completing it */
        pthread_mutex_unlock(&a->lock);
        return;
    }
    mf_wait_unlink(&w->wait);
    mf_wait_fail(&w->wait, MF_CANCELLED, "TakeGrad operation was cancelled");
    accumulator_serve(a, &ended);
    pthread_mutex_unlock(&a->lock);
    accumulator_end_all(ended);
    accumulator_end_one(w);
}

static mf_status take_begin(mf_kernel *k, mf_accumulator **a, take_wait **w)
{
    int64_t wanted;

    *w = NULL;
    MF_TRY(input_accumulator(k, a));
    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Argument num_required must be a scalar");
    wanted = mf_tensor_int_at(k->in[1], 0);
    if (wanted <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Argument num_required must be positive, but was %lld",
                       (long long)wanted);
    if ((*a)->is_sparse != (k->n_out == 3) || (*a)->dtype != k->node->out_types[(*a)->is_sparse])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "accumulator '%s' holds another kind of gradients than this op", (*a)->name);
    *w = mf_calloc(1, sizeof **w);
    if (!*w)
        return MF_NOMEM("a waiting op");
    (*w)->wait.kernel = k;
    (*w)->wait.at = mf_object_ref(&(*a)->object);
    (*w)->wanted = wanted;
    return MF_OK;
}

static void accumulator_take_start(mf_kernel *k)
{
    take_wait *w, *ended = NULL;
    mf_accumulator *a;
    const mf_status st = take_begin(k, &a, &w);

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    pthread_mutex_lock(&a->lock);
    mf_wait_append(&a->takers, &w->wait);
    accumulator_serve(a, &ended);
    if (w->wait.line && !mf_wait_hook(&w->wait, accumulator_cancelled)) {
        mf_wait_unlink(&w->wait);
        mf_wait_fail(&w->wait, MF_CANCELLED, "TakeGrad operation was cancelled");
        w->ended = ended;
        ended = w;
    }
    pthread_mutex_unlock(&a->lock);
    accumulator_end_all(ended);
}

/* ---- the others ---- */

static mf_status accumulator_scalar_input(const mf_kernel *k, int i, int64_t *out)
{
    *out = 0;
    if (k->in[i]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a scalar", k->node->def->in[i].name);
    *out = mf_tensor_int_at(k->in[i], 0);
    return MF_OK;
}

static mf_status apply_run(mf_kernel *k)
{
    take_wait *ended = NULL;
    mf_accumulator *a;
    int64_t step;
    mf_status st = MF_OK;

    MF_TRY(input_accumulator(k, &a));
    MF_TRY(accumulator_scalar_input(k, 1, &step));
    if (a->is_sparse != (k->n_in == 5))
        return MF_FAIL(MF_INVALID_ARGUMENT, "accumulator '%s' is %s", a->name,
                       a->is_sparse ? "sparse" : "dense");
    pthread_mutex_lock(&a->lock);
    if (step >= a->step) {
        st = a->is_sparse ? mf_accumulator_add_sparse(a, k) : mf_accumulator_add(a, k);
        if (st == MF_OK) {
            a->count++;
            accumulator_serve(a, &ended);
        }
    }
    pthread_mutex_unlock(&a->lock);
    accumulator_end_all(ended);
    return st;
}

static mf_status accumulator_count_run(mf_kernel *k)
{
    mf_accumulator *a;
    mf_tensor *out;

    MF_TRY(input_accumulator(k, &a));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    pthread_mutex_lock(&a->lock);
    *(int32_t *)out->data = (int32_t)a->count;
    pthread_mutex_unlock(&a->lock);
    return MF_OK;
}

static mf_status step_run(mf_kernel *k)
{
    mf_accumulator *a;
    int64_t step;

    MF_TRY(input_accumulator(k, &a));
    MF_TRY(accumulator_scalar_input(k, 1, &step));
    pthread_mutex_lock(&a->lock);
    a->step = step;
    pthread_mutex_unlock(&a->lock);
    return MF_OK;
}

static mf_status take_infer(mf_infer *in)
{
    const mf_node *maker = in->node->inputs[0].node;

    if (in->n_out == 1 && maker && mf_node_attr(maker, "shape"))
        in->out[0] = *mf_node_shape(maker, "shape");
    return MF_OK;
}

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)
#define OP(NAME, DEF, INFER, HOW)                                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none, HOW        \
    }
#define MAKER(NAME, HANDLE)                                                                        \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "() -> (handle:" HANDLE ") {dtype:type in numbers, shape:shape, "                   \
               "container:string='', shared_name:string='', "                                      \
               "reduction_type:string='MEAN' in ['MEAN','SUM']} is_stateful",                      \
        .flags = FLAGS, .infer = mf_infer_scalar, .grad = mf_grad_none,                            \
        .prepare = accumulator_make_prepare, .release = accumulator_make_release,                  \
        .run = accumulator_make_run                                                                \
    }
#define DENSE(PREFIX, HANDLE, STATEFUL)                                                            \
    MAKER(PREFIX "ConditionalAccumulator", HANDLE),                                                \
        OP(PREFIX "AccumulatorApplyGradient",                                                      \
           "(handle:" HANDLE                                                                       \
           ", local_step:int64, gradient:dtype) -> () {dtype:type in numbers}" STATEFUL,           \
           mf_infer_none, .run = apply_run),                                                       \
        OP(PREFIX "AccumulatorTakeGradient",                                                       \
           "(handle:" HANDLE                                                                       \
           ", num_required:int32) -> (average:dtype) {dtype:type in numbers}" STATEFUL,            \
           take_infer, .start = accumulator_take_start),                                           \
        OP(PREFIX "AccumulatorNumAccumulated",                                                     \
           "(handle:" HANDLE ") -> (num_accumulated:int32) {}" STATEFUL, mf_infer_scalar,          \
           .run = accumulator_count_run),                                                          \
        OP(PREFIX "AccumulatorSetGlobalStep",                                                      \
           "(handle:" HANDLE ", new_global_step:int64) -> () {}" STATEFUL, mf_infer_none,          \
           .run = step_run)

const mf_op mf_ops_accumulator[] = {
    DENSE("Resource", "resource", " is_stateful"),
    DENSE("", "ref string", ""),
    MAKER("SparseConditionalAccumulator", "ref string"),
    OP("SparseAccumulatorApplyGradient",
       "(handle:ref string, local_step:int64, gradient_indices:int64, gradient_values:dtype, "
       "gradient_shape:int64) -> () {dtype:type in numbers, has_known_shape:bool}",
       mf_infer_none, .run = apply_run),
    OP("SparseAccumulatorTakeGradient",
       "(handle:ref string, num_required:int32) -> (indices:int64, values:dtype, shape:int64) "
       "{dtype:type in numbers}",
       take_infer, .start = accumulator_take_start),
    { 0 },
};
