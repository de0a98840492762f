/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c - runs elementwise loops over broadcast tensors. */
#include "ops/math/elementwise.h"

mf_status mf_loop_infer(mf_infer *in)
{
    mf_shape shape = in->in[0];

    for (int i = 1; i < in->n_in; i++)
        MF_TRY(mf_shape_broadcast(&shape, &in->in[i], &shape));
    in->out[0] = shape;
    return MF_OK;
}

/* Stride of each dimension of `out` in an input of shape `in`; 0 if it is repeated. */
static void input_strides(const mf_shape *out, const mf_shape *in, int64_t *stride)
{
    int64_t step = 1;

    for (int d = out->rank - 1; d >= 0; d--) {
        const int di = d - (out->rank - in->rank);
        const int64_t dim = di >= 0 ? in->dims[di] : 1;

        stride[d] = dim == 1 ? 0 : step;
        step *= dim;
    }
}

void mf_broadcast_init(mf_broadcast *b, const mf_shape *out, const mf_shape *const *in, int n_in)
{
    int64_t full[MF_BROADCAST_INPUTS][MF_MAX_RANK];
    int rank = 0;

    for (int j = 0; j < n_in; j++)
        input_strides(out, in[j], full[j]);
    for (int d = out->rank - 1; d >= 0; d--) {
        bool merge = rank > 0;

        if (out->dims[d] == 1)
            continue;
        /* Merge with the next inner dimension if both are contiguous in every input. */
        for (int j = 0; merge && j < n_in; j++)
            merge = full[j][d] == b->stride[j][rank - 1] * b->dims[rank - 1] &&
                    (full[j][d] == 0) == (b->stride[j][rank - 1] == 0);
        if (merge) {
            b->dims[rank - 1] *= out->dims[d];
            continue;
        }
        b->dims[rank] = out->dims[d];
        for (int j = 0; j < n_in; j++)
            b->stride[j][rank] = full[j][d];
        rank++;
    }
    if (rank == 0)
        b->dims[rank++] = 1;
    b->rank = rank;
    for (int i = 0; i < rank / 2; i++) { /* reverse: they were added innermost first */
        const int o = rank - 1 - i;
        int64_t t = b->dims[i];

        b->dims[i] = b->dims[o];
        b->dims[o] = t;
        for (int j = 0; j < n_in; j++) {
            t = b->stride[j][i];
            b->stride[j][i] = b->stride[j][o];
            b->stride[j][o] = t;
        }
    }
}

typedef struct loop_job {
    mf_span_fn *fn;
    mf_broadcast b;
    const char *in[3];
    char *out;
    size_t in_size[3], out_size;
    int arity;
    double param;
    int64_t inner, rows; /* innermost length; number of innermost rows */
    int64_t rows_per_piece, cuts; /* several rows per piece, or several pieces per row */
} loop_job;

/* Elements [from, to) of innermost row `row`. */
static void run_row(const loop_job *job, int64_t row, int64_t from, int64_t to)
{
    const mf_broadcast *b = &job->b;
    mf_span s = { .n = to - from, .param = job->param };
    int64_t rest = row, offset[3] = { 0 };

    for (int d = b->rank - 2; d >= 0; d--) {
        const int64_t i = rest % b->dims[d];

        rest /= b->dims[d];
        for (int j = 0; j < job->arity; j++)
            offset[j] += i * b->stride[j][d];
    }
    for (int j = 0; j < job->arity; j++) {
        const int64_t step = b->stride[j][b->rank - 1];

        s.in[j] = job->in[j] + (size_t)(offset[j] + from * step) * job->in_size[j];
        s.scalar[j] = step == 0;
    }
    s.out = job->out + (size_t)(row * job->inner + from) * job->out_size;
    job->fn(&s);
}

static void elementwise_run_piece(void *ctx, int64_t piece)
{
    const loop_job *job = ctx;

    if (job->cuts > 1) {
        const int64_t row = piece / job->cuts, cut = piece % job->cuts;
        const int64_t to = (cut + 1) * MF_LOOP_GRAIN;

        run_row(job, row, cut * MF_LOOP_GRAIN, to < job->inner ? to : job->inner);
    } else {
        const int64_t end = (piece + 1) * job->rows_per_piece;

        for (int64_t row = piece * job->rows_per_piece; row < end && row < job->rows; row++)
            run_row(job, row, 0, job->inner);
    }
}

static mf_status unsupported(const mf_kernel *k, mf_dtype t)
{
    return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                   mf_dtype_name(t));
}

static mf_status elementwise_run_all(const mf_kernel *k, loop_job *job, const mf_tensor *out)
{
    int64_t pieces;

    job->inner = job->b.dims[job->b.rank - 1];
    job->rows = out->count / job->inner;
    job->cuts = (job->inner + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN;
    job->rows_per_piece = job->cuts > 1 ? 1 : MF_LOOP_GRAIN / job->inner;
    pieces = job->cuts > 1 ? job->rows * job->cuts
                           : (job->rows + job->rows_per_piece - 1) / job->rows_per_piece;
    return mf_kernel_parallel(k, pieces, elementwise_run_piece, job);
}

/* One element: the fast path without setup. */
static void run_single(const mf_kernel *k, const mf_loop *loop, mf_span_fn *fn, double param,
                       mf_tensor *out)
{
    mf_span s = { .out = out->data, .n = 1, .param = param };

    for (int j = 0; j < loop->arity; j++)
        s.in[j] = k->in[j]->data;
    fn(&s);
}

static mf_status run_many(const mf_kernel *k, const mf_loop *loop, mf_span_fn *fn, double param,
                          mf_tensor *out)
{
    const mf_shape *shapes[3] = { NULL };
    loop_job job;

    job.fn = fn;
    job.arity = loop->arity;
    job.param = param;
    job.out = out->data;
    job.out_size = mf_dtype_cell(out->dtype);
    for (int j = 0; j < loop->arity; j++) {
        shapes[j] = &k->in[j]->shape;
        job.in[j] = k->in[j]->data;
        job.in_size[j] = mf_dtype_cell(k->in[j]->dtype);
    }
    mf_broadcast_init(&job.b, &out->shape, shapes, loop->arity);
    return elementwise_run_all(k, &job, out);
}

mf_status mf_loop_run(mf_kernel *k)
{
    const mf_loop *loop = k->def->loop;
    const mf_dtype type = k->in[loop->arity - 1]->dtype;
    mf_span_fn *fn = loop->fn[type];
    double param = 0;
    mf_shape shape;
    const mf_shape *s = &k->in[0]->shape;
    mf_tensor *out;

    if (!fn)
        return unsupported(k, type);
    for (int j = 1; j < loop->arity; j++) {
        if (!mf_shape_equal(s, &k->in[j]->shape)) {
            MF_TRY(mf_shape_broadcast(s, &k->in[j]->shape, &shape));
            s = &shape;
        }
    }
    MF_TRY(mf_kernel_out(k, 0, s, &out));
    if (loop->param)
        param = (double)mf_node_float(k->node, loop->param);
    if (out->count == 1)
        run_single(k, loop, fn, param, out);
    else if (out->count > 0)
        return run_many(k, loop, fn, param, out);
    return MF_OK;
}
