/* SPDX-License-Identifier: Apache-2.0 */
/* patches.c - ExtractImagePatches: the contents of a window at each position, as channels. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/nn/window.h"

#include <string.h>

enum { GRAIN = 65536 }; /* bytes of the output per piece */

static mf_status patch_attrs(const mf_node *node, mf_window_attrs *a)
{
    int64_t n_sizes, n_strides, n_rates;
    const int64_t *sizes = mf_node_ints(node, "ksizes", &n_sizes);
    const int64_t *strides = mf_node_ints(node, "strides", &n_strides);
    const int64_t *rates = mf_node_ints(node, "rates", &n_rates);
    const bool same = strcmp(mf_node_string(node, "padding"), "SAME") == 0;

    *a = (mf_window_attrs){ .nd = 2, .padding = same ? MF_PAD_SAME : MF_PAD_VALID };
    if (n_sizes != 4 || n_strides != 4 || n_rates != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "ksizes, strides and rates need 4 numbers each, got %lld, %lld and %lld",
                       (long long)n_sizes, (long long)n_strides, (long long)n_rates);
    for (int d = 0; d < 4; d++) {
        const int64_t least = sizes[d] < strides[d] ? sizes[d] : strides[d];

        if (least < 1 || rates[d] < 1)
            return MF_FAIL(MF_OUT_OF_RANGE, "ksizes, strides or rates [%d] is %lld", d,
                           (long long)(least < rates[d] ? least : rates[d]));
    }
    MF_TRY(mf_window_set_pool(a, sizes, strides));
    if (a->channel_size != 1 || a->channel_stride != 1 || rates[0] != 1 || rates[3] != 1)
        return MF_FAIL(MF_UNIMPLEMENTED, "windows over batch and depth are not supported");
    for (int d = 0; d < 2; d++) {
        a->dilation[d] = rates[d + 1];
        if (rates[d + 1] > INT32_MAX)
            return MF_FAIL(MF_OUT_OF_RANGE, "rates[%d] = %lld does not fit 32 bits", d + 1,
                           (long long)rates[d + 1]);
    }
    return MF_OK;
}

static mf_status patch_prepare(mf_prepare *p)
{
    mf_window_attrs *a = MF_ARENA_NEW(p->arena, mf_window_attrs);

    if (!a)
        return MF_NOMEM("a window");
    p->state = a;
    return patch_attrs(p->node, a);
}

static mf_status patch_shape(const mf_window_attrs *a, const mf_shape *in, mf_shape *out)
{
    int64_t spatial[MF_WINDOW_DIMS], depth = in->dims[3], lo, hi;

    for (int d = 0; d < 2; d++)
        MF_TRY(mf_window_length(a, d, in->dims[d + 1], a->size[d], &spatial[d], &lo, &hi));
    if (depth >= 0 &&
        (!mf_mul_i64(depth, a->size[0], &depth) || !mf_mul_i64(depth, a->size[1], &depth)))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a patch of %lld x %lld x %lld elements is too large",
                       (long long)a->size[0], (long long)a->size[1], (long long)in->dims[3]);
    *out = mf_window_shape(a, in->dims[0], spatial, depth);
    return MF_OK;
}

static mf_status patch_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(patch_attrs(in->node, &a));
    MF_TRY(mf_infer_rank(in, 0, 4));
    if (in->in[0].rank == 4)
        return patch_shape(&a, &in->in[0], &in->out[0]);
    in->out[0] = MF_SHAPE(-1, -1, -1, -1);
    return MF_OK;
}

/* ---- kernel ---- */

typedef struct patch_job {
    mf_window w;
    const char *x;
    char *out;
    size_t pixel; /* bytes of all channels of one pixel */
    int64_t rows, rows_per_piece; /* a row: all patches of one image row */
} patch_job;

