/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_nd.c - updates selected parts of tensors: ScatterNd, TensorScatter*, SparseToDense. The
 * loops are in scatter.c. */
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/scatter.h"
#include "ops/control/grad_util.h"

/* updates.shape must be indices.shape[:-1] + x.shape[depth:]; unknown dimensions match. */
static mf_status check_updates(const mf_shape *x, const mf_shape *indices, const mf_shape *updates)
{
    const int outer = indices->rank - 1;
    const int64_t depth = outer >= 0 ? indices->dims[outer] : -1;
    mf_shape expected = { .rank = 0 };
    char ti[MF_SHAPE_TEXT], tu[MF_SHAPE_TEXT], tx[MF_SHAPE_TEXT];

    if (indices->rank == 0 || updates->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s shape must have rank at least one. Found: []",
                       indices->rank == 0 ? "Indices" : "Updates");
    if (x->rank < 0 || indices->rank < 0 || updates->rank < 0 || depth < 0)
        return MF_OK;
    if (depth > x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the last dimension of indices, %" PRId64 ", exceeds the rank of shape %s",
                       depth, mf_shape_text(x, tx));
    expected.rank = outer + x->rank - (int)depth;
    for (int d = 0; d < expected.rank && d < MF_MAX_RANK; d++)
        expected.dims[d] = d < outer ? indices->dims[d] : x->dims[d - outer + depth];
    if (expected.rank > MF_MAX_RANK || !mf_shape_compatible(&expected, updates))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of "
                       "updates[shape=%s], and the rest those of shape %s",
                       outer, mf_shape_text(indices, ti), outer, mf_shape_text(updates, tu),
                       mf_shape_text(x, tx));
    return MF_OK;
}

static mf_status scatter_nd_scatter_into(mf_kernel *k, mf_tensor *out, mf_scatter_op op,
                                         const mf_tensor *indices, const mf_tensor *updates)
{
    const int64_t depth = indices->shape.dims[indices->shape.rank - 1];
    mf_scatter s = { .op = op, .dtype = out->dtype, .x = out->data, .updates = updates->data };
    mf_tensor rows = { 0 };
    mf_bad_indices bad;
    mf_status st;

    MF_TRY(mf_bad_indices_read(k->node, &bad));
    MF_TRY(mf_nd_rows(indices, &out->shape, bad, &rows));
    s.indices = &rows;
    s.rows = mf_shape_span(&out->shape, 0, (int)depth);
    s.row = mf_shape_span(&out->shape, (int)depth, out->shape.rank);
    s.ignore_bad = bad == MF_BAD_INDICES_IGNORE;
    st = mf_scatter_run(k->step->pool, &s);
    mf_tensor_clear(&rows);
    return st;
}

/* ---- ScatterNd ---- */

static mf_status scatter_nd_infer(mf_infer *in)
{
    MF_TRY(mf_infer_shape_input(in, 2, &in->out[0]));
    return check_updates(&in->out[0], &in->in[0], &in->in[1]);
}

static mf_status scatter_nd_scatter_nd_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_shape_read(k->in[2], "shape", &shape));
    MF_TRY(check_updates(&shape, &k->in[0]->shape, &k->in[1]->shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_cells_zero(out->dtype, out->data, 0, out->count);
    return scatter_nd_scatter_into(k, out, MF_SCATTER_ADD, k->in[0], k->in[1]);
}

/* The gradient of updates, for all ops in this file. */
static mf_output gather_updates(mf_grad *g, mf_output from, mf_output indices)
{
    return mf_applyf(g->graph, "GatherNd", MF_IN(from, indices), "bad_indices_policy='%s'",
                     mf_node_string(g->node, "bad_indices_policy"));
}

static mf_status scatter_nd_grad(mf_grad *g)
{
    g->dx[1] = gather_updates(g, g->dy[0], g->x[0]);
    return MF_OK;
}

/* Dimensions of updates and result that tuples do not index. */
static void inner_split(mf_split *s, int indices, int updates)
{
    const int tuples = s->in[indices].rank - 1, depth = (int)s->in[indices].dims[tuples];

    for (int d = depth; d < s->out[0].rank; d++) {
        mf_split_through(s, updates, tuples + d - depth, d);
        s->letters[s->n_letters - 1].some = true; /* nothing can be selected from an empty shard */
    }
}

/* Tuples can be split: shards are summed. */
static void scatter_nd_split(mf_split *s)
{
    if (!s->in_value[2])
        return;
    inner_split(s, 0, 1);
    s->sizes_input = 2;
    for (int d = 0; d < s->in[0].rank - 1 && s->node->in_types[1] != MF_DTYPE_BOOL; d++) {
        const int letter = mf_split_new(s, s->in[0].dims[d], MF_CUT_SUM);

        mf_split_in(s, 0, d, letter);
        mf_split_in(s, 1, d, letter);
    }
}

/* ---- TensorScatter*, ScatterNdNonAliasingAdd: (tensor, indices, updates) ---- */

static mf_scatter_op scatter_nd_op_of(const mf_node *node)
{
    static const struct {
        const char *name;
        mf_scatter_op op;
    } ops[] = {
        { "TensorScatterUpdate", MF_SCATTER_ASSIGN }, { "TensorScatterAdd", MF_SCATTER_ADD },
        { "TensorScatterSub", MF_SCATTER_SUB },       { "TensorScatterMax", MF_SCATTER_MAX },
        { "TensorScatterMin", MF_SCATTER_MIN },       { "ScatterNdNonAliasingAdd", MF_SCATTER_ADD },
    };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(ops[i].name, node->op_name) == 0)
            return ops[i].op;
    }
    return MF_SCATTER_ASSIGN;
}

