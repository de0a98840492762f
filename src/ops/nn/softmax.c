/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - softmax over the last dimension, its logarithm, and the two cross entropies. */
#include "base/mem.h"
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/row_math.h"
#include "ops/quant/widen.h"

enum { GRAIN = 8192 }; /* elements in a piece */

/* A row of each kernel: logits, labels and outputs as needed. Pointers advance by the strides; a
 * stride of 0 repeats. */
typedef struct rows_job {
    void (*row)(const struct rows_job *job, int64_t row);
    int64_t rows, cols, rows_per_piece;
    const void *logits, *labels;
    int64_t logits_row, logits_col, labels_row, labels_col;
    mf_dtype label_type;
    void *out, *loss;
} rows_job;

static void softmax_run_piece(void *ctx, int64_t piece)
{
    const rows_job *job = ctx;
    const int64_t end = (piece + 1) * job->rows_per_piece;

    for (int64_t r = piece * job->rows_per_piece; r < end && r < job->rows; r++)
        job->row(job, r);
}

static mf_status softmax_run_rows(const mf_kernel *k, rows_job *job)
{
    int64_t pieces;

    if (job->rows == 0 || job->cols == 0)
        return MF_OK;
    job->rows_per_piece = job->cols < GRAIN ? GRAIN / job->cols : 1;
    pieces = (job->rows + job->rows_per_piece - 1) / job->rows_per_piece;
    return mf_kernel_parallel(k, pieces, softmax_run_piece, job);
}

#define SOFTMAX_ROWS(S, T)                                                                         \
    static void softmax_##S(const rows_job *job, int64_t row)                                      \
    {                                                                                              \
        const int64_t n = job->cols;                                                               \
        const T *x = (const T *)job->logits + row * n;                                             \
        T *y = (T *)job->out + row * n;                                                            \
        const T scale = 1 / mf_row_exp_sum_##S(x, mf_row_max_##S(x, n), n, y);                     \
                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] *= scale;                                                                         \
    }                                                                                              \
    static void log_softmax_##S(const rows_job *job, int64_t row)                                  \
    {                                                                                              \
        const int64_t n = job->cols;                                                               \
        const T *x = (const T *)job->logits + row * n;                                             \
        T *y = (T *)job->out + row * n;                                                            \
        const T max = mf_row_max_##S(x, n);                                                        \
        double sum = 0;                                                                            \
        T log_sum;                                                                                 \
                                                                                                   \
        if (x != y) { /* otherwise the exponentials must not overwrite x */                        \
            sum = (double)mf_row_exp_sum_##S(x, max, n, y);                                        \
        } else {                                                                                   \
            MF_ROW_SUM(T, sum, n, EXP_##S);                                                        \
        }                                                                                          \
        log_sum = mf_row_log_##S((T)sum);                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = (x[i] - max) - log_sum;                                                         \
    }                                                                                              \
    static void xent_##S(const rows_job *job, int64_t row)                                         \
    {                                                                                              \
        const int64_t n = job->cols, xs = job->logits_col, ls = job->labels_col;                   \
        const T *x = (const T *)job->logits + row * job->logits_row;                               \
        const T *l = (const T *)job->labels + row * job->labels_row;                               \
        T *y = (T *)job->out + row * n;                                                            \
        const T max = mf_row_max_##S(x, xs ? n : 1);                                               \
        double sum, loss;                                                                          \
        T log_sum, scale;                                                                          \
                                                                                                   \
        if (xs == 0) {                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = x[0];                                                                       \
            x = y;                                                                                 \
        }                                                                                          \
        MF_ROW_SUM(T, sum, n, EXP_##S);                                                            \
        log_sum = mf_row_log_##S((T)sum);                                                          \
        scale = 1 / (T)sum;                                                                        \
        MF_ROW_SUM(T, loss, n, LOSS_TERM);                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = mf_row_exp_##S(x[i] - max) * scale - l[i * ls];                                 \
        ((T *)job->loss)[row] = (T)loss;                                                           \
    }                                                                                              \
    static void sparse_xent_##S(const rows_job *job, int64_t row)                                  \
    {                                                                                              \
        const int64_t n = job->cols;                                                               \
        const T *x = (const T *)job->logits + row * n;                                             \
        T *y = (T *)job->out + row * n;                                                            \
        const int64_t label = job->label_type == MF_DTYPE_I32                                      \
                                  ? ((const int32_t *)job->labels)[row]                            \
                                  : ((const int64_t *)job->labels)[row];                           \
        const T max = mf_row_max_##S(x, n), shifted = x[label] - max;                              \
        const T sum = mf_row_exp_sum_##S(x, max, n, y), scale = 1 / sum;                           \
                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] *= scale;                                                                         \
        y[label] -= 1;                                                                             \
        ((T *)job->loss)[row] = mf_row_log_##S(sum) - shifted;                                     \
    }
#define EXP_f32(i) mf_row_exp_f32(x[i] - max)
#define EXP_f64(i) mf_row_exp_f64(x[i] - max)
#define LOSS_TERM(i) (l[(i)*ls] * (log_sum - (x[i] - max)))
SOFTMAX_ROWS(f32, float)
SOFTMAX_ROWS(f64, double)

/* ---- Softmax, LogSoftmax ---- */

static mf_status softmax_softmax_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    return mf_infer_same(in);
}