/* Row `row` of a window at column `left`; zeros outside the image. */
static char *patches_copy_row(const patch_job *job, int64_t image, int64_t row, int64_t left,
                              char *out)
{
    const mf_window *w = &job->w;
    const bool inside = row >= 0 && row < w->in[0];

    for (int64_t k = 0; k < w->size[1]; k++, out += job->pixel) {
        const int64_t col = left + k * w->dilation[1];

        if (inside && col >= 0 && col < w->in[1])
            memcpy(out, job->x + (size_t)((image * w->in[0] + row) * w->in[1] + col) * job->pixel,
                   job->pixel);
        else
            memset(out, 0, job->pixel);
    }
    return out;
}

static void patch_piece(void *ctx, int64_t piece)
{
    const patch_job *job = ctx;
    const mf_window *w = &job->w;
    const int64_t from = piece * job->rows_per_piece, next = from + job->rows_per_piece;
    const size_t patch = (size_t)(w->size[0] * w->size[1]) * job->pixel;

    for (int64_t r = from; r < next && r < job->rows; r++) {
        const int64_t image = r / w->out[0], top = r % w->out[0] * w->stride[0] - w->pad_lo[0];
        char *out = job->out + (size_t)(r * w->out[1]) * patch;

        for (int64_t c = 0; c < w->out[1]; c++)
            for (int64_t k = 0; k < w->size[0]; k++)
                out = patches_copy_row(job, image, top + k * w->dilation[0],
                                       c * w->stride[1] - w->pad_lo[1], out);
    }
}

static mf_status patch_run(mf_kernel *k)
{
    const mf_window_attrs *a = k->state;
    const mf_tensor *x = k->in[0];
    patch_job job = { .x = x->data };
    char text[MF_SHAPE_TEXT];
    mf_shape shape;
    mf_tensor *out;
    size_t row;

    if (x->shape.rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be 4-dimensional, got %s",
                       mf_shape_text(&x->shape, text));
    MF_TRY(patch_shape(a, &x->shape, &shape));
    MF_TRY(mf_window_init(a, &x->shape, a->size, &job.w));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    job.out = out->data;
    job.pixel = (size_t)job.w.channels * mf_dtype_cell(x->dtype);
    job.rows = job.w.batch * job.w.out[0];
    row = (size_t)(out->count / job.rows) * mf_dtype_cell(x->dtype);
    job.rows_per_piece = row < GRAIN ? (int64_t)(GRAIN / row) : 1;
    return mf_kernel_parallel(k, (job.rows + job.rows_per_piece - 1) / job.rows_per_piece,
                              patch_piece, &job);
}

/* ---- gradient ---- */

static mf_output slice1(mf_grad *g, mf_output vector, int64_t from, int64_t n)
{
    return MF_G3("Slice", vector, mf_ints(g->graph, &from, 1), mf_ints(g->graph, &n, 1));
}

static mf_output as_sizes(mf_grad *g, mf_output a, mf_output b, mf_output c, mf_output d)
{
    return mf_apply(g->graph, "ConcatV2", MF_IN(a, b, c, d, mf_scalar(g->graph, MF_DTYPE_I32, 0)));
}

/* Patches of a single channel are a convolution with one filter per position of the window, which
 * is 1 there and 0 elsewhere. Its gradient adds every element to its pixel. */
