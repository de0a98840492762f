/* SPDX-License-Identifier: Apache-2.0 */
/* collective_ops.c - collectives of a group whose members are on different tasks. A group of one is
 * local; other groups meet at the step's rendezvous. */
#include "graph/rendezvous.h"

#include <stdio.h>
#include <string.h>

/* ---- what is to be done ---- */

/* Integer division as in TensorFlow's Div; the divisor is the group's size. */
#define DIVIDE(NAME, TYPE)                                                                         \
    static void divide_##NAME(const mf_span *s)                                                    \
    {                                                                                              \
        const TYPE *x = s->in[0], n = ((const TYPE *)s->in[1])[0];                                 \
        TYPE *y = s->out;                                                                          \
                                                                                                   \
        for (int64_t i = 0; i < s->n; i++)                                                         \
            y[i] = x[i] / n;                                                                       \
    }

DIVIDE(i32, int32_t)
DIVIDE(i64, int64_t)

static mf_span_fn *collective_ops_loop_of(const char *op, mf_dtype dtype)
{
    /* cppcheck-suppress CastIntegerToAddressAtReturn ; a function of a table */
    return mf_kernel_of(mf_op_find(op))->loop->fn[dtype];
}

static mf_span_fn *find_merge(const char *name, mf_dtype dtype)
{
    static const char *const ops[][2] = {
        { "Add", "Add" }, { "Mul", "Mul" }, { "Max", "Maximum" }, { "Min", "Minimum" }
    };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(name, ops[i][0]) == 0)
            return collective_ops_loop_of(ops[i][1], dtype);
    }
    return NULL;
}

static mf_span_fn *find_divide(const char *name, mf_dtype dtype)
{
    if (strcmp(name, "Div") != 0)
        return NULL;
    return dtype == MF_DTYPE_I32   ? divide_i32
           : dtype == MF_DTYPE_I64 ? divide_i64
                                   : collective_ops_loop_of("RealDiv", dtype);
}

/* "Maximum" for "Max": TensorFlow's group leader expects its own names. */
static const char *collective_ops_name_of(mf_prepare *p, mf_collective_op_kind kind, bool is_source)
{
    const char *node = p->node->name, *merge = mf_node_string(p->node, "merge_op");

    switch (kind) {
    case MF_COLLECTIVE_OP_BROADCAST:
        return mf_arena_printf(p->arena, "%s: Broadcast(%d)", node, is_source);
    case MF_COLLECTIVE_OP_GATHER:
        return mf_arena_printf(p->arena, "%s: Gather", node);
    case MF_COLLECTIVE_OP_REDUCE:
        break;
    }
    return mf_arena_printf(p->arena, "%s: Reduce(%s%s,%s)", node, merge,
                           merge[0] == 'M' && merge[1] != 'u' ? "imum" : "",
                           mf_node_string(p->node, "final_op"));
}

static mf_status read_offsets(const mf_node *n, mf_collective_op *c)
{
    c->offsets = mf_node_ints(n, "subdiv_offsets", &c->n_offsets);
    for (int64_t i = 0; i < c->n_offsets; i++) {
        if (c->offsets[i] < -MF_GROUP_MAX || c->offsets[i] > MF_GROUP_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT, "subdiv_offsets[%lld] is %lld, beyond %d",
                           (long long)i, (long long)c->offsets[i], MF_GROUP_MAX);
    }
    if (c->n_offsets > MF_GROUP_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld subdiv_offsets exceed the maximum",
                       (long long)c->n_offsets);
    return MF_OK;
}

