/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_reduce.c - sums and maxima over dimensions of sparse tensors, and SparseSoftmax over the
 * last one. Missing elements are ignored. */
#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/math/vmath.h"
#include "ops/sparse/sparse_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reduce_plan {
    mf_sparse s;
    bool gone[MF_MAX_RANK]; /* reduced dimensions */
    int64_t stride[MF_MAX_RANK]; /* of the remaining dimensions, in a dense result */
    bool keep, largest;
    mf_shape shape; /* of the result */
} reduce_plan;

static mf_status sparse_reduce_plan_init(const mf_kernel *k, reduce_plan *p)
{
    const mf_tensor *axes = k->in[3];
    int64_t step = 1;

    MF_TRY(mf_sparse_read(k, 0, &p->s));
    MF_TRY(mf_sparse_check_bounds(&p->s));
    p->keep = mf_node_bool(k->node, "keep_dims");
    p->largest = strncmp(k->node->op_name, "SparseReduceMax", strlen("SparseReduceMax")) == 0;
    for (int64_t i = 0; i < axes->count; i++) {
        int axis;

        MF_TRY(mf_axis_read(mf_index_at(axes, i), p->s.rank, "reduction axis", &axis));
        p->gone[axis] = true;
    }
    for (int d = p->s.rank - 1; d >= 0; d--) {
        p->stride[d] = p->gone[d] ? 0 : step;
        if (!p->gone[d] && !mf_mul_i64(step, p->s.size[d], &step))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the result is too large");
    }
    for (int d = 0; d < p->s.rank; d++) {
        if (!p->gone[d] || p->keep)
            p->shape.dims[p->shape.rank++] = p->gone[d] ? 1 : p->s.size[d];
    }
    return MF_OK;
}

static int64_t sparse_reduce_place_of(const reduce_plan *p, int64_t i)
{
    int64_t at = 0;

    for (int d = 0; d < p->s.rank; d++)
        at += mf_sparse_at(&p->s, i, d) * p->stride[d];
    return at;
}

/* ---- to a dense tensor ---- */

static mf_status dense_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    return MF_OK;
}

static mf_status dense_run(mf_kernel *k)
{
    reduce_plan p = { .keep = false };
    mf_tensor *out, seen = { 0 };
    bool *has;
    mf_status st;

    MF_TRY(sparse_reduce_plan_init(k, &p));
    MF_TRY(mf_kernel_out(k, 0, &p.shape, &out));
    mf_cells_zero(out->dtype, out->data, 0, out->count);
    MF_TRY_TO(done, mf_tensor_alloc(&seen, MF_DTYPE_BOOL, &MF_SHAPE(out->count)));
    mf_cells_zero(MF_DTYPE_BOOL, seen.data, 0, seen.count);
    has = seen.data;
    for (int64_t i = 0; i < p.s.n; i++) {
        const int64_t at = sparse_reduce_place_of(&p, i);
        const mf_number x = mf_number_at(p.s.values, i), y = mf_number_at(out, at);

        mf_number_put(out, at,
                      !has[at]    ? x
                      : p.largest ? (mf_number_less(y, x) ? x : y)
                                  : mf_number_add(y, x));
        has[at] = true;
    }
done:
    mf_tensor_clear(&seen);
    return st;
}

/* A value was added to the result at index / size, where size is that of a reduced dimension and 1
 * otherwise. */
static mf_status sparse_reduce_sum_grad(mf_grad *g)
{
    const mf_output shape = g->x[2], axes = g->x[3], zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output rank = MF_G1("Size", shape);
    const mf_output all = MF_G3("Range", zero, rank, one);
    const mf_output given = MF_G2("FloorMod", MF_G2("AddV2", axes, rank), rank);
    const mf_output ones = MF_G2("Fill", MF_G1("Shape", all), mf_scalar(g->graph, MF_DTYPE_I64, 1));
    const mf_output kept =
        MF_G3("TensorScatterUpdate", shape, MF_G2("ExpandDims", given, one),
              MF_G2("Fill", MF_G1("Shape", given), mf_scalar(g->graph, MF_DTYPE_I64, 1)));
    const mf_output size =
        MF_G2("FloorDiv", MF_G2("Maximum", shape, ones), MF_G2("Maximum", kept, ones));

    g->dx[1] =
        MF_G2("GatherNd", MF_G2("Reshape", g->dy[0], kept), MF_G2("FloorDiv", g->x[0], size));
    return MF_OK;
}

