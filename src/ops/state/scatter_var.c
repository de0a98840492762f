/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_var.c - reads and updates parts of variables: rows by index (Scatter*, ResourceGather),
 * rows by tuples of indices (ScatterNd*), strided slices. References and resources share kernels;
 * the loops are those of the ops on plain tensors. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/scatter.h"
#include "ops/array/strided.h"
#include "ops/control/grad_util.h"
#include "ops/state/handle.h"

#include <string.h>

/* ---- which update: from the op's name ---- */

static mf_scatter_op scatter_op(const char *name)
{
    static const struct {
        const char *ending;
        mf_scatter_op op;
    } ops[] = {
        { "Add", MF_SCATTER_ADD }, { "Sub", MF_SCATTER_SUB }, { "Mul", MF_SCATTER_MUL },
        { "Div", MF_SCATTER_DIV }, { "Min", MF_SCATTER_MIN }, { "Max", MF_SCATTER_MAX },
    };
    const size_t len = strlen(name);

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (len > 3 && strcmp(name + len - 3, ops[i].ending) == 0)
            return ops[i].op;
    }
    return MF_SCATTER_ASSIGN;
}

static mf_status scatter_prepare(mf_prepare *p)
{
    mf_scatter *s = MF_ARENA_NEW(p->arena, mf_scatter);
    mf_bad_indices bad = MF_BAD_INDICES_ERROR;

    if (!s)
        return MF_NOMEM("a kernel");
    s->op = scatter_op(p->node->op_name);
    if (mf_node_attr(p->node, "bad_indices_policy"))
        MF_TRY(mf_bad_indices_read(p->node, &bad));
    s->ignore_bad = bad == MF_BAD_INDICES_IGNORE;
    p->state = s;
    return MF_OK;
}

/* Locks the variable of input 0, checks its type, updates it, and passes the handle on. */
static mf_status update(mf_kernel *k, int value,
                        mf_status (*fn)(const mf_kernel *k, const mf_tensor *var))
{
    mf_variable *v;
    mf_status st;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_variables_begin(&v, 1));
    if (v->value.dtype != k->in[value]->dtype)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "variable %s is of type %s, the updates of type %s",
                     v->name, mf_dtype_name(v->value.dtype), mf_dtype_name(k->in[value]->dtype));
    else
        st = fn(k, &v->value);
    mf_variables_end(&v, 1);
    if (st == MF_OK && k->n_out > 0)
        mf_kernel_set(k, 0, k->in[0]);
    return st;
}

/* True if `whole` = `front` (its first n dimensions) followed by `back` from dimension `from` on.
 */
static bool is_joined(const mf_shape *whole, const mf_shape *front, int n, const mf_shape *back,
                      int from)
{
    if (whole->rank != n + back->rank - from)
        return false;
    for (int d = 0; d < whole->rank; d++) {
        if (whole->dims[d] != (d < n ? front->dims[d] : back->dims[d - n + from]))
            return false;
    }
    return true;
}

/* ---- rows ---- */

static mf_status scatter_var_scatter_locked(const mf_kernel *k, const mf_tensor *var)
{
    const mf_tensor *indices = k->in[1], *updates = k->in[2];
    mf_scatter s = *(const mf_scatter *)k->state;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT], c[MF_SHAPE_TEXT];

    if (var->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "params must be at least 1-D, got shape []");
    s.scalar = updates->shape.rank == 0;
    if (!s.scalar &&
        !is_joined(&updates->shape, &indices->shape, indices->shape.rank, &var->shape, 1))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Must have updates.shape = indices.shape + params.shape[1:] or "
            "updates.shape = [], got updates.shape %s, indices.shape %s, params.shape %s",
            mf_shape_text(&updates->shape, a), mf_shape_text(&indices->shape, b),
            mf_shape_text(&var->shape, c));
    s.dtype = var->dtype;
    s.x = var->data;
    s.rows = var->shape.dims[0];
    s.row = mf_shape_span(&var->shape, 1, var->shape.rank);
    s.indices = indices;
    s.updates = updates->data;
    return mf_scatter_run(k->step->pool, &s);
}