static mf_status collective_ops_prepare(mf_prepare *p, mf_collective_op_kind kind, bool is_source)
{
    const mf_node *n = p->node;
    const int64_t size = mf_node_int(n, "group_size");
    const float seconds = mf_node_float(n, "timeout_seconds");
    mf_collective_op *c = MF_ARENA_NEW(p->arena, mf_collective_op);

    if (!c)
        return MF_NOMEM("a collective");
    if (size < 1 || size > MF_GROUP_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "group_size is %lld, not of 1 to %d", (long long)size,
                       MF_GROUP_MAX);
    *c = (mf_collective_op){ .kind = kind,
                             .group = (int32_t)mf_node_int(n, "group_key"),
                             .size = (int32_t)size,
                             .instance = (int32_t)mf_node_int(n, "instance_key"),
                             .dtype = mf_node_type(n, "T"),
                             .name = collective_ops_name_of(p, kind, is_source),
                             .is_source = is_source,
                             .timeout_ns =
                                 seconds > 0 && seconds < 1e9f ? (int64_t)(seconds * 1e9) : 0 };
    if (!c->name)
        return MF_NOMEM("a collective");
    if (kind == MF_COLLECTIVE_OP_REDUCE) {
        c->merge = find_merge(mf_node_string(n, "merge_op"), c->dtype);
        c->divide = find_divide(mf_node_string(n, "final_op"), c->dtype);
        MF_TRY(read_offsets(n, c));
    }
    pthread_mutex_init(&c->lock, NULL);
    p->state = c;
    return MF_OK;
}

static mf_status collective_ops_reduce_prepare(mf_prepare *p)
{
    return collective_ops_prepare(p, MF_COLLECTIVE_OP_REDUCE, false);
}

static mf_status collective_ops_gather_prepare(mf_prepare *p)
{
    return collective_ops_prepare(p, MF_COLLECTIVE_OP_GATHER, false);
}

static mf_status send_prepare(mf_prepare *p)
{
    return collective_ops_prepare(p, MF_COLLECTIVE_OP_BROADCAST, true);
}

static mf_status recv_prepare(mf_prepare *p)
{
    return collective_ops_prepare(p, MF_COLLECTIVE_OP_BROADCAST, false);
}

static void collective_ops_release(void *state)
{
    mf_collective_op *c = state;

    mf_object_unref(c->known);
    pthread_mutex_destroy(&c->lock);
}

/* ---- shapes ---- */

static mf_status gather_shape(const mf_shape *in, int64_t size, mf_shape *out)
{
    *out = *in;
    if (in->rank == MF_UNKNOWN_RANK)
        return MF_OK;
    if (in->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input should have rank > 0, received 0");
    if (in->dims[0] != MF_UNKNOWN_DIM && !mf_mul_i64(in->dims[0], size, &out->dims[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld rows of each of %lld members exceed the maximum",
                       (long long)in->dims[0], (long long)size);
    return MF_OK;
}

static mf_status collective_ops_gather_infer(mf_infer *in)
{
    return gather_shape(&in->in[0], mf_node_int(in->node, "group_size"), &in->out[0]);
}

static mf_status broadcast_infer(mf_infer *in)
{
    in->out[0] = *mf_node_shape(in->node, "shape");
    return MF_OK;
}

static mf_status result_shape(const mf_kernel *k, const mf_collective_op *c, mf_shape *out)
{
    const mf_shape *said = mf_node_shape(k->node, "shape");
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (c->kind == MF_COLLECTIVE_OP_GATHER)
        return gather_shape(&k->in[0]->shape, c->size, out);
    *out = k->n_in > 0 ? k->in[0]->shape : *said;
    if (!mf_shape_is_static(out))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the shape to receive is not known: %s",
                       mf_shape_text(out, a));
    if (c->kind == MF_COLLECTIVE_OP_BROADCAST && !mf_shape_equal(out, said))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Declared shape of op %s does not match shape of input: %s vs %s",
                       k->node->name, mf_shape_text(said, a), mf_shape_text(out, b));
    return MF_OK;
}

/* ---- running ---- */

static mf_status check_meeting(const mf_kernel *k, const mf_collective_op *c)
{
    if (c->size > 1 && !k->step->rendezvous)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "group %d has %d members, but this session has no other tasks", c->group,
                       c->size);
    if (c->size == 1 && k->n_in == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "group %d has one member, which receives but has no sender", c->group);
    return MF_OK;
}

