/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.c - barriers: tuples that arrive component by component under a key, and leave complete.
 * Complete tuples are in a priority queue of (batch, key, components...), which also implements
 * waiting. */
#include "ops/state/handle.h"
#include "ops/state/queue.h"

#include <string.h>

/* An incomplete tuple. parts: as in the queue, (batch, key, components...). */
typedef struct barrier_partial {
    struct barrier_partial *next;
    int n_set;
    mf_tensor parts[];
} barrier_partial;

typedef struct barrier {
    mf_object object;
    mf_queue *ready;
    int n_components;
    pthread_mutex_t lock; /* guards all members below */
    barrier_partial *first;
    int64_t n_partial, batch; /* the number of the next insertion, ascending */
    bool closed;
} barrier;

static void barrier_partial_free(barrier *b, barrier_partial *p)
{
    for (int i = 0; i < b->n_components + 2; i++)
        mf_tensor_clear(&p->parts[i]);
    mf_free(p);
}

static void barrier_destroy(mf_object *o)
{
    barrier *b = (barrier *)o;

    while (b->first) {
        barrier_partial *p = b->first;

        b->first = p->next;
        barrier_partial_free(b, p);
    }
    if (b->ready)
        mf_object_unref(&b->ready->object);
    pthread_mutex_destroy(&b->lock);
    mf_free(b);
}

static const mf_object_type barrier_type = { .name = "barrier", .destroy = barrier_destroy };

/* ---- making ---- */

typedef struct barrier_state {
    mf_handle handle; /* first */
    mf_queue_spec spec; /* of the queue of complete tuples */
} barrier_state;

static mf_status barrier_make(void *ctx, mf_object **out)
{
    mf_queue_spec *spec = ctx;
    barrier *b = mf_calloc(1, sizeof *b);
    mf_object *queue = NULL;
    mf_status st;

    *out = NULL;
    if (!b)
        return MF_NOMEM("a barrier");
    b->object.type = &barrier_type;
    atomic_store(&b->object.refs, 1);
    pthread_mutex_init(&b->lock, NULL);
    b->n_components = spec->n_parts - 2;
    b->batch = INT64_MIN;
    st = mf_queue_make(spec, &queue);
    b->ready = (mf_queue *)queue;
    if (st != MF_OK)
        mf_object_unref(&b->object);
    else
        *out = &b->object;
    return st;
}

static mf_status barrier_make_prepare(mf_prepare *p)
{
    const mf_attr *types = mf_node_list(p->node, "component_types", MF_ATTR_TYPE);
    const mf_attr *shapes = mf_node_list(p->node, "shapes", MF_ATTR_SHAPE);
    const int64_t n = types ? types->n : 0;
    barrier_state *s = MF_ARENA_NEW(p->arena, barrier_state);
    mf_dtype *t = MF_ARENA_ARRAY(p->arena, mf_dtype, n + 2);
    mf_shape *sh = MF_ARENA_ARRAY(p->arena, mf_shape, n + 2);

    p->state = NULL;
    if (!s || !t || !sh)
        return MF_NOMEM("a barrier");
    if (!shapes || (shapes->n != n && shapes->n != 0))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "All of the component shapes must be specified, or none");
    t[0] = MF_DTYPE_I64;
    t[1] = MF_DTYPE_STRING;
    sh[0] = sh[1] = MF_SCALAR;
    for (int64_t i = 0; i < n; i++) {
        t[i + 2] = (mf_dtype)types->ints[i];
        sh[i + 2] = shapes->n ? shapes->shapes[i] : MF_SHAPE_UNKNOWN;
    }
    MF_TRY(mf_handle_init(&s->handle, p, true));
    s->spec = (mf_queue_spec){ .kind = MF_QUEUE_PRIORITY,
                               .name = s->handle.name,
                               .capacity = -1,
                               .types = t,
                               .shapes = sh,
                               .n_parts = (int)n + 2 };
    p->state = s;
    return MF_OK;
}

static void barrier_make_release(void *state)
{
    if (state)
        mf_handle_deinit(&((barrier_state *)state)->handle);
}

static mf_status barrier_make_run(mf_kernel *k)
{
    barrier_state *s = k->state;

    MF_TRY(mf_handle_run(&s->handle, k, &barrier_type, barrier_make, &s->spec));
    return mf_queue_matches(((barrier *)mf_handle_object(k->out[0]))->ready, &s->spec);
}