static mf_status scatter_var_scatter_run(mf_kernel *k)
{
    return update(k, 2, scatter_var_scatter_locked);
}

static mf_status scatter_infer(mf_infer *in)
{
    if (in->n_out > 0)
        in->out[0] = in->in[0];
    return MF_OK;
}

/* ---- tuples of indices ---- */

static mf_status check_nd(const mf_tensor *var, const mf_tensor *indices, const mf_tensor *updates)
{
    const int outer = indices->shape.rank - 1;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT], c[MF_SHAPE_TEXT];

    if (var->shape.rank < 1 || outer < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Output and indices must be at least 1-D, got shapes %s "
                       "and %s",
                       mf_shape_text(&var->shape, a), mf_shape_text(&indices->shape, b));
    if (indices->shape.dims[outer] > var->shape.rank ||
        !is_joined(&updates->shape, &indices->shape, outer, &var->shape,
                   (int)indices->shape.dims[outer]))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Must have updates.shape = indices.shape[:-1] + "
                       "params_shape[indices.shape[-1]:], got updates.shape %s, indices.shape %s, "
                       "params_shape %s",
                       mf_shape_text(&updates->shape, a), mf_shape_text(&indices->shape, b),
                       mf_shape_text(&var->shape, c));
    return MF_OK;
}

static mf_status scatter_nd_locked(const mf_kernel *k, const mf_tensor *var)
{
    const mf_tensor *indices = k->in[1], *updates = k->in[2];
    mf_scatter s = *(const mf_scatter *)k->state;
    mf_tensor rows = { 0 };
    mf_status st;
    int depth;

    MF_TRY(check_nd(var, indices, updates));
    MF_TRY(mf_nd_rows(indices, &var->shape,
                      s.ignore_bad ? MF_BAD_INDICES_IGNORE : MF_BAD_INDICES_ERROR, &rows));
    depth = (int)indices->shape.dims[indices->shape.rank - 1];
    s.dtype = var->dtype;
    s.x = var->data;
    s.rows = mf_shape_span(&var->shape, 0, depth);
    s.row = mf_shape_span(&var->shape, depth, var->shape.rank);
    s.indices = &rows;
    s.updates = updates->data;
    st = mf_scatter_run(k->step->pool, &s);
    mf_tensor_clear(&rows);
    return st;
}

static mf_status scatter_var_scatter_nd_run(mf_kernel *k)
{
    return update(k, 2, scatter_nd_locked);
}

/* ---- slices ---- */

static mf_status slice_prepare(mf_prepare *p)
{
    mf_strided_masks *masks = MF_ARENA_NEW(p->arena, mf_strided_masks);

    if (!masks)
        return MF_NOMEM("a kernel");
    mf_strided_masks_read(p->node, masks);
    p->state = masks;
    return MF_OK;
}

static mf_status slice_locked(const mf_kernel *k, const mf_tensor *var)
{
    mf_strided s;

    MF_TRY(mf_strided_of(&s, &var->shape, k->in[1], k->in[2], k->in[3], k->state));
    return mf_strided_assign(k->step->pool, &s, &var->shape, var->data, k->in[4]);
}

static mf_status scatter_var_slice_run(mf_kernel *k)
{
    return update(k, 4, slice_locked);
}

/* ---- reading: the kernels of GatherV2 and GatherNd on the variable's value ---- */

static mf_status scatter_var_gather_prepare(mf_prepare *p)
{
    const mf_op *op = mf_op_find("GatherV2");
    const mf_kernel_def *def = op ? mf_kernel_of(op) : NULL;

    return def && def->prepare ? def->prepare(p) : MF_OK;
}

/* A scalar tensor over a local number, such as an axis. */
static mf_tensor scatter_var_number(int64_t *value)
{
    return (mf_tensor){ .dtype = MF_DTYPE_I64, .count = 1, .data = value };
}