static mf_status tensor_scatter_infer(mf_infer *in)
{
    MF_TRY(check_updates(&in->in[0], &in->in[1], &in->in[2]));
    return mf_infer_same(in);
}

/* Not in place: the reused memory could belong to any input. */
static mf_status tensor_scatter_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_tensor *out;

    MF_TRY(check_updates(&x->shape, &k->in[1]->shape, &k->in[2]->shape));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    MF_TRY(mf_cells_copy(x->dtype, out->data, 0, x->data, 0, x->count));
    return scatter_nd_scatter_into(k, out, scatter_nd_op_of(k->node), k->in[1], k->in[2]);
}

static void tensor_scatter_split(mf_split *s)
{
    inner_split(s, 1, 2);
    for (int d = 0; d < s->out[0].rank; d++)
        mf_split_in(s, 0, d, s->out_dims[0].dims[d].letter);
}

static mf_status scatter_nd_update_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("TensorScatterUpdate", g->dy[0], g->x[1], MF_G1("ZerosLike", g->x[2]));
    g->dx[2] = gather_updates(g, g->dy[0], g->x[1]);
    return MF_OK;
}

static mf_status scatter_nd_add_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    g->dx[2] = gather_updates(g, g->dy[0], g->x[1]);
    return MF_OK;
}

static mf_status scatter_nd_sub_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    g->dx[2] = MF_G1("Neg", gather_updates(g, g->dy[0], g->x[1]));
    return MF_OK;
}

/* dy is divided equally among all elements with the extreme value. */
static mf_status scatter_nd_extreme_grad(mf_grad *g)
{
    const mf_output indices = g->x[1];
    const char *type = mf_dtype_name(mf_grad_type(g->dy[0]));
    const mf_output shape = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s",
                                      mf_dtype_name(mf_grad_type(indices)));
    const mf_output of_x =
        mf_applyf(g->graph, "Cast", MF_IN(MF_G2("Equal", g->x[0], g->y[0])), "DstT=%s", type);
    const mf_output of_y = mf_applyf(
        g->graph, "Cast", MF_IN(MF_G2("Equal", g->x[2], gather_updates(g, g->y[0], indices))),
        "DstT=%s", type);
    const mf_output winners = MF_G2("AddV2", of_x, MF_G3("ScatterNd", indices, of_y, shape));
    const mf_output share = MF_G2("RealDiv", g->dy[0], winners);

    g->dx[0] = MF_G2("Mul", share, of_x);
    g->dx[2] = MF_G2("Mul", gather_updates(g, share, indices), of_y);
    return MF_OK;
}

/* ---- SparseToDense ---- */

/* indices: one tuple per value; a vector is a list of 1-tuples, a scalar is one 1-tuple. */
static mf_status as_tuples(const mf_tensor *indices, mf_tensor *out)
{
    mf_shape s = indices->shape;

    if (s.rank > 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "sparse_indices should be a scalar, vector, or matrix, got rank %d", s.rank);
    if (s.rank < 2)
        s = MF_SHAPE(indices->count, 1);
    mf_tensor_reshape(out, indices, &s);
    return MF_OK;
}

/* Rows must be strictly ascending. */
static mf_status scatter_nd_check_order(const mf_tensor *rows)
{
    const int64_t *v = rows->data;

    for (int64_t i = 1; i < rows->count; i++) {
        if (v[i] == v[i - 1])
            return MF_FAIL(MF_INVALID_ARGUMENT, "indices[%" PRId64 "] is repeated", i);
        if (v[i] < v[i - 1])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "indices[%" PRId64 "] is out of order. Many sparse ops require sorted "
                           "indices.",
                           i);
    }
    return MF_OK;
}