static mf_status input_barrier(const mf_kernel *k, barrier **b)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &barrier_type, &o);

    *b = (barrier *)o;
    return st;
}

/* ---- inserting: under the lock ---- */

static barrier_partial **find_partial(barrier *b, const mf_string *key)
{
    barrier_partial **at = &b->first;

    for (; *at; at = &(*at)->next) {
        const mf_string *s = (*at)->parts[1].data;

        if (s->len == key->len && (key->len == 0 || memcmp(s->data, key->data, key->len) == 0))
            break;
    }
    return at;
}

static mf_status new_partial(barrier *b, barrier_partial **at, const mf_string *key)
{
    barrier_partial *p;
    mf_status st;

    if (b->closed)
        return MF_FAIL(MF_CANCELLED,
                       "Barrier %s is closed, but attempted to insert a brand new key: %.100s.",
                       b->ready->name, key->data ? key->data : "");
    p = mf_calloc(1, sizeof *p + (size_t)(b->n_components + 2) * sizeof(mf_tensor));
    if (!p)
        return MF_NOMEM("a barrier's tuple");
    MF_TRY_TO(failed, mf_tensor_alloc(&p->parts[0], MF_DTYPE_I64, &MF_SCALAR));
    MF_TRY_TO(failed, mf_tensor_alloc(&p->parts[1], MF_DTYPE_STRING, &MF_SCALAR));
    MF_TRY_TO(failed, mf_string_set(p->parts[1].data, key->data, key->len));
    *(int64_t *)p->parts[0].data = b->batch;
    *at = p;
    b->n_partial++;
    return MF_OK;
failed:
    barrier_partial_free(b, p);
    return st;
}

static mf_status set_component(barrier_partial *p, int component, const mf_tensor *values,
                               int64_t row)
{
    mf_tensor *t = &p->parts[component + 2];
    mf_shape one = values->shape;

    if (t->dtype != MF_DTYPE_INVALID)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Key %.100s already has a value for component %d",
                       ((mf_string *)p->parts[1].data)->data, component);
    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof(int64_t));
    MF_TRY(mf_tensor_alloc(t, values->dtype, &one));
    p->n_set++;
    return mf_cells_copy(t->dtype, t->data, 0, values->data, row * t->count, t->count);
}

static mf_status insert_one(barrier *b, const mf_string *key, int component,
                            const mf_tensor *values, int64_t row)
{
    barrier_partial **at = find_partial(b, key), *p;
    mf_status st;

    if (!*at)
        MF_TRY(new_partial(b, at, key));
    p = *at;
    MF_TRY(set_component(p, component, values, row));
    if (p->n_set < b->n_components)
        return MF_OK;
    *at = p->next;
    b->n_partial--;
    st = mf_queue_offer(b->ready, p->parts);
    barrier_partial_free(b, p);
    return st;
}

static mf_status check_insert(const mf_kernel *k, const barrier *b, int64_t component)
{
    const mf_tensor *keys = k->in[1], *values = k->in[2];
    mf_shape one = values->shape;
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (component < 0 || component >= b->n_components)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The component ID is out of range %lld > num_components (= %d)",
                       (long long)component, b->n_components);
    if (values->dtype != b->ready->types[component + 2])
        return MF_FAIL(MF_INVALID_ARGUMENT, "component %lld is of type %s, not %s",
                       (long long)component, mf_dtype_name(b->ready->types[component + 2]),
                       mf_dtype_name(values->dtype));
    if (keys->shape.rank != 1 || values->shape.rank < 1 || values->shape.dims[0] != keys->count)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tensor shapes do not match: there are %lld keys",
                       (long long)keys->count);
    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof(int64_t));
    if (!mf_shape_compatible(&b->ready->shapes[component + 2], &one))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape mismatch in component %lld. Expected %s, got %s",
                       (long long)component, mf_shape_text(&b->ready->shapes[component + 2], want),
                       mf_shape_text(&one, have));
    return MF_OK;
}

static mf_status barrier_insert_run(mf_kernel *k)
{
    const int64_t component = mf_node_int(k->node, "component_index");
    const mf_string *keys = k->in[1]->data;
    mf_status st = MF_OK;
    barrier *b;

    MF_TRY(input_barrier(k, &b));
    MF_TRY(check_insert(k, b, component));
    pthread_mutex_lock(&b->lock);
    for (int64_t i = 0; i < k->in[1]->count && st == MF_OK; i++)
        st = insert_one(b, &keys[i], (int)component, k->in[2], i);
    b->batch++;
    if (b->closed && b->n_partial == 0)
        mf_queue_shut(b->ready);
    pthread_mutex_unlock(&b->lock);
    return st;
}