static mf_status read_by(mf_kernel *k, const char *op_name, int n_in)
{
    const mf_op *op = mf_op_find(op_name);
    int64_t axis = mf_node_int(k->node, "batch_dims");
    mf_tensor value = { 0 }, axis_tensor;
    const mf_tensor *in[3] = { &value, k->in[1], &axis_tensor };
    mf_kernel inner = *k;
    mf_variable *v;
    mf_status st;

    if (axis < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "batch_dims is negative (%lld)", (long long)axis);
    axis_tensor = scatter_var_number(&axis);
    inner.in = in;
    inner.n_in = n_in;
    inner.reuse = 0;
    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_variable_read(v, &value));
    if (value.dtype != k->node->out_types[0])
        st = MF_FAIL(MF_INVALID_ARGUMENT, "variable %s is of type %s, read as %s", v->name,
                     mf_dtype_name(value.dtype), mf_dtype_name(k->node->out_types[0]));
    else
        st = op ? mf_kernel_of(op)->run(&inner) : MF_FAIL(MF_INTERNAL, "no op %s", op_name);
    mf_tensor_clear(&value);
    return st;
}

static mf_status scatter_var_gather_run(mf_kernel *k)
{
    return read_by(k, "GatherV2", 3);
}

static mf_status scatter_var_gather_nd_run(mf_kernel *k)
{
    return read_by(k, "GatherNd", 2);
}

static mf_status infer_by(mf_infer *in, const char *op_name, int n_in)
{
    const mf_op *op = mf_op_find(op_name);
    int64_t axis = mf_node_int(in->node, "batch_dims");
    const mf_tensor axis_tensor = scatter_var_number(&axis);
    const mf_shape shapes[3] = { mf_infer_variable(in, 0), in->in[1], MF_SCALAR };
    const mf_tensor *const values[3] = { NULL, in->in_value[1], &axis_tensor };
    mf_infer inner = *in;

    if (!op || axis < 0) /* run() rejects it */
        return MF_OK;
    inner.in = shapes;
    inner.in_value = values;
    inner.n_in = n_in;
    return op->infer(&inner);
}

static mf_status scatter_var_gather_infer(mf_infer *in)
{
    return infer_by(in, "GatherV2", 3);
}

static mf_status scatter_var_gather_nd_infer(mf_infer *in)
{
    return infer_by(in, "GatherNd", 2);
}

/* TensorFlow returns IndexedSlices here; this gradient is dense. */
static mf_status scatter_var_gather_grad(mf_grad *g)
{
    const mf_output zero = mf_ints(g->graph, (int64_t[]){ 0 }, 1);
    const mf_output one = mf_ints(g->graph, (int64_t[]){ 1 }, 1);
    const mf_output shape = MF_G1("VariableShape", g->x[0]);
    mf_output rows;

    if (mf_node_int(g->node, "batch_dims") != 0)
        return mf_grad_missing(g);
    rows = mf_applyf(g->graph, "StridedSlice", MF_IN(shape, zero, one, one), "shrink_axis_mask=1");
    g->dx[0] = MF_G2("Reshape", MF_G3("UnsortedSegmentSum", g->dy[0], g->x[1], rows), shape);
    return MF_OK;
}

static mf_status scatter_var_gather_nd_grad(mf_grad *g)
{
    const mf_output shape = mf_applyf(g->graph, "VariableShape", MF_IN(g->x[0]), "out_type=%s",
                                      mf_dtype_name(mf_grad_type(g->x[1])));

    g->dx[0] = MF_G3("ScatterNd", g->x[1], g->dy[0], shape);
    return MF_OK;
}

/* Rows of a variable: indices and elements of a row are independent. */
static void rows_split(mf_split *s)
{
    const int ids = s->in[1].rank;

    if (mf_node_int(s->node, "batch_dims") != 0)
        return;
    for (int d = 1; d < s->in[0].rank; d++)
        mf_split_through(s, 0, d, d + ids - 1);
    for (int d = 0; d < ids; d++)
        mf_split_through(s, 1, d, d);
    mf_split_rows(s, "_VariableRowsOrZero");
}

/* Written rows: each device writes its own. */
static void scatter_split(mf_split *s)
{
    if (s->in[1].rank == 1 && s->in[2].rank == s->in[0].rank)
        mf_split_own_rows(s, 1, 1, 2);
}

/* ---- the table ---- */