static mf_status softmax_softmax_run(mf_kernel *k)
{
    const bool log = k->node->op_name[0] == 'L';
    const mf_shape *shape = &k->in[0]->shape;
    mf_tensor x = { 0 }, y = { 0 }, *out;
    mf_status st;
    rows_job job = { 0 };

    if (shape->rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "logits must have >= 1 dimension, got []");
    MF_TRY(mf_kernel_out(k, 0, shape, &out));
    MF_TRY_TO(done, mf_widen(k, k->in[0], &x));
    MF_TRY_TO(done, mf_widen_out(out, &y));
    job.cols = shape->dims[shape->rank - 1];
    job.rows = job.cols ? out->count / job.cols : 0;
    job.logits = x.data;
    job.out = y.data;
    if (x.dtype == MF_DTYPE_F32)
        job.row = log ? log_softmax_f32 : softmax_f32;
    else
        job.row = log ? log_softmax_f64 : softmax_f64;
    MF_TRY_TO(done, softmax_run_rows(k, &job));
    mf_narrow(k, &y, out);
done:
    mf_tensor_clear(&x);
    mf_tensor_clear(&y);
    return st;
}

/* dx = (dy - sum(dy * y)) * y */
static mf_status softmax_softmax_grad(mf_grad *g)
{
    const mf_output dy = g->dy[0], y = g->y[0];
    const mf_output axis = mf_ints(g->graph, (const int64_t[]){ -1 }, 1);
    const mf_output sum =
        mf_applyf(g->graph, "Sum", MF_IN(MF_G2("Mul", dy, y), axis), "keep_dims=true");

    g->dx[0] = MF_G2("Mul", MF_G2("Sub", dy, sum), y);
    return MF_OK;
}

/* dx = dy - sum(dy) * e^y */
static mf_status log_softmax_grad(mf_grad *g)
{
    const mf_output dy = g->dy[0];
    const mf_output axis = mf_ints(g->graph, (const int64_t[]){ -1 }, 1);
    const mf_output sum = mf_applyf(g->graph, "Sum", MF_IN(dy, axis), "keep_dims=true");

    g->dx[0] = MF_G2("Sub", dy, MF_G2("Mul", sum, MF_G1("Exp", g->y[0])));
    return MF_OK;
}

/* ---- cross entropies ---- */

static mf_status xent_infer(mf_infer *in)
{
    mf_shape both;

    MF_TRY(mf_shape_broadcast(&in->in[0], &in->in[1], &both));
    if (both.rank < 0) {
        in->out[0] = MF_SHAPE(-1);
        in->out[1] = MF_SHAPE(-1, -1);
        return MF_OK;
    }
    if (both.rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "logits and labels must be matrices, got rank %d",
                       both.rank);
    in->out[0] = MF_SHAPE(both.dims[0]);
    in->out[1] = both;
    return MF_OK;
}

static void broadcast_strides(const mf_shape *s, int64_t *row, int64_t *col)
{
    const int64_t cols = s->rank >= 1 ? s->dims[s->rank - 1] : 1;

    *col = cols == 1 ? 0 : 1;
    *row = s->rank < 2 || s->dims[s->rank - 2] == 1 ? 0 : cols;
}

static mf_status xent_run(mf_kernel *k)
{
    mf_tensor x = { 0 }, l = { 0 }, y = { 0 }, loss = { 0 }, *out_loss, *out_y;
    mf_status st = MF_OK;
    rows_job job = { 0 };
    mf_shape shape;

    MF_TRY(mf_shape_broadcast(&k->in[0]->shape, &k->in[1]->shape, &shape));
    if (shape.rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "logits and labels must be matrices, got rank %d",
                       shape.rank);
    if (shape.dims[0] > 0 && shape.dims[1] == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Must have at least one class, but got shape [%lld,0]",
                       (long long)shape.dims[0]);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(shape.dims[0]), &out_loss));
    MF_TRY(mf_kernel_out(k, 1, &shape, &out_y));
    MF_TRY_TO(done, mf_widen(k, k->in[0], &x));
    MF_TRY_TO(done, mf_widen(k, k->in[1], &l));
    MF_TRY_TO(done, mf_widen_out(out_y, &y));
    MF_TRY_TO(done, mf_widen_out(out_loss, &loss));
    job = (rows_job){ .row = x.dtype == MF_DTYPE_F32 ? xent_f32 : xent_f64,
                      .rows = shape.dims[0],
                      .cols = shape.dims[1],
                      .logits = x.data,
                      .labels = l.data,
                      .out = y.data,
                      .loss = loss.data };
    broadcast_strides(&x.shape, &job.logits_row, &job.logits_col);
    broadcast_strides(&l.shape, &job.labels_row, &job.labels_col);
    if (job.cols == 1) /* both have one column: nothing is repeated along a row */
        job.logits_col = job.labels_col = 1;
    MF_TRY_TO(done, softmax_run_rows(k, &job));
    mf_narrow(k, &y, out_y);
    mf_narrow(k, &loss, out_loss);
