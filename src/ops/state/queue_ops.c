/* SPDX-License-Identifier: Apache-2.0 */
/* queue_ops.c - ops on queues, with handles on resource edges, or on references (older ops). Both
 * edges carry the same handle, so the kernels are the same. */
#include "base/clock.h"
#include "ops/state/handle.h"
#include "ops/state/queue.h"

#include <string.h>

/* ---- making ---- */

typedef struct queue_state {
    mf_handle handle; /* first */
    mf_queue_spec spec;
} queue_state;

static mf_queue_kind queue_ops_kind_of(const char *op)
{
    for (int k = MF_QUEUE_FIFO; k <= MF_QUEUE_PRIORITY; k++) {
        const char *name = mf_queue_kind_name((mf_queue_kind)k);

        if (strncmp(op, name, strlen(name)) == 0)
            return (mf_queue_kind)k;
    }
    return MF_QUEUE_STAGE;
}

/* Component types and shapes; a priority queue has one more component in front. */
static mf_status read_components(mf_prepare *p, mf_queue_spec *spec)
{
    const mf_attr *types = mf_node_list(
        p->node, spec->kind == MF_QUEUE_STAGE ? "dtypes" : "component_types", MF_ATTR_TYPE);
    const int64_t n = types ? types->n : 0;
    int64_t given;
    const mf_attr *shapes = mf_node_list(p->node, "shapes", MF_ATTR_SHAPE);
    const int extra = spec->kind == MF_QUEUE_PRIORITY;
    mf_dtype *t = MF_ARENA_ARRAY(p->arena, mf_dtype, n + 1);
    mf_shape *s = MF_ARENA_ARRAY(p->arena, mf_shape, n + 1);

    if (!t || !s)
        return MF_NOMEM("a queue");
    given = shapes ? shapes->n : 0;
    if (given != 0 && given != n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld component types but %lld shapes", (long long)n,
                       (long long)given);
    t[0] = MF_DTYPE_I64;
    s[0] = MF_SCALAR;
    for (int64_t i = 0; i < n; i++) {
        t[i + extra] = (mf_dtype)types->ints[i];
        s[i + extra] = given ? shapes->shapes[i] : MF_SHAPE_UNKNOWN;
    }
    if (extra && given == 0 && n > 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a priority queue needs the shapes of its components");
    spec->types = t;
    spec->shapes = given || extra ? s : NULL;
    spec->n_parts = (int)n + extra;
    return MF_OK;
}

static mf_status queue_ops_check_shapes(const mf_queue_spec *spec)
{
    char text[MF_SHAPE_TEXT];

    for (int i = 0; spec->shapes && spec->kind != MF_QUEUE_PADDING && i < spec->n_parts; i++) {
        if (!mf_shape_is_static(&spec->shapes[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the shapes of a %s must be fully defined, but component %d has %s",
                           mf_queue_kind_name(spec->kind), i,
                           mf_shape_text(&spec->shapes[i], text));
    }
    return MF_OK;
}

static mf_status queue_prepare(mf_prepare *p)
{
    queue_state *s = MF_ARENA_NEW(p->arena, queue_state);
    mf_queue_spec *spec;

    p->state = NULL;
    if (!s)
        return MF_NOMEM("a queue");
    spec = &s->spec;
    spec->kind = queue_ops_kind_of(p->node->op_name);
    spec->capacity = mf_node_int(p->node, "capacity");
    if (spec->kind == MF_QUEUE_STAGE && spec->capacity == 0)
        spec->capacity = -1;
    spec->min_after = mf_node_int(p->node, "min_after_dequeue");
    spec->seed = (uint64_t)mf_node_int(p->node, "seed");
    spec->seed2 = (uint64_t)mf_node_int(p->node, "seed2");
    if (spec->kind == MF_QUEUE_SHUFFLE && spec->seed == 0 && spec->seed2 == 0) {
        spec->seed = mf_random_seed();
        spec->seed2 = mf_random_seed();
    }
    if (spec->min_after < 0 || (spec->capacity >= 0 && spec->min_after > spec->capacity))
        return MF_FAIL(MF_INVALID_ARGUMENT, "min_after_dequeue %lld must be >= 0 and < capacity",
                       (long long)spec->min_after);
    MF_TRY(read_components(p, spec));
    MF_TRY(queue_ops_check_shapes(spec));
    MF_TRY(mf_handle_init(&s->handle, p, spec->kind != MF_QUEUE_STAGE));
    spec->name =
        s->handle.owner ? mf_arena_printf(p->arena, "_0_%s", s->handle.name) : s->handle.name;
    p->state = s;
    return spec->name ? MF_OK : MF_NOMEM("a queue");
}

static void queue_release(void *state)
{
    if (state)
        mf_handle_deinit(&((queue_state *)state)->handle);
}

static mf_status queue_ops_make_run(mf_kernel *k)
{
    queue_state *s = k->state;

    MF_TRY(mf_handle_run(&s->handle, k, &mf_queue_type, mf_queue_make, &s->spec));
    return mf_queue_matches((mf_queue *)mf_handle_object(k->out[0]), &s->spec);
}

/* ---- using ---- */

static mf_status input_queue(const mf_kernel *k, mf_queue **q)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &mf_queue_type, &o);

    *q = (mf_queue *)o;
    return st;
}

static void enqueue_start(mf_kernel *k)
{
    mf_queue *q;
    const mf_status st = input_queue(k, &q);

    if (st != MF_OK)
        mf_kernel_done(k, st);
    else
        mf_queue_enqueue(k, q, 1, strncmp(k->node->op_name, "QueueEnqueueMany", 16) == 0);
}

static mf_status queue_ops_read_count(const mf_kernel *k, int64_t *n)
{
    *n = -1;
    if (k->n_in < 2)
        return MF_OK;
    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the number of elements must be a scalar");
    *n = mf_tensor_int_at(k->in[1], 0);
    if (*n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "DequeueManyOp requested %lld < 0 elements",
                       (long long)*n);
    return MF_OK;
}

static void dequeue_start(mf_kernel *k)
{
    int64_t n;
    mf_queue *q;
    mf_status st = input_queue(k, &q);

    if (st == MF_OK)
        st = queue_ops_read_count(k, &n);
    if (st != MF_OK)
        mf_kernel_done(k, st);
    else
        mf_queue_dequeue(k, q, n, strncmp(k->node->op_name, "QueueDequeueUpTo", 16) == 0);
}

static void close_start(mf_kernel *k)
{
    mf_queue *q;
    const mf_status st = input_queue(k, &q);

    if (st != MF_OK)
        mf_kernel_done(k, st);
    else
        mf_queue_close(k, q, mf_node_bool(k->node, "cancel_pending_enqueues"));
}

static mf_status put_size(mf_kernel *k, mf_queue *q)
{
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    pthread_mutex_lock(&q->lock);
    *(int32_t *)out->data = (int32_t)q->count;
    pthread_mutex_unlock(&q->lock);
    return MF_OK;
}

static mf_status queue_ops_size_run(mf_kernel *k)
{
    mf_queue *q;

    MF_TRY(input_queue(k, &q));
    return put_size(k, q);
}

static mf_status is_closed_run(mf_kernel *k)
{
    mf_queue *q;
    mf_tensor *out;

    MF_TRY(input_queue(k, &q));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    pthread_mutex_lock(&q->lock);
    *(uint8_t *)out->data = q->closed;
    pthread_mutex_unlock(&q->lock);
    return MF_OK;
}

/* Component shapes come from the op that created the queue. */
static mf_status dequeue_infer(mf_infer *in)
{
    const mf_node *maker = in->node->inputs[0].node;
    const mf_attr *shapes = maker ? mf_node_list(maker, "shapes", MF_ATTR_SHAPE) : NULL;
    const bool many = in->n_in > 1;
    const int extra = maker && strncmp(maker->op_name, "PriorityQueue", 13) == 0;
    int64_t n = MF_UNKNOWN_DIM;

    if (many && strncmp(in->node->op_name, "QueueDequeueMany", 16) == 0)
        (void)mf_infer_int_input(in, 1, &n);
    if (!shapes || shapes->n + extra != in->n_out)
        return MF_OK;
    for (int i = 0; i < in->n_out; i++) {
        mf_shape s = i < extra ? MF_SCALAR : shapes->shapes[i - extra];

        if (many && s.rank >= 0 && s.rank < MF_MAX_RANK) {
            memmove(s.dims + 1, s.dims, (size_t)s.rank * sizeof(int64_t));
            s.dims[0] = n < 0 ? MF_UNKNOWN_DIM : n;
            s.rank++;
        }
        in->out[i] = s;
    }
    return MF_OK;
}

/* ---- staging areas: queues without a handle; every op finds its own by name ---- */

static mf_status stage_queue(mf_kernel *k, mf_tensor *handle, mf_queue **q)
{
    queue_state *s = k->state;

    *q = NULL;
    MF_TRY(mf_handle_get(&s->handle, k->step, &mf_queue_type, mf_queue_make, &s->spec, handle));
    *q = (mf_queue *)mf_handle_object(handle);
    return MF_OK;
}

static void stage_start(mf_kernel *k)
{
    mf_tensor handle = { 0 };
    mf_queue *q;
    const mf_status st = stage_queue(k, &handle, &q);

    if (st != MF_OK)
        mf_kernel_done(k, st);
    else if (k->n_in > 0)
        mf_queue_enqueue(k, q, 0, false);
    else
        mf_queue_dequeue(k, q, -1, false);
    mf_tensor_clear(&handle);
}

static mf_status stage_size_run(mf_kernel *k)
{
    mf_tensor handle = { 0 };
    mf_queue *q;
    mf_status st = stage_queue(k, &handle, &q);

    if (st == MF_OK)
        st = put_size(k, q);
    mf_tensor_clear(&handle);
    return st;
}

static mf_status stage_clear_run(mf_kernel *k)
{
    mf_tensor handle = { 0 };
    mf_queue *q;
    const mf_status st = stage_queue(k, &handle, &q);

    if (st == MF_OK)
        mf_queue_clear(q);
    mf_tensor_clear(&handle);
    return st;
}

/* ---- the table ---- */

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)
#define MAKER(NAME, DEF)                                                                           \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = mf_infer_scalar, .grad = mf_grad_none,  \
        .prepare = queue_prepare, .release = queue_release, .run = queue_ops_make_run              \
    }