#define UPDATE_SPLIT(NAME, DEF, PREPARE, RUN, SPLIT, ...)                                          \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP, .infer = scatter_infer,                     \
        .grad = mf_grad_none, .prepare = PREPARE, .run = RUN, .split = SPLIT,                      \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define UPDATE(NAME, DEF, PREPARE, RUN, ...)                                                       \
    UPDATE_SPLIT(NAME, DEF, PREPARE, RUN, NULL, __VA_ARGS__)
#define SCATTER(WHAT, TYPES, RES_TYPES, LOCK, ...)                                                 \
    UPDATE("Scatter" WHAT,                                                                         \
           "(ref:ref T, indices:Tindices, updates:T) -> (output_ref:ref T) {T:type" TYPES          \
           ", Tindices:type in index, use_locking:bool=" LOCK "}",                                 \
           scatter_prepare, scatter_var_scatter_run, __VA_ARGS__),                                 \
        UPDATE_SPLIT("ResourceScatter" WHAT,                                                       \
                     "(resource:resource, indices:Tindices, updates:dtype) -> () "                 \
                     "{dtype:type" RES_TYPES ", Tindices:type in index} is_stateful",              \
                     scatter_prepare, scatter_var_scatter_run, scatter_split, __VA_ARGS__)
#define SCATTER_ND(WHAT, TYPES, LOCK, ...)                                                         \
    UPDATE("ScatterNd" WHAT,                                                                       \
           "(ref:ref T, indices:Tindices, updates:T) -> (output_ref:ref T) {T:type" TYPES          \
           ", Tindices:type in index, use_locking:bool=" LOCK ", bad_indices_policy:string=''}",   \
           scatter_prepare, scatter_var_scatter_nd_run, __VA_ARGS__),                              \
        UPDATE("ResourceScatterNd" WHAT,                                                           \
               "(ref:resource, indices:Tindices, updates:T) -> () {T:type, Tindices:type in "      \
               "index, use_locking:bool=true, bad_indices_policy:string=''} is_stateful",          \
               scatter_prepare, scatter_var_scatter_nd_run, __VA_ARGS__)
#define NUMBERS " in numbers"
#define ORDERED " in [half,bfloat16,float,double,int32,int64]"
#define SLICE_ATTRS                                                                                \
    "{T:type, Index:type in index, begin_mask:int=0, end_mask:int=0, ellipsis_mask:int=0, "        \
    "new_axis_mask:int=0, shrink_axis_mask:int=0}"
#define SLICE_SAMPLES                                                                              \
    "var:f32[4,3] i32[2]{1,0} i32[2]{3,2} i32[2]{1,1} f32[2,2]",                                   \
        "var:i32[5] i64[1]{4} i64[1]{0} i64[1]{-2} i32[2]",                                        \
        "var:f32[4,3] i32[1]{2} i32[1]{3} i32[1]{1} f32[3] ; shrink_axis_mask=1",                  \
        "var:f32[4,3] i32[1]{2} i32[1]{3} i32[1]{1} f32[2] ; shrink_axis_mask=1 !fails",           \
        "var:f32[4] i32[1]{9} i32[1]{10} i32[1]{1} f32[] ; shrink_axis_mask=1 !fails"