done:
    mf_tensor_clear(&x);
    mf_tensor_clear(&l);
    mf_tensor_clear(&y);
    mf_tensor_clear(&loss);
    return st;
}

static mf_status sparse_shapes(const mf_shape *logits, const mf_shape *labels)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (logits->rank >= 0 && logits->rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "logits must be 2-D, but got shape %s",
                       mf_shape_text(logits, a));
    if (labels->rank >= 0 && labels->rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "labels must be 1-D, but got shape %s",
                       mf_shape_text(labels, b));
    if (logits->rank == 2 && labels->rank == 1 && logits->dims[0] >= 0 && labels->dims[0] >= 0 &&
        logits->dims[0] != labels->dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "logits and labels must have the same first dimension, got logits shape %s "
                       "and labels shape %s",
                       mf_shape_text(logits, a), mf_shape_text(labels, b));
    if (logits->rank == 2 && logits->dims[1] == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Must have at least one class, but got logits shape %s",
                       mf_shape_text(logits, a));
    return MF_OK;
}

static mf_status softmax_sparse_infer(mf_infer *in)
{
    const mf_shape *logits = &in->in[0];
    int64_t rows = logits->rank == 2 ? logits->dims[0] : -1;

    MF_TRY(sparse_shapes(logits, &in->in[1]));
    if (rows < 0 && in->in[1].rank == 1)
        rows = in->in[1].dims[0];
    in->out[0] = MF_SHAPE(rows);
    in->out[1] = MF_SHAPE(rows, logits->rank == 2 ? logits->dims[1] : -1);
    return MF_OK;
}

static mf_status softmax_sparse_run(mf_kernel *k)
{
    const mf_tensor *labels = k->in[1];
    mf_tensor x = { 0 }, y = { 0 }, loss = { 0 }, *out_loss, *out_y;
    rows_job job = { 0 };
    mf_status st;

    MF_TRY(sparse_shapes(&k->in[0]->shape, &labels->shape));
    job.rows = labels->count;
    job.cols = k->in[0]->shape.dims[1];
    for (int64_t i = 0; i < labels->count; i++) {
        const int64_t label = mf_tensor_int_at(labels, i);

        if (label < 0 || label >= job.cols)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Received a label value of %lld which is outside the valid range of "
                           "[0, %lld). Label number %lld of %lld",
                           (long long)label, (long long)job.cols, (long long)i,
                           (long long)labels->count);
    }
    MF_TRY(mf_kernel_out(k, 0, &labels->shape, &out_loss));
    MF_TRY(mf_kernel_out(k, 1, &k->in[0]->shape, &out_y));
    MF_TRY_TO(done, mf_widen(k, k->in[0], &x));
    MF_TRY_TO(done, mf_widen_out(out_y, &y));
    MF_TRY_TO(done, mf_widen_out(out_loss, &loss));
    job.row = x.dtype == MF_DTYPE_F32 ? sparse_xent_f32 : sparse_xent_f64;
    job.logits = x.data;
    job.labels = labels->data;
    job.label_type = labels->dtype;
    job.out = y.data;
    job.loss = loss.data;
    MF_TRY_TO(done, softmax_run_rows(k, &job));
    mf_narrow(k, &y, out_y);
    mf_narrow(k, &loss, out_loss);
done:
    mf_tensor_clear(&x);
    mf_tensor_clear(&y);
    mf_tensor_clear(&loss);
    return st;
}

/* The gradient through both outputs: the second one is softmax - labels. */
static mf_output logits_grad(mf_grad *g, mf_output column)
{
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1),
                    two = mf_scalar(g->graph, MF_DTYPE_I32, 2);
    mf_output dx = { 0 }, softmax, dot;

    if (g->dy[0].node)
        dx = MF_G2("Mul", column, ((mf_output){ g->node, 1 }));
    if (!g->dy[1].node)
        return dx;
    softmax = MF_G1("Softmax", g->x[0]);
    dot = mf_applyf(g->graph, "Squeeze",
                    MF_IN(MF_G2("BatchMatMulV2", MF_G2("ExpandDims", g->dy[1], one),
                                MF_G2("ExpandDims", softmax, two))),
                    "squeeze_dims=[1]");
    softmax = MF_G2("Mul", MF_G2("Sub", g->dy[1], dot), softmax);
    return dx.node ? MF_G2("AddV2", dx, softmax) : softmax;
}