static mf_status sparse_fill(mf_kernel *k, const mf_tensor *tuples, const mf_tensor *rows,
                             mf_tensor *out)
{
    const mf_tensor *values = k->in[2], *fill = k->in[3];
    const int64_t depth = tuples->shape.dims[1];
    mf_scatter s = { .op = MF_SCATTER_ASSIGN,
                     .dtype = out->dtype,
                     .x = out->data,
                     .rows = out->count,
                     .row = 1,
                     .indices = rows,
                     .updates = values->data,
                     .scalar = values->shape.rank == 0 };

    if (depth != out->shape.rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "output_shape has incorrect number of elements: %d should be: %" PRId64,
                       out->shape.rank, depth);
    if (values->shape.rank > 1 || (values->shape.rank == 1 && values->count != rows->count))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "sparse_values has incorrect shape: %" PRId64 " elements for %" PRId64
                       " indices",
                       values->count, rows->count);
    if (fill->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "default_value should be a scalar.");
    if (mf_node_bool(k->node, "validate_indices"))
        MF_TRY(scatter_nd_check_order(rows));
    MF_TRY(mf_cells_fill(out->dtype, out->data, 0, out->count, fill->data));
    return mf_scatter_run(k->step->pool, &s);
}

static mf_status scatter_nd_sparse_infer(mf_infer *in)
{
    return mf_infer_shape_input(in, 1, &in->out[0]);
}

static mf_status scatter_nd_sparse_run(mf_kernel *k)
{
    mf_tensor tuples = { 0 }, rows = { 0 }, *out;
    mf_shape shape;
    mf_status st;

    MF_TRY(mf_shape_read(k->in[1], "output_shape", &shape));
    MF_TRY_TO(done, as_tuples(k->in[0], &tuples));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &out));
    MF_TRY_TO(done, mf_nd_rows(&tuples, &shape, MF_BAD_INDICES_ERROR, &rows));
    st = sparse_fill(k, &tuples, &rows, out);

done:
    mf_tensor_clear(&tuples);
    mf_tensor_clear(&rows);
    return st;
}

static mf_status scatter_nd_sparse_grad(mf_grad *g)
{
    const mf_output values = MF_G2("GatherNd", g->dy[0], g->x[0]);

    g->dx[2] = values;
    g->dx[3] = MF_G2("Sub", MF_G2("Sum", g->dy[0], mf_grad_all_axes(g, g->dy[0])),
                     MF_G2("Sum", values, mf_grad_all_axes(g, values)));
    return MF_OK;
}