const mf_op mf_ops_scatter_var[] = {
    SCATTER("Update", "", "", "true", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]",
            "var:i64[4] i64[2,2]{0,1,2,3} i64[2,2]", "var:f32[5,2] i32[2]{1,2} f32[]",
            "var:f32[5] i32[0] f32[0]", "var:f32[5,2] i32[1]{5} f32[1,2] !fails",
            "var:f32[5,2] i32[1]{-1} f32[1,2] !fails", "var:f32[5,2] i32[2]{1,2} f32[2,3] !fails"),
    SCATTER("Add", NUMBERS, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]",
            "var:f64[5,2] i64[]{3} f64[2]", "var:i32[5] i32[3]{1,1,1} i32[]",
            "var:bf16[3] i32[2]{0,2} bf16[2]", "var:f32[5] i32[1]{7} f32[1] !fails"),
    SCATTER("Sub", NUMBERS, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]",
            "var:i64[5] i32[2]{1,2} i64[2]"),
    SCATTER("Mul", NUMBERS, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]"),
    SCATTER("Div", NUMBERS, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]@1:2",
            "var:i32[3] i32[1]{1} i32[1]{0} !fails !notf"),
    SCATTER("Min", ORDERED, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]",
            "var:i32[5] i32[2]{1,2} i32[2]"),
    SCATTER("Max", ORDERED, NUMBERS, "false", "var:f32[5,2] i32[3]{4,0,4} f32[3,2]"),
    SCATTER_ND("Update", "", "true", "var:f32[3,4] i32[2,2]{0,1,2,3} f32[2]",
               "var:f32[3,4] i64[2,1]{2,0} f32[2,4]", "var:f32[3] i32[0,1] f32[0]",
               "var:f32[3,4] i32[1,2]{0,4} f32[1] !fails",
               "var:f32[3,4] i32[1,3]{0,1,1} f32[1] !fails"),
    SCATTER_ND("Add", NUMBERS, "false", "var:f32[3,4] i32[3,2]{0,1,2,3,0,1} f32[3]",
               "var:f64[3,4] i64[2,1]{2,2} f64[2,4]", "var:f32[3,4] i32[2,1]{0,1} f32[2] !fails"),
    SCATTER_ND("Sub", NUMBERS, "false", "var:f32[3,4] i32[3,2]{0,1,2,3,0,1} f32[3]"),
    SCATTER_ND("Min", NUMBERS, "false", "var:f32[3,4] i32[3,2]{0,1,2,3,0,1} f32[3]"),
    SCATTER_ND("Max", NUMBERS, "false", "var:f32[3,4] i32[3,2]{0,1,2,3,0,1} f32[3]"),
    UPDATE("StridedSliceAssign",
           "(ref:ref T, begin:Index, end:Index, strides:Index, value:T) -> (output_ref:ref "
           "T) " SLICE_ATTRS,
           slice_prepare, scatter_var_slice_run, SLICE_SAMPLES),
    UPDATE("ResourceStridedSliceAssign",
           "(ref:resource, begin:Index, end:Index, strides:Index, value:T) -> () " SLICE_ATTRS
           " is_stateful",
           slice_prepare, scatter_var_slice_run, SLICE_SAMPLES),
    { .name = "ResourceGather",
      .rows = mf_rows_lookup,
      .def = "(resource:resource, indices:Tindices) -> (output:dtype) {batch_dims:int=0, "
             "validate_indices:bool=true, dtype:type, Tindices:type in index} is_stateful",
      .infer = scatter_var_gather_infer,
      .grad = scatter_var_gather_grad,
      .prepare = scatter_var_gather_prepare,
      .run = scatter_var_gather_run,
      .split = rows_split,
      .samples = MF_SAMPLES("var:f32[5,3] i32[4]{1,4,0,1} ; dtype=float !nograd",
                            "var:i32[5] i64[2,2]{1,4,0,1} ; dtype=int32",
                            "var:f32[2,3] i32[2,2]{0,2,1,1} ; dtype=float batch_dims=1 !nograd",
                            "var:f32[5,3] i32[0] ; dtype=float !nograd",
                            "var:f32[5,3] i32[1]{5} ; dtype=float !fails",
                            "var:f32[5,3] i32[1]{1} ; dtype=float batch_dims=-1 !fails",
                            "var:f32[5,3] i32[1]{0} ; dtype=double !fails") },
    { .name = "ResourceGatherNd",
      .def = "(resource:resource, indices:Tindices) -> (output:dtype) {dtype:type, Tindices:type "
             "in index} is_stateful",
      .infer = scatter_var_gather_nd_infer,
      .grad = scatter_var_gather_nd_grad,
      .run = scatter_var_gather_nd_run,
      .samples = MF_SAMPLES("var:f32[3,4] i32[2,2]{0,1,2,3} ; dtype=float !nograd",
                            "var:f32[3,4] i64[2,1]{2,0} ; dtype=float !nograd",
                            "var:f32[3,4] i32[1,2]{0,4} ; dtype=float !fails") },
    { 0 },
};