/* ---- the others ---- */

/* The number of tuples to take: for a closed barrier, a small batch takes what is complete; any
 * other number must still be reachable. */
static mf_status take_count(const mf_kernel *k, barrier *b, int64_t *n)
{
    const bool small = mf_node_bool(k->node, "allow_small_batch");
    int64_t available = 0;
    bool closed;

    if (k->in[1]->count != 1 || mf_tensor_int_at(k->in[1], 0) < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_elements must be a scalar that is not negative");
    *n = mf_tensor_int_at(k->in[1], 0);
    pthread_mutex_lock(&b->lock);
    pthread_mutex_lock(&b->ready->lock);
    closed = b->closed;
    available = b->ready->count + (small ? 0 : b->n_partial);
    pthread_mutex_unlock(&b->ready->lock);
    pthread_mutex_unlock(&b->lock);
    if (closed && small && available < *n)
        *n = available;
    if (closed && available < (*n > 1 ? *n : 1))
        return MF_FAIL(MF_OUT_OF_RANGE,
                       "Barrier '%s' is closed and has insufficient elements (requested %lld, "
                       "total size %lld)",
                       b->ready->name, (long long)*n, (long long)available);
    return MF_OK;
}

static void barrier_take_start(mf_kernel *k)
{
    int64_t n = 0;
    barrier *b;
    mf_status st = input_barrier(k, &b);

    if (st == MF_OK)
        st = take_count(k, b, &n);
    if (st != MF_OK)
        mf_kernel_done(k, st);
    else
        mf_queue_dequeue(k, b->ready, n, mf_node_bool(k->node, "allow_small_batch"));
}

static mf_status barrier_close_run(mf_kernel *k)
{
    barrier *b;

    MF_TRY(input_barrier(k, &b));
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    if (mf_node_bool(k->node, "cancel_pending_enqueues")) {
        while (b->first) {
            barrier_partial *p = b->first;

            b->first = p->next;
            barrier_partial_free(b, p);
        }
        b->n_partial = 0;
    }
    if (b->n_partial == 0)
        mf_queue_shut(b->ready);
    pthread_mutex_unlock(&b->lock);
    return MF_OK;
}

static mf_status barrier_size_run(mf_kernel *k)
{
    const bool ready = strcmp(k->node->op_name, "BarrierReadySize") == 0;
    mf_tensor *out;
    barrier *b;

    MF_TRY(input_barrier(k, &b));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    pthread_mutex_lock(&b->lock);
    pthread_mutex_lock(&b->ready->lock);
    *(int32_t *)out->data = (int32_t)(ready ? b->ready->count : b->n_partial);
    pthread_mutex_unlock(&b->ready->lock);
    pthread_mutex_unlock(&b->lock);
    return MF_OK;
}

#define OP(NAME, DEF, INFER, HOW)                                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = mf_grad_none, HOW                                                                  \
    }

const mf_op mf_ops_barrier[] = {
    { .name = "Barrier",
      .def = "() -> (handle:ref string) {component_types:list(type)>=1, shapes:list(shape)>=0=[], "
             "capacity:int=-1, container:string='', shared_name:string=''} is_stateful",
      .flags = MF_OP_HEAP | MF_OP_UNPLANNED,
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .prepare = barrier_make_prepare,
      .release = barrier_make_release,
      .run = barrier_make_run },
    OP("BarrierInsertMany",
       "(handle:ref string, keys:string, values:T) -> () {T:type, component_index:int}",
       mf_infer_none, .run = barrier_insert_run),
    OP("BarrierTakeMany",
       "(handle:ref string, num_elements:int32) -> (indices:int64, keys:string, "
       "values:*component_types) {component_types:list(type)>=1, allow_small_batch:bool=false, "
       "wait_for_incomplete:bool=false, timeout_ms:int=-1}",
       mf_infer_unknown, .start = barrier_take_start),
    OP("BarrierClose", "(handle:ref string) -> () {cancel_pending_enqueues:bool=false}",
       mf_infer_none, .run = barrier_close_run),
    OP("BarrierReadySize", "(handle:ref string) -> (size:int32) {}", mf_infer_scalar,
       .run = barrier_size_run),
    OP("BarrierIncompleteSize", "(handle:ref string) -> (size:int32) {}", mf_infer_scalar,
       .run = barrier_size_run),
    { 0 },
};