/* ---- to a sparse tensor ---- */

static mf_status sparse_reduce_sparse_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = MF_SHAPE(-1, -1);
    in->out[1] = in->out[2] = MF_SHAPE(-1);
    return MF_OK;
}

typedef struct sparse_reduce_group {
    int64_t place, at;
} sparse_reduce_group;

static int by_place(const void *a, const void *b)
{
    const sparse_reduce_group *x = a, *y = b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void sparse_reduce_put_index(const reduce_plan *p, int64_t i, mf_tensor *index, int64_t row)
{
    int64_t to = row * p->shape.rank;

    for (int d = 0; d < p->s.rank; d++) {
        if (!p->gone[d] || p->keep)
            mf_index_put(index, to++, p->gone[d] ? 0 : mf_sparse_at(&p->s, i, d));
    }
}

static mf_status write_groups(mf_kernel *k, const reduce_plan *p, sparse_reduce_group *groups)
{
    mf_tensor *index, *values, *shape;
    int64_t n = 0;

    for (int64_t i = 0; i < p->s.n; i++)
        groups[i] = (sparse_reduce_group){ sparse_reduce_place_of(p, i), i };
    qsort(groups, (size_t)p->s.n, sizeof *groups, by_place);
    for (int64_t i = 0; i < p->s.n; i++)
        n += i == 0 || groups[i].place != groups[i - 1].place;
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n, p->shape.rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(p->shape.rank), &shape));
    for (int d = 0; d < p->shape.rank; d++)
        mf_index_put(shape, d, p->shape.dims[d]);
    for (int64_t i = 0, row = -1; i < p->s.n; i++) {
        const bool first = i == 0 || groups[i].place != groups[i - 1].place;
        const mf_number x = mf_number_at(p->s.values, groups[i].at);
        mf_number y = x;

        row += first;
        if (first)
            sparse_reduce_put_index(p, groups[i].at, index, row);
        else
            y = mf_number_at(values, row);
        mf_number_put(values, row,
                      first        ? x
                      : p->largest ? (mf_number_less(y, x) ? x : y)
                                   : mf_number_add(y, x));
    }
    return MF_OK;
}

static mf_status sparse_reduce_sparse_run(mf_kernel *k)
{
    reduce_plan p = { .keep = false };
    sparse_reduce_group *groups;
    mf_status st;

    MF_TRY(sparse_reduce_plan_init(k, &p));
    groups = mf_calloc(p.s.n + 1, sizeof *groups);
    st = groups ? write_groups(k, &p, groups) : MF_NOMEM("a reduction");
    mf_free(groups);
    return st;
}

/* ---- softmax ---- */

static mf_status sparse_reduce_softmax_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = in->in[1];
    return MF_OK;
}

/* End of the row of element `i`: adjacent elements whose indices differ only in the last dimension.
 */
static int64_t row_end(const mf_sparse *s, int64_t i)
{
    mf_sparse rows = *s;
    int64_t end = i + 1;

    for (; end < s->n; end++) {
        for (int d = 0; d + 1 < rows.rank; d++) {
            if (mf_sparse_at(s, i, d) != mf_sparse_at(s, end, d))
                return end;
        }
    }
    return end;
}

static mf_status sparse_reduce_softmax_run(mf_kernel *k)
{
    mf_tensor *out;
    mf_sparse s;

    MF_TRY(mf_sparse_read(k, 0, &s));
    if (s.rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input should have rank >= 2, but got %d", s.rank);
    MF_TRY(mf_sparse_check_bounds(&s));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s.n), &out));
    for (int64_t i = 0; i < s.n;) {
        const int64_t end = row_end(&s, i);
        double most = -INFINITY, sum = 0;

        for (int64_t e = i; e < end; e++)
            most = fmax(most, mf_tensor_float_at(s.values, e));
        for (int64_t e = i; e < end; e++)
            sum += mf_exp(mf_tensor_float_at(s.values, e) - most);
        for (; i < end; i++)
            mf_tensor_put(out, i, mf_exp(mf_tensor_float_at(s.values, i) - most) / sum);
    }
    return MF_OK;
}