static void collective_ops_start(mf_kernel *k)
{
    mf_rendezvous *r = k->step->rendezvous;
    mf_collective_op *c = k->state;
    mf_shape shape;
    mf_status st = result_shape(k, c, &shape);

    if (st == MF_OK)
        st = check_meeting(k, c);
    if (st == MF_OK && c->size > 1) {
        r->kind->collect(r, c, &shape, k);
        return;
    }
    if (st == MF_OK)
        mf_kernel_set(k, 0, k->in[0]);
    mf_kernel_done(k, st);
}

#define GROUP_ATTRS "group_size:int, group_key:int, instance_key:int"
#define HINTS "communication_hint:string='auto', timeout_seconds:float=0.0"

#define COLLECTIVE(NAME, DEF, INFER, PREPARE, ...)                                                 \
    {                                                                                              \
        .name = NAME, .def = DEF " is_stateful is_distributed_communication",                      \
        .flags = MF_OP_UNPLANNED | MF_OP_HEAP, .infer = INFER, .grad = mf_grad_missing,            \
        .prepare = PREPARE, .release = collective_ops_release, .start = collective_ops_start,      \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

#define ALONE "group_size=1 group_key=1 instance_key=1"
#define NOBODY "group_size=2 group_key=1 instance_key=1"

const mf_op mf_ops_collective[] = {
    COLLECTIVE(
        "CollectiveReduce",
        "(input:T) -> (data:T) {T:type in [bfloat16,float,half,double,int32,int64], " GROUP_ATTRS
        ", merge_op:string in ['Min','Max','Mul','Add'], "
        "final_op:string in ['Id','Div'], subdiv_offsets:list(int), "
        "wait_for:list(int)=[], " HINTS "}",
        mf_infer_same, collective_ops_reduce_prepare,
        "f32[3] ; " ALONE " merge_op='Add' final_op='Div' subdiv_offsets=[0] !notf",
        "i64[2,2] ; " ALONE " merge_op='Max' final_op='Id' subdiv_offsets=[] !notf",
        "f32[3] ; " NOBODY " merge_op='Add' final_op='Id' subdiv_offsets=[0] !fails !notf"),
    COLLECTIVE("CollectiveGather",
               "(input:T) -> (data:T) {T:type in [float,half,double,int32,int64], " GROUP_ATTRS
               ", shape:shape, " HINTS "}",
               collective_ops_gather_infer, collective_ops_gather_prepare,
               "f32[3] ; " ALONE " shape=shape[0] !notf",
               "f16[2,3] ; " ALONE " shape=shape[0] !notf",
               "f32[] ; " ALONE " shape=shape[] !fails !notf",
               "f32[3] ; " NOBODY " shape=shape[0] !fails !notf"),
    COLLECTIVE("CollectiveBcastSend",
               "(input:T) -> (data:T) {T:type in [bool,float,half,double,int32,int64], " GROUP_ATTRS
               ", shape:shape, " HINTS "}",
               broadcast_infer, send_prepare, "bool[3] ; " ALONE " shape=shape[3] !notf",
               "f64[] ; " ALONE " shape=shape[] !notf",
               "f32[3] ; " ALONE " shape=shape[4] !fails !notf",
               "f32[3] ; " NOBODY " shape=shape[3] !fails !notf"),
    COLLECTIVE("CollectiveBcastRecv",
               "() -> (data:T) {T:type in [bool,float,half,double,int32,int64], " GROUP_ATTRS
               ", shape:shape, " HINTS "}",
               broadcast_infer, recv_prepare, "; T=float " NOBODY " shape=shape[3] !fails !notf",
               "; T=float " ALONE " shape=shape[3] !fails !notf"),
    { 0 },
};
