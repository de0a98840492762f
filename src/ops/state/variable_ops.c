/* SPDX-License-Identifier: Apache-2.0 */
/* variable_ops.c - creates, reads and assigns variables.
 *
 * VariableV2 (reference edges) and VarHandleOp (resource edges) both create an mf_variable, and
 * both kinds of edge carry its handle: so each pair of ops (Assign, AssignVariableOp) has one
 * kernel, which passes the handle on if the signature has an output. */
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"
#include "ops/state/handle.h"

#include <string.h>

/* ---- handles ---- */

typedef struct handle_state {
    mf_handle handle; /* first: released as such */
    mf_dtype dtype;
    mf_shape declared;
} handle_state;

static mf_status handle_prepare(mf_prepare *p)
{
    handle_state *s = MF_ARENA_NEW(p->arena, handle_state);

    p->state = NULL;
    if (!s)
        return MF_NOMEM("a variable's handle");
    s->dtype = mf_node_type(p->node, "dtype");
    s->declared = *mf_node_shape(p->node, "shape");
    /* The first version of the op could not express an unknown shape. */
    if (strcmp(p->node->op_name, "Variable") == 0 && s->declared.rank == 0)
        s->declared = MF_SHAPE_UNKNOWN;
    MF_TRY(mf_handle_init(&s->handle, p, false));
    p->state = s;
    return MF_OK;
}

static void handle_release(void *state)
{
    if (state)
        mf_handle_deinit(&((handle_state *)state)->handle);
}

static mf_status handle_run(mf_kernel *k)
{
    handle_state *s = k->state;
    mf_variable_spec spec = { s->dtype, &s->declared, s->handle.name };

    return mf_handle_run(&s->handle, k, &mf_variable_type, mf_variable_make, &spec);
}

static mf_status reference_infer(mf_infer *in)
{
    in->out[0] = *mf_node_shape(in->node, "shape");
    if (in->node->any_shape || (strcmp(in->node->op_name, "Variable") == 0 && in->out[0].rank == 0))
        in->out[0] = MF_SHAPE_UNKNOWN;
    return MF_OK;
}

/* A variable of one step. It is not registered: its users have an edge to it. */
static mf_status temporary_run(mf_kernel *k)
{
    const mf_shape *shape = mf_node_shape(k->node, "shape");
    const char *name = mf_node_string(k->node, "var_name");
    mf_variable_spec spec = { mf_node_type(k->node, "dtype"), shape,
                              name[0] ? name : k->node->name };
    mf_object *object = NULL;
    mf_tensor zeros = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_tensor_alloc(&zeros, spec.dtype, shape));
    if (mf_dtype_is_plain(spec.dtype) && zeros.count > 0)
        memset(zeros.data, 0, (size_t)zeros.count * mf_dtype_cell(spec.dtype));
    MF_TRY_TO(done, mf_variable_make(&spec, &object));
    MF_TRY_TO(done, mf_variable_assign((mf_variable *)object, &zeros, true));
    st = mf_kernel_set_object(k, 0, object);
done:
    mf_tensor_clear(&zeros);
    mf_object_unref(object);
    return st;
}

static mf_status temporary_end_run(mf_kernel *k)
{
    mf_variable *v;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    return mf_variable_read(v, k->out[0]);
}

/* Afterwards the name is free; remaining handles refer to an uninitialised variable. */
static mf_status destroy_run(mf_kernel *k)
{
    const mf_tensor *handle = k->in[0];
    mf_object *o = handle->count == 1 ? *(mf_object **)handle->data : NULL;
    bool found;

    if (!o)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input 0 holds no resource");
    found = mf_resources_remove(k->step->resources, o);
    if (o->type == &mf_variable_type)
        mf_variable_reset((mf_variable *)o);
    if (!found && !mf_node_bool(k->node, "ignore_lookup_error"))
        return MF_FAIL(MF_NOT_FOUND, "Resource localhost/%s does not exist.",
                       o->type == &mf_variable_type ? ((mf_variable *)o)->name : o->type->name);
    return MF_OK;
}