#define WAITS(NAME, DEF, INFER, START)                                                             \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none,            \
        .start = START                                                                             \
    }
#define ASKS(NAME, DEF, RUN)                                                                       \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = mf_infer_scalar, .grad = mf_grad_none,  \
        .run = RUN                                                                                 \
    }
#define STAGE(NAME, DEF, INFER, HOW)                                                               \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none,            \
        .prepare = queue_prepare, .release = queue_release, HOW                                    \
    }
#define BOTH(WHAT, NAME, HANDLE, REST, ...)                                                        \
    WHAT(NAME "V2", "(" HANDLE ":resource" REST " is_stateful", __VA_ARGS__),                      \
        WHAT(NAME, "(" HANDLE ":ref string" REST, __VA_ARGS__)

#define TYPES "component_types:list(type)>=1, shapes:list(shape)>=0=[], capacity:int=-1, "
#define PRIORITY_TYPES "component_types:list(type)>=0=[], shapes:list(shape)>=0, capacity:int=-1, "
#define SHUFFLE_TYPES TYPES "min_after_dequeue:int=0, seed:int=0, seed2:int=0, "
#define NAMES "container:string='', shared_name:string=''} is_stateful"
#define MAKERS(NAME, ATTRS)                                                                        \
    MAKER(NAME "V2", "() -> (handle:resource) {" ATTRS NAMES),                                     \
        MAKER(NAME, "() -> (handle:ref string) {" ATTRS NAMES)