static mf_output patches_put_back(mf_grad *g, const mf_window_attrs *a, mf_output dy)
{
    const int64_t n = a->size[0] * a->size[1];
    const mf_output places = mf_ints(g->graph, &n, 1), none = mf_ints(g->graph, NULL, 0);
    const mf_output one = mf_ints(g->graph, (int64_t[]){ 1 }, 1);
    const mf_output shape = MF_G1("Shape", g->x[0]), dy_shape = MF_G1("Shape", dy);
    const mf_output batch = slice1(g, shape, 0, 1), area = slice1(g, shape, 1, 2),
                    channels = slice1(g, shape, 3, 1);
    const mf_output images = MF_G2("Mul", batch, channels);
    mf_output filter = MF_G1("MatrixDiag", MF_G2("Fill", places, mf_grad_scalar(g, dy, 1)));
    mf_output dx;

    filter =
        MF_G2("Reshape", filter, mf_ints(g->graph, (int64_t[]){ a->size[0], a->size[1], 1, n }, 4));
    /* [batch, rows, cols, positions, channels] -> [batch * channels, rows, cols, positions] */
    dy = MF_G2("Reshape", dy, as_sizes(g, slice1(g, dy_shape, 0, 3), places, channels, none));
    dy = MF_G2("Transpose", dy, mf_ints(g->graph, (int64_t[]){ 0, 4, 1, 2, 3 }, 5));
    dy = MF_G2("Reshape", dy, as_sizes(g, images, slice1(g, dy_shape, 1, 2), places, none));
    dx = mf_applyf(g->graph, "Conv2DBackpropInput",
                   MF_IN(as_sizes(g, images, area, one, none), filter, dy),
                   "strides=[1,%lld,%lld,1] dilations=[1,%lld,%lld,1] padding='%s'",
                   (long long)a->stride[0], (long long)a->stride[1], (long long)a->dilation[0],
                   (long long)a->dilation[1], mf_node_string(g->node, "padding"));
    dx = MF_G2("Reshape", dx, as_sizes(g, batch, channels, area, none));
    return MF_G2("Transpose", dx, mf_ints(g->graph, (int64_t[]){ 0, 2, 3, 1 }, 4));
}

static mf_status patch_grad(mf_grad *g)
{
    const mf_dtype type = mf_grad_type(g->x[0]);
    const char *part = type == MF_DTYPE_C64 ? "float" : "double";
    mf_window_attrs a;

    MF_TRY(patch_attrs(g->node, &a));
    if (!mf_dtype_is_complex(type)) {
        g->dx[0] = patches_put_back(g, &a, g->dy[0]);
        return MF_OK;
    }
    g->dx[0] = MF_G2(
        "Complex",
        patches_put_back(g, &a, mf_applyf(g->graph, "Real", MF_IN(g->dy[0]), "Tout=%s", part)),
        patches_put_back(g, &a, mf_applyf(g->graph, "Imag", MF_IN(g->dy[0]), "Tout=%s", part)));
    return MF_OK;
}

const mf_op mf_op_extract_image_patches = {
    .name = "ExtractImagePatches",
    .def = "(images:T) -> (patches:T) {ksizes:list(int)>=4, strides:list(int)>=4, "
           "rates:list(int)>=4, T:type in [bfloat16,half,float,double,int8,int16,int32,int64,uint8,"
           "uint16,uint32,uint64,complex64,complex128,bool], padding:string in ['SAME','VALID']}",
    .infer = patch_infer,
    .grad = patch_grad,
    .prepare = patch_prepare,
    .run = patch_run,
    .samples = MF_SAMPLES(
        "f32[2,5,6,3] ; ksizes=[1,3,2,1] strides=[1,2,1,1] rates=[1,1,1,1] padding='SAME'",
        "f64[1,7,8,2] ; ksizes=[1,2,3,1] strides=[1,1,2,1] rates=[1,2,3,1] padding='VALID'",
        "f16[1,4,4,1] ; ksizes=[1,2,2,1] strides=[1,2,2,1] rates=[1,1,1,1] padding='SAME'",
        "i32[1,4,4,2] ; ksizes=[1,3,3,1] strides=[1,1,1,1] rates=[1,1,1,1] padding='SAME'",
        "c64[1,3,3,1] ; ksizes=[1,2,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding='VALID'",
        "f32[0,4,4,2] ; ksizes=[1,2,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding='VALID'",
        "f32[4,4,2] ; ksizes=[1,2,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding='VALID' !fails",
        "f32[1,4,4,2] ; ksizes=[1,0,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding='VALID' !fails",
        "f32[1,4,4,2] ; ksizes=[1,2,2,2] strides=[1,1,1,1] rates=[1,1,1,1] padding='VALID' !fails"),
};