static mf_output loss_column(mf_grad *g)
{
    return g->dy[0].node ? MF_G2("ExpandDims", g->dy[0], mf_scalar(g->graph, MF_DTYPE_I32, -1))
                         : (mf_output){ 0 };
}

static mf_status xent_grad(mf_grad *g)
{
    const mf_output column = loss_column(g);

    g->dx[0] = logits_grad(g, column);
    if (column.node)
        g->dx[1] = MF_G2("Mul", column, MF_G1("Neg", MF_G1("LogSoftmax", g->x[0])));
    return MF_OK;
}

static mf_status softmax_sparse_grad(mf_grad *g)
{
    g->dx[0] = logits_grad(g, loss_column(g));
    return MF_OK;
}

/* Classes are not split. */
static void softmax_split(mf_split *s)
{
    mf_split_leading(s, s->in[0].rank - 1);
}

static void xent_split(mf_split *s)
{
    mf_split_text(s, "b.,b.->b,b.", MF_CUT_SUM);
}

static void sparse_split(mf_split *s)
{
    mf_split_text(s, "b.,b->b,b.", MF_CUT_SUM);
}

const mf_op mf_ops_softmax[] = {
    { .name = "Softmax",
      .rows = mf_rows_first,
      .def = "(logits:T) -> (softmax:T) {T:type in floats}",
      .flags = MF_OP_INPLACE,
      .infer = softmax_softmax_infer,
      .grad = softmax_softmax_grad,
      .run = softmax_softmax_run,
      .split = softmax_split,
      .samples = MF_SAMPLES("f32[3,5]", "f32[7]", "f32[2,3,37]@-40:60", "f64[2,9]", "f16[3,5]",
                            "bf16[3,20]", "f32[0,4]", "f32[3,0]", "f32[4,1]", "f32[] !fails") },
    { .name = "LogSoftmax",
      .rows = mf_rows_first,
      .def = "(logits:T) -> (logsoftmax:T) {T:type in floats}",
      .flags = MF_OP_INPLACE,
      .infer = softmax_softmax_infer,
      .grad = log_softmax_grad,
      .run = softmax_softmax_run,
      .split = softmax_split,
      .samples = MF_SAMPLES("f32[3,5]", "f32[7]", "f32[2,3,37]@-40:60", "f64[2,9]", "f16[3,5]",
                            "bf16[3,20]", "f32[0,4]", "f32[] !fails") },
    { .name = "SoftmaxCrossEntropyWithLogits",
      .rows = mf_rows_all,
      .def = "(features:T, labels:T) -> (loss:T, backprop:T) {T:type in floats}",
      .infer = xent_infer,
      .grad = xent_grad,
      .run = xent_run,
      .split = xent_split,
      .samples = MF_SAMPLES(
          "f64[2,3] f64[2,3]{0.2,0.3,0.5,1,0,0}~", "f32[2,3] f32[2,3]{0.25,0.25,0.5,0,0,1}~",
          "f32[3,5] f32[3,5]@0:1~ !nograd", "f64[4,20] f64[4,20]@0:1~ !nograd",
          "f32[3,5] f32[1,5]@0:1~ !nograd", "f32[3,1] f32[3,5]@0:1~ !nograd",
          "f16[3,5] f16[3,5]@0:1~ !nograd", "bf16[3,5] bf16[3,5]@0:1~ !nograd", "f32[0,5] f32[0,5]",
          "f32[3,5] f32[2,5] !fails", "f32[5] f32[5] !fails") },
    { .name = "SparseSoftmaxCrossEntropyWithLogits",
      .rows = mf_rows_all,
      .def = "(features:T, labels:Tlabels) -> (loss:T, backprop:T) {T:type in floats, "
             "Tlabels:type=int64 in index}",
      .infer = softmax_sparse_infer,
      .grad = softmax_sparse_grad,
      .run = softmax_sparse_run,
      .split = sparse_split,
      .samples = MF_SAMPLES("f32[3,5] i32[3]@0:5", "f64[4,20] i64[4]@0:20", "f16[3,5] i32[3]@0:5",
                            "bf16[3,5] i64[3]@0:5", "f32[0,5] i32[0]",
                            "f32[2,5] i32[2]{1,5} !fails", "f32[2,5] i64[2]{-1,0} !fails",
                            "f32[2,5] i32[3]@0:5 !fails", "f32[2] i32[2]@0:2 !fails") },
    { 0 },
};