/* y (dy - the row's sum of y dy). */
static mf_status sparse_reduce_softmax_grad(mf_grad *g)
{
    const mf_output product = MF_G2("Mul", g->y[0], g->dy[0]);
    const mf_output last = mf_ints(g->graph, (const int64_t[]){ -1 }, 1);
    const mf_output sums = mf_applyf(g->graph, "SparseReduceSum",
                                     MF_IN(g->x[0], product, g->x[2], last), "keep_dims=true");
    const mf_output spread = mf_apply(g->graph, "SparseDenseCwiseAdd",
                                      MF_IN(g->x[0], g->dy[0], g->x[2], MF_G1("Neg", sums)));

    g->dx[1] = MF_G2("Mul", spread, g->y[0]);
    return MF_OK;
}

#define REDUCE_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define INPUTS "(input_indices:int64, input_values:T, input_shape:int64, reduction_axes:int32) -> "
#define DENSE INPUTS "(output:T) {keep_dims:bool=false, "
#define SPARSE                                                                                     \
    INPUTS "(output_indices:int64, output_values:T, output_shape:int64) {keep_dims:bool=false, "
#define THREE "i64[5,3]{0,1,0,0,1,2,1,0,0,1,2,1,1,2,2} "
#define SHAPE " i64[3]{2,3,4} "

const mf_op mf_ops_sparse_reduce[] = {
    REDUCE_OP("SparseReduceSum", DENSE "T:type in numbers}", dense_infer, dense_run,
              sparse_reduce_sum_grad, THREE "f32[5]" SHAPE "i32[1]{1}",
              THREE "f64[5]" SHAPE "i32[2]{-1,0} ; keep_dims=true", THREE "i32[5]" SHAPE "i32[0]",
              THREE "f64[5]" SHAPE "i32[3]{0,1,2}", "i64[0,2] f32[0] i64[2]{3,4} i32[1]{0}",
              THREE "f32[5]" SHAPE "i32[1]{3} !fails", THREE "f32[4]" SHAPE "i32[1]{1} !fails"),
    REDUCE_OP("SparseReduceMax", DENSE "T:type in reals}", dense_infer, dense_run, mf_grad_missing,
              THREE "f32[5]" SHAPE "i32[1]{1}",
              THREE "i32[5]" SHAPE "i32[2]{-1,0} ; keep_dims=true",
              THREE "f32[5]@-5:-1" SHAPE "i32[0]", "i64[0,2] f32[0] i64[2]{3,4} i32[1]{0}"),
    REDUCE_OP("SparseReduceSumSparse", SPARSE "T:type in numbers}", sparse_reduce_sparse_infer,
              sparse_reduce_sparse_run, mf_grad_missing, THREE "f32[5]" SHAPE "i32[1]{1}",
              THREE "f64[5]" SHAPE "i32[2]{-1,0} ; keep_dims=true",
              THREE "i32[5]" SHAPE "i32[2]{0,1}", "i64[0,2] f32[0] i64[2]{3,4} i32[1]{0}"),
    REDUCE_OP("SparseReduceMaxSparse", SPARSE "T:type in reals}", sparse_reduce_sparse_infer,
              sparse_reduce_sparse_run, mf_grad_missing, THREE "f32[5]" SHAPE "i32[1]{1}",
              THREE "i32[5]" SHAPE "i32[2]{-1,0} ; keep_dims=true"),
    REDUCE_OP("SparseSoftmax",
              "(sp_indices:int64, sp_values:T, sp_shape:int64) -> (output:T) {T:type in "
              "[half,float,double]}",
              sparse_reduce_softmax_infer, sparse_reduce_softmax_run, sparse_reduce_softmax_grad,
              THREE "f32[5]" SHAPE, THREE "f64[5]" SHAPE,
              "i64[4,2]{0,1,0,3,2,0,2,1} f64[4] i64[2]{3,4}", "i64[0,2] f32[0] i64[2]{3,4}",
              "i64[2,1]{0,1} f32[2] i64[1]{3} !fails"),
    { 0 },
};