/* ---- reading ---- */

/* To TensorFlow, a resource variable without a value does not exist. */
#define NO_RESOURCE "Resource localhost/%s/N10tensorflow3VarE does not exist."

static mf_status read_into(mf_kernel *k, int i)
{
    mf_variable *v;
    mf_dtype want = mf_type_base(k->node->out_types[i]);

    MF_TRY(mf_kernel_variable(k, i, &v));
    if (v->dtype != want)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to read variable with wrong dtype. Expected %s got %s",
                       mf_dtype_name(v->dtype), mf_dtype_name(want));
    if (mf_variable_read(v, k->out[i]) == MF_OK)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "Could not find variable %s. This could mean that the variable has been "
                   "deleted. In TF1, it can also mean the variable is uninitialized. Debug info: "
                   "container=localhost, status error message=" NO_RESOURCE,
                   v->name, v->name);
}

static mf_status variable_ops_read_run(mf_kernel *k)
{
    for (int i = 0; i < k->n_in; i++)
        MF_TRY(read_into(k, i));
    return MF_OK;
}

static mf_status variable_ops_read_infer(mf_infer *in)
{
    if (in->n_in != in->n_out)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d variables cannot be read into %d values", in->n_in,
                       in->n_out);
    for (int i = 0; i < in->n_in; i++)
        in->out[i] = mf_infer_variable(in, i);
    return MF_OK;
}

static mf_status variable_ops_read_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    return MF_OK;
}

static mf_status is_initialized_run(mf_kernel *k)
{
    mf_variable *v;
    mf_tensor *out;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(uint8_t *)out->data = mf_variable_is_initialized(v);
    return MF_OK;
}

static mf_status variable_ops_shape_run(mf_kernel *k)
{
    mf_tensor value = { 0 };
    mf_variable *v;
    mf_tensor *out;
    mf_status st;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY_TO(done, mf_variable_read(v, &value));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &MF_SHAPE(value.shape.rank), &out));
    for (int i = 0; i < value.shape.rank; i++)
        mf_tensor_put(out, i, (double)value.shape.dims[i]);
done:
    mf_tensor_clear(&value);
    return st;
}

static mf_status variable_ops_shape_infer(mf_infer *in)
{
    const mf_shape s = mf_infer_variable(in, 0);
    mf_tensor value = { 0 };

    if (s.rank < 0) {
        in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM);
        return MF_OK;
    }
    in->out[0] = MF_SHAPE(s.rank);
    if (!mf_shape_is_static(&s))
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&value, in->node->out_types[0], &in->out[0]));
    for (int i = 0; i < s.rank; i++)
        mf_tensor_put(&value, i, (double)s.dims[i]);
    mf_infer_value(in, 0, &value);
    mf_tensor_clear(&value);
    return MF_OK;
}

/* ---- writing ---- */

typedef struct update_state {
    bool validate_shape;
    const mf_loop *loop; /* how AssignAdd and AssignSub combine; NULL for Assign */
} update_state;

static mf_status update_prepare(mf_prepare *p)
{
    update_state *s = MF_ARENA_NEW(p->arena, update_state);
    const bool add = strncmp(p->node->op_name, "AssignAdd", 9) == 0;
    const bool sub = strncmp(p->node->op_name, "AssignSub", 9) == 0;

    if (!s)
        return MF_NOMEM("an assignment");
    /* Plans rely on the declared shape of a resource variable, whatever the attribute is; and on
     * that of a reference that no Assign without validation reaches. */
    s->validate_shape = mf_node_bool(p->node, "validate_shape") || p->node->n_outputs == 0;
    if (add || sub) {
        const mf_op *op = mf_op_find(add ? "AddV2" : "Sub");

        s->loop = op ? mf_kernel_of(op)->loop : NULL;
    }
    p->state = s;
    return MF_OK;
}