#define TENSOR_SCATTER(NAME, DEF_, GRAD, ...)                                                      \
    {                                                                                              \
        .name = NAME, .def = DEF_, .infer = tensor_scatter_infer, .grad = GRAD,                    \
        .run = tensor_scatter_run, .split = tensor_scatter_split,                                  \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_scatter_nd[] = {
    { .name = "ScatterNd",
      .def = "(indices:Tindices, updates:T, shape:Tindices) -> (output:T) {T:type, "
             "Tindices:type in [int16,int32,int64], bad_indices_policy:string=''}",
      .infer = scatter_nd_infer,
      .grad = scatter_nd_grad,
      .run = scatter_nd_scatter_nd_run,
      .split = scatter_nd_split,
      .samples = MF_SAMPLES(
          "i32[3,1]{4,1,4} f32[3] i32[1]{6}", "i64[2,1]{2,0} f64[2,3] i64[2]{4,3}",
          "i32[3,2,1]{0,3,1,3,2,0} f32[3,2,5] i32[2]{4,5}", "i32[2,2]{0,1,2,2} i32[2] i32[2]{3,3}",
          "i32[0,1] f32[0,2] i32[2]{3,2}", "i32[2,1]{0,0} bool[2] i32[1]{3}",
          "i32[2,1]{1,0} c64[2] i32[1]{3}",
          "i32[2,1]{1,9} f32[2] i32[1]{3} ; bad_indices_policy='IGNORE'",
          "i32[2,1]{1,3} f32[2] i32[1]{3} !fails", "i32[2,1]{1,2} f32[3] i32[1]{3} !fails",
          "i32[]{1} f32[1] i32[1]{3} !fails", "i32[1,2]{1,1} f32[1] i32[1]{3} !fails") },
    TENSOR_SCATTER("TensorScatterUpdate",
                   "(tensor:T, indices:Tindices, updates:T) -> (output:T) {T:type, "
                   "Tindices:type in [int16,int32,int64,uint16], "
                   "bad_indices_policy:string=''}",
                   scatter_nd_update_grad, "f32[5] i32[2,1]{3,1} f32[2]",
                   "f64[3,4] i64[2,1]{2,0} f64[2,4]", "str[3] i32[1,1]{1} str[1]",
                   "i32[3,3] i32[2,2]{0,1,2,2} i32[2]", "f32[3] i16[1,1]{1} f32[1] !nograd !notf",
                   "f32[3] i32[1,1]{3} f32[1] !fails", "f32[3] i32[1,1]{0} f32[2] !fails"),
    TENSOR_SCATTER("TensorScatterAdd",
                   "(tensor:T, indices:Tindices, updates:T) -> (output:T) {T:type, "
                   "Tindices:type in index, bad_indices_policy:string=''}",
                   scatter_nd_add_grad, "f32[5] i32[3,1]{3,1,3} f32[3]",
                   "f64[3,4] i64[2,1]{2,0} f64[2,4]", "i8[3] i32[1,1]{1} i8[1]",
                   "bf16[3] i32[2,1]{1,1} bf16[2] !nograd", "f32[3] i32[1,1]{-1} f32[1] !fails"),
    TENSOR_SCATTER("TensorScatterSub",
                   "(tensor:T, indices:Tindices, updates:T) -> (output:T) {T:type, "
                   "Tindices:type in index, bad_indices_policy:string=''}",
                   scatter_nd_sub_grad, "f32[5] i32[3,1]{3,1,3} f32[3]",
                   "u16[3] i32[1,1]{1} u16[1]", "f32[3] i32[1,1]{3} f32[1] !fails"),
    TENSOR_SCATTER("TensorScatterMax",
                   "(tensor:T, indices:Tindices, updates:T) -> (output:T) {T:type, "
                   "Tindices:type in index, bad_indices_policy:string=''}",
                   scatter_nd_extreme_grad, "f32[5] i32[3,1]{3,1,2} f32[3]",
                   "i32[3] i32[2,1]{1,1} i32[2]", "f32[3] i32[1,1]{3} f32[1] !fails"),
    TENSOR_SCATTER("TensorScatterMin",
                   "(tensor:T, indices:Tindices, updates:T) -> (output:T) {T:type, "
                   "Tindices:type in index, bad_indices_policy:string=''}",
                   scatter_nd_extreme_grad, "f32[5] i32[3,1]{3,1,2} f32[3]",
                   "i64[3] i64[2,1]{1,1} i64[2]", "f32[3] i32[1,1]{3} f32[1] !fails"),
    TENSOR_SCATTER("ScatterNdNonAliasingAdd",
                   "(input:T, indices:Tindices, updates:T) -> (output:T) {T:type in [float,"
                   "double,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
                   "bfloat16,qint16,quint16,uint16,complex128,half,uint32,uint64,bool], "
                   "Tindices:type in index, bad_indices_policy:string=''}",
                   scatter_nd_add_grad, "f32[5] i32[3,1]{3,1,3} f32[3]",
                   "bool[3] i32[1,1]{1} bool[1]", "f32[3] i32[1,1]{3} f32[1] !fails"),
    { .name = "SparseToDense",
      .def = "(sparse_indices:Tindices, output_shape:Tindices, sparse_values:T, "
             "default_value:T) -> (dense:T) {validate_indices:bool=true, T:type, "
             "Tindices:type in index}",
      .infer = scatter_nd_sparse_infer,
      .grad = scatter_nd_sparse_grad,
      .run = scatter_nd_sparse_run,
      .samples = MF_SAMPLES(
          "i32[2,2]{0,1,2,0} i32[2]{3,2} f32[2] f32[]", "i64[2]{1,3} i64[1]{5} i32[2] i32[]",
          "i32[]{2} i32[1]{4} str[] str[]",
          "i32[2]{3,1} i32[1]{5} f32[]{2} f32[]{0} ; validate_indices=false !nograd",
          "i32[0,1] i32[1]{3} f32[0] f32[]", "i32[2]{1,1} i32[1]{5} f32[2] f32[] !fails",
          "i32[2]{3,1} i32[1]{5} f32[2] f32[] !fails", "i32[1]{5} i32[1]{5} f32[1] f32[] !fails",
          "i32[1]{0} i32[2]{5,5} f32[1] f32[] !fails") },
    { 0 },
};