#define ENQUEUE ", components:*Tcomponents) -> () {Tcomponents:list(type)>=1, timeout_ms:int=-1}"
#define DEQUEUE                                                                                    \
    ") -> (components:*component_types) {component_types:list(type)>=1, timeout_ms:int=-1}"
#define STAGING "{capacity:int>=0=0, memory_limit:int>=0=0, dtypes:list(type)"

const mf_op mf_ops_queue[] = {
    MAKERS("FIFOQueue", TYPES),
    MAKERS("RandomShuffleQueue", SHUFFLE_TYPES),
    MAKERS("PaddingFIFOQueue", TYPES),
    MAKERS("PriorityQueue", PRIORITY_TYPES),
    BOTH(WAITS, "QueueEnqueue", "handle", ENQUEUE, mf_infer_none, enqueue_start),
    BOTH(WAITS, "QueueEnqueueMany", "handle", ENQUEUE, mf_infer_none, enqueue_start),
    BOTH(WAITS, "QueueDequeue", "handle", DEQUEUE, dequeue_infer, dequeue_start),
    BOTH(WAITS, "QueueDequeueMany", "handle", ", n:int32" DEQUEUE, dequeue_infer, dequeue_start),
    BOTH(WAITS, "QueueDequeueUpTo", "handle", ", n:int32" DEQUEUE, dequeue_infer, dequeue_start),
    BOTH(WAITS, "QueueClose", "handle", ") -> () {cancel_pending_enqueues:bool=false}",
         mf_infer_none, close_start),
    BOTH(ASKS, "QueueSize", "handle", ") -> (size:int32) {}", queue_ops_size_run),
    BOTH(ASKS, "QueueIsClosed", "handle", ") -> (is_closed:bool) {}", is_closed_run),
    STAGE("Stage", "(values:*dtypes) -> () " STAGING ">=1, " NAMES, mf_infer_none,
          .start = stage_start),
    STAGE("Unstage", "() -> (values:*dtypes) " STAGING ">=1, " NAMES, mf_infer_unknown,
          .start = stage_start),
    STAGE("StageSize", "() -> (size:int32) " STAGING ", " NAMES, mf_infer_scalar,
          .run = stage_size_run),
    STAGE("StageClear", "() -> () " STAGING ", " NAMES, mf_infer_none, .run = stage_clear_run),
    { 0 },
};