static void pass_handle_on(mf_kernel *k)
{
    if (k->n_out > 0)
        mf_kernel_set(k, 0, k->in[0]);
}

static mf_status assign_run(mf_kernel *k)
{
    const update_state *s = k->state;
    mf_variable *v;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_variable_assign(v, k->in[1], s->validate_shape));
    pass_handle_on(k);
    return MF_OK;
}

typedef struct update_job {
    mf_span_fn *fn;
    char *value;
    const char *delta;
    size_t cell;
    int64_t n;
} update_job;

static void update_piece(void *ctx, int64_t piece)
{
    const update_job *job = ctx;
    const int64_t from = piece * MF_LOOP_GRAIN, left = job->n - from;
    char *value = job->value + (size_t)from * job->cell;
    const mf_span s = { .in = { value, job->delta + (size_t)from * job->cell },
                        .out = value,
                        .n = left < MF_LOOP_GRAIN ? left : MF_LOOP_GRAIN };

    job->fn(&s);
}

static mf_status update_locked(mf_kernel *k, const mf_variable *v)
{
    const update_state *s = k->state;
    const mf_tensor *delta = k->in[1], *value = &v->value;
    char have[MF_SHAPE_TEXT], with[MF_SHAPE_TEXT];

    if (value->dtype != delta->dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Trying to update variable %s with wrong dtype. Expected %s got %s", v->name,
                       mf_dtype_name(value->dtype), mf_dtype_name(delta->dtype));
    if (!s->loop || !s->loop->fn[value->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(value->dtype));
    if (!mf_shape_equal(&value->shape, &delta->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Cannot update variable with shape %s using a Tensor with shape %s, shapes "
                       "must be equal.",
                       mf_shape_text(&value->shape, have), mf_shape_text(&delta->shape, with));
    update_job job = { s->loop->fn[value->dtype], value->data, delta->data,
                       mf_dtype_cell(value->dtype), value->count };

    mf_kernel_complete(k, (job.n + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN, update_piece, &job);
    return MF_OK;
}

static mf_status variable_ops_update_run(mf_kernel *k)
{
    mf_variable *v;
    mf_status st;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    if (k->n_out == 0 && !mf_variable_is_initialized(v))
        return MF_FAIL(MF_NOT_FOUND, NO_RESOURCE, v->name);
    MF_TRY(mf_variables_begin(&v, 1));
    st = update_locked(k, v);
    mf_variables_end(&v, 1);
    if (st == MF_OK)
        pass_handle_on(k);
    return st;
}

static mf_status assign_infer(mf_infer *in)
{
    const mf_shape s = mf_infer_variable(in, 0);
    mf_shape both = in->in[1];

    /* A resource variable's declared shape is binding, whatever the attribute is. */
    if (mf_node_bool(in->node, "validate_shape") || in->n_out == 0)
        MF_TRY(mf_shape_merge(&s, &in->in[1], &both));
    if (in->n_out > 0)
        in->out[0] = both;
    return MF_OK;
}

static mf_status update_infer(mf_infer *in)
{
    const mf_shape s = mf_infer_variable(in, 0);
    mf_shape both;

    MF_TRY(mf_shape_merge(&s, &in->in[1], &both));
    if (in->n_out > 0)
        in->out[0] = both;
    return MF_OK;
}

static mf_status count_locked(mf_kernel *k, const mf_variable *v, int64_t limit)
{
    mf_tensor *out, value = v->value;
    int64_t now;

    if (value.count != 1 || value.dtype != mf_type_base(k->node->out_types[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "tensor is not a scalar of type %s",
                       mf_dtype_name(k->node->out_types[0]));
    now = mf_tensor_int_at(&value, 0);
    if (now >= limit)
        return MF_FAIL(MF_OUT_OF_RANGE, "Reached limit of %lld", (long long)limit);
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    memcpy(out->data, value.data, mf_dtype_size(value.dtype));
    if (value.dtype == MF_DTYPE_I64)
        *(int64_t *)value.data = now + 1;
    else
        *(int32_t *)value.data = (int32_t)((uint32_t)now + 1u);
    return MF_OK;
}

static mf_status variable_ops_count_run(mf_kernel *k)
{
    mf_variable *v;
    mf_status st;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_variables_begin(&v, 1));
    st = count_locked(k, v, mf_node_int(k->node, "limit"));
    mf_variables_end(&v, 1);
    return st;
}

static mf_status nothing_run(mf_kernel *k)
{
    (void)k;
    return MF_OK;
}

#define VARIABLE_ATTRS "{shape:shape, dtype:type, container:string='', shared_name:string=''} "

#define MAKER(NAME, DEF, INFER)                                                                    \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP, .infer = INFER, .grad = mf_grad_none,       \
        .prepare = handle_prepare, .release = handle_release, .run = handle_run                    \
    }
#define UPDATE(NAME, DEF, INFER, RUN, ...)                                                         \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP, .infer = INFER, .grad = mf_grad_none,       \
        .prepare = update_prepare, .run = RUN, .split = mf_split_update,                           \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define PLAIN(NAME, DEF, FLAGS, INFER, GRAD, RUN, ...)                                             \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = GRAD, .run = RUN,        \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_variable[] = {
    MAKER("VariableV2", "() -> (ref:ref dtype) " VARIABLE_ATTRS "is_stateful", reference_infer),
    MAKER("Variable", "() -> (ref:ref dtype) " VARIABLE_ATTRS "is_stateful", reference_infer),
    MAKER("VarHandleOp",
          "() -> (resource:resource) {container:string='', shared_name:string='', "
          "debug_name:string='', dtype:type, shape:shape, allowed_devices:list(string)=[]} "
          "is_stateful",
          mf_infer_scalar),
    { .name = "ReadVariableOp",
      .def = "(resource:resource) -> (value:dtype) {dtype:type} is_stateful",
      .flags = MF_OP_HEAP,
      .infer = variable_ops_read_infer,
      .grad = variable_ops_read_grad,
      .run = variable_ops_read_run,
      .split = mf_split_update,
      .samples =
          MF_SAMPLES("var:f32[2,3] ; dtype=float !nograd", "var:i64[] ; dtype=int64",
                     "var:f32[0] ; dtype=float !nograd", "var:f32[2] ; dtype=int32 !fails") },
    PLAIN("_ReadVariablesOp",
          "(resources:N*resource) -> (values:*dtypes) {N:int>=0, dtypes:list(type)>=1} is_stateful",
          MF_OP_HEAP, variable_ops_read_infer, mf_grad_missing, variable_ops_read_run,
          "var:f32[2] var:i32[3] ; N=2 dtypes=[float,int32] !notf"),
    UPDATE("Assign",
           "(ref:ref T, value:T) -> (output_ref:ref T) {T:type, validate_shape:bool=true, "
           "use_locking:bool=true} allows_uninitialized_input",
           assign_infer, assign_run, "var:f32[2,3] f32[2,3]", "var:i32[] i32[]",
           "var:str[2] str[2]", "var:f32[2] f32[3] !fails", "var:f32[0,2] f32[0,2]"),
    UPDATE("AssignVariableOp",
           "(resource:resource, value:dtype) -> () {dtype:type, validate_shape:bool=false} "
           "is_stateful",
           assign_infer, assign_run, "var:f32[2,3] f32[2,3]", "var:i32[] i32[]",
           "var:f32[2] f32[3] ; validate_shape=true !fails", "var:f32[2] i32[2] !fails"),
    UPDATE("AssignAdd",
           "(ref:ref T, value:T) -> (output_ref:ref T) {T:type in numbers, "
           "use_locking:bool=false}",
           update_infer, variable_ops_update_run, "var:f32[2,3] f32[2,3]", "var:i64[] i64[]",
           "var:c64[2] c64[2]", "var:bf16[3] bf16[3]", "var:f32[0] f32[0]",
           "var:f32[2] f32[3] !fails"),
    UPDATE("AssignSub",
           "(ref:ref T, value:T) -> (output_ref:ref T) {T:type in numbers, "
           "use_locking:bool=false}",
           update_infer, variable_ops_update_run, "var:f32[2,3] f32[2,3]", "var:f64[5] f64[5]",
           "var:f32[2] f32[] !fails"),
    UPDATE("AssignAddVariableOp", "(resource:resource, value:dtype) -> () {dtype:type} is_stateful",
           update_infer, variable_ops_update_run, "var:f32[2,3] f32[2,3]", "var:i64[] i64[]",
           "var:f16[3] f16[3]", "var:f32[2] f32[3] !fails"),
    UPDATE("AssignSubVariableOp", "(resource:resource, value:dtype) -> () {dtype:type} is_stateful",
           update_infer, variable_ops_update_run, "var:f32[2,3] f32[2,3]",
           "var:f32[2] f64[2] !fails"),
    PLAIN("IsVariableInitialized",
          "(ref:ref dtype) -> (is_initialized:bool) {dtype:type} allows_uninitialized_input", 0,
          mf_infer_scalar, mf_grad_missing, is_initialized_run, "var:f32[2]"),
    PLAIN("VarIsInitializedOp", "(resource:resource) -> (is_initialized:bool) {} is_stateful", 0,
          mf_infer_scalar, mf_grad_none, is_initialized_run, "var:f32[2]"),
    PLAIN("VariableShape",
          "(input:resource) -> (output:out_type) {out_type:type=int32 in index} is_stateful", 0,
          variable_ops_shape_infer, mf_grad_none, variable_ops_shape_run, "var:f32[2,3]",
          "var:f32[] ; out_type=int64", "var:i32[0,4] ; out_type=int64"),
    { .name = "DestroyResourceOp",
      .def = "(resource:resource) -> () {ignore_lookup_error:bool=true} is_stateful",
      .infer = mf_infer_none,
      .grad = mf_grad_missing,
      .run = destroy_run,
      .split = mf_split_update,
      .samples = MF_SAMPLES("var:f32[2]") },
    PLAIN("TemporaryVariable",
          "() -> (ref:ref dtype) {shape:shape, dtype:type, var_name:string=''} is_stateful",
          MF_OP_HEAP, reference_infer, mf_grad_missing, temporary_run,
          "; shape=shape[2,3] dtype=float !unordered !notf"),
    PLAIN("DestroyTemporaryVariable", "(ref:ref T) -> (value:T) {T:type, var_name:string}",
          MF_OP_HEAP, mf_infer_same, mf_grad_missing, temporary_end_run,
          "var:f32[2] ; var_name='x' !notf"),
    PLAIN("CountUpTo", "(ref:ref T) -> (output:T) {limit:int, T:type in index}", 0, mf_infer_scalar,
          mf_grad_missing, variable_ops_count_run, "var:i32[]{3} ; limit=9",
          "var:i64[]{3} ; limit=3 !fails", "var:i32[2]{3,3} ; limit=9 !fails"),
    PLAIN("ResourceCountUpTo",
          "(resource:resource) -> (output:T) {limit:int, T:type in index} is_stateful", 0,
          mf_infer_scalar, mf_grad_missing, variable_ops_count_run,
          "var:i32[]{3} ; limit=9 T=int32", "var:i64[]{3} ; limit=3 T=int64 !fails"),
    PLAIN("DisableCopyOnRead", "(resource:resource) -> () {} is_stateful", 0, mf_infer_none,
          mf_grad_missing, nothing_run, "var:f32[2]"),
    { 0 },
};
