/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c - convolutions over two and three spatial dimensions and their gradients. 16-bit floats
 * are computed in float, or bfloat16 by its own instructions. */
#include "graph/rows.h"
#include "ops/control/grad_util.h"
#include "ops/math/fused.h"
#include "ops/nn/conv_run.h"
#include "ops/nn/window_grad.h"
#include "ops/nn/window_split.h"
#include "ops/quant/widen.h"

#include <string.h>

typedef struct conv_state {
    mf_window_attrs attrs;
    int64_t shards; /* shards of the batch, for the filter's gradient; 0: none */
} conv_state;

/* Number of spatial dimensions. */
static int conv_dims_of(const mf_node *node)
{
    return strstr(node->op_name, "3D") ? 3 : 2;
}

static mf_conv_kind conv_kind_of(const mf_node *node)
{
    if (strstr(node->op_name, "BackpropInput"))
        return MF_CONV_INPUT;
    return strstr(node->op_name, "BackpropFilter") ? MF_CONV_FILTER : MF_CONV_FORWARD;
}

static mf_status conv_prepare(mf_prepare *p)
{
    conv_state *s = MF_ARENA_NEW(p->arena, conv_state);

    if (!s)
        return MF_NOMEM("a convolution");
    MF_TRY(mf_window_read(p->node, conv_dims_of(p->node), &s->attrs));
    s->shards = mf_node_int(p->node, "_shards");
    p->state = s;
    return MF_OK;
}

/* ---- shapes ---- */

/* Groups and output channels of input and filter; unknown dimensions give unknown results. */
static mf_status conv_check_channels(const mf_window_attrs *a, const mf_shape *x, const mf_shape *w,
                                     int64_t *groups, int64_t *out)
{
    const int64_t in = x->dims[mf_window_axis(a, a->nd + 1)], per_group = w->dims[a->nd];

    *out = w->dims[a->nd + 1];
    *groups = -1;
    if (in < 0 || per_group < 0)
        return MF_OK;
    if (per_group == 0 && in == 0) {
        *groups = 1;
        return MF_OK;
    }
    if (per_group == 0 || in % per_group != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "input depth must be evenly divisible by filter depth: %lld vs %lld",
                       (long long)in, (long long)per_group);
    *groups = in / per_group > 0 ? in / per_group : 1;
    if (*out >= 0 && *out % *groups != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "output depth must be evenly divisible by number of groups: %lld vs %lld",
                       (long long)*out, (long long)*groups);
    return MF_OK;
}

static mf_status conv_check_rank(const mf_shape *s, int rank, const char *what)
{
    char text[MF_SHAPE_TEXT];

    if (s->rank >= 0 && s->rank != rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be %d-dimensional: %s", what, rank,
                       mf_shape_text(s, text));
    return MF_OK;
}

static mf_status conv_infer(mf_infer *in)
{
    int64_t spatial[MF_WINDOW_DIMS], groups, out, lo, hi;
    const mf_shape *x = &in->in[0], *w = &in->in[1];
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, conv_dims_of(in->node), &a));
    MF_TRY(conv_check_rank(x, a.nd + 2, "input"));
    MF_TRY(conv_check_rank(w, a.nd + 2, "filter"));
    if (x->rank < 0 || w->rank < 0) {
        in->out[0] = MF_SHAPE(-1, -1, -1, -1, -1);
        in->out[0].rank = a.nd + 2;
        return MF_OK;
    }
    MF_TRY(conv_check_channels(&a, x, w, &groups, &out));
    for (int d = 0; d < a.nd; d++)
        MF_TRY(mf_window_length(&a, d, x->dims[mf_window_axis(&a, d + 1)], w->dims[d], &spatial[d],
                                &lo, &hi));
    in->out[0] = mf_window_shape(&a, x->dims[0], spatial, out);
    return MF_OK;
}

/* Gradients: the shape is the value of input 0 (for the input) or 1 (for the filter). */
static mf_status conv_backprop_infer(mf_infer *in)
{
    const int nd = conv_dims_of(in->node), sizes = conv_kind_of(in->node) == MF_CONV_INPUT ? 0 : 1;
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, nd, &a));
    MF_TRY(mf_infer_shape_input(in, sizes, &in->out[0]));
    if (in->out[0].rank == 2 && nd == 2 && sizes == 0) /* height and width only */
        in->out[0] = MF_SHAPE(-1, -1, -1, -1);
    return conv_check_rank(&in->out[0], nd + 2, "the shape given");
}

/* Input or filter sizes as a shape. Two values for the input of a Conv2D: height and width. */
static mf_status conv_read_sizes(const conv_state *s, const mf_tensor *sizes,
                                 const mf_shape *filter, const mf_shape *dy, mf_shape *out)
{
    int64_t dims[MF_MAX_RANK];
    int64_t count;

    if (sizes->shape.rank != 1 ||
        (sizes->count != s->attrs.nd + 2 && !(filter && s->attrs.nd == 2 && sizes->count == 2)))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the sizes must be a vector of %d integers",
                       s->attrs.nd + 2);
    for (int i = 0; i < sizes->count; i++)
        dims[i] = mf_tensor_int_at(sizes, i);
    if (filter && sizes->count == 2)
        *out = mf_window_shape(&s->attrs, dy->dims[0], dims, filter->dims[s->attrs.nd]);
    else
        MF_TRY(mf_shape_from_dims(dims, sizes->count, out));
    return mf_shape_count(out, &count);
}

/* Initializes from the shapes of input and filter; y must match (NULL: not known yet). */
static mf_status conv_init(const conv_state *s, mf_conv_kind kind, const mf_shape *x,
                           const mf_shape *w, const mf_shape *y, mf_conv *c)
{
    const mf_window_attrs *a = &s->attrs;
    char got[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    mf_shape expected;
    int64_t count;

    memset(c, 0, sizeof *c);
    c->kind = kind;
    MF_TRY(conv_check_rank(x, a->nd + 2, "input"));
    MF_TRY(conv_check_rank(w, a->nd + 2, "filter"));
    MF_TRY(conv_check_channels(a, x, w, &c->groups, &c->out_channels));
    MF_TRY(mf_window_init(a, x, w->dims, &c->window));
    expected = mf_window_shape(a, c->window.batch, c->window.out, c->out_channels);
    MF_TRY(mf_shape_count(&expected, &count));
    if (y && !mf_shape_equal(y, &expected))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                       mf_shape_text(y, got), mf_shape_text(&expected, want));
    return MF_OK;
}

/* ---- kernels ---- */

/* Operands in the order input, filter, output; `result` is the one to compute. */
static mf_status conv_run_wide(mf_kernel *k, const mf_conv *c, const mf_tensor *const operand[3],
                               int result, mf_tensor *out)
{
    const bool halves = out->dtype == MF_DTYPE_BF16 && mf_conv_reads_bf16(c);
    const conv_state *s = k->state;
    mf_tensor wide[3] = { { 0 } };
    mf_status st = MF_OK;

    for (int i = 0; i < 3; i++) {
        if (halves && !(i == result && c->kind == MF_CONV_FILTER))
            mf_tensor_set(&wide[i], i == result ? out : operand[i]);
        else if (i == result)
            MF_TRY_TO(done, mf_widen_out(out, &wide[i]));
        else
            MF_TRY_TO(done, mf_widen(k, operand[i], &wide[i]));
    }
    MF_TRY_TO(done, mf_conv_run(k, c, s->shards, &wide[0], &wide[1], &wide[2]));
    if (wide[result].dtype != out->dtype)
        mf_narrow(k, &wide[result], out);
done:
    for (int i = 0; i < 3; i++)
        mf_tensor_clear(&wide[i]);
    return st;
}

static mf_status conv_run(mf_kernel *k)
{
    const mf_tensor *const operand[3] = { k->in[0], k->in[1], NULL };
    const conv_state *s = k->state;
    mf_tensor *out;
    mf_shape shape;
    mf_conv c;

    MF_TRY(conv_init(s, MF_CONV_FORWARD, &k->in[0]->shape, &k->in[1]->shape, NULL, &c));
    shape = mf_window_shape(&s->attrs, c.window.batch, c.window.out, c.out_channels);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return conv_run_wide(k, &c, operand, 2, out);
}

static mf_status backprop_run(mf_kernel *k)
{
    const mf_conv_kind kind = conv_kind_of(k->node);
    const bool to_input = kind == MF_CONV_INPUT;
    const mf_tensor *const operand[3] = { to_input ? NULL : k->in[0], to_input ? k->in[1] : NULL,
                                          k->in[2] };
    const mf_shape *dy = &k->in[2]->shape, *filter = to_input ? &k->in[1]->shape : NULL;
    const conv_state *s = k->state;
    mf_shape given;
    mf_tensor *out;
    mf_conv c;

    if (filter)
        MF_TRY(conv_check_rank(filter, s->attrs.nd + 2, "filter"));
    MF_TRY(conv_check_rank(dy, s->attrs.nd + 2, "out_backprop"));
    MF_TRY(conv_read_sizes(s, k->in[to_input ? 0 : 1], filter, dy, &given));
    MF_TRY(
        conv_init(s, kind, filter ? &given : &k->in[0]->shape, filter ? filter : &given, dy, &c));
    MF_TRY(mf_kernel_out(k, 0, &given, &out));
    return conv_run_wide(k, &c, operand, to_input ? 0 : 1, out);
}

/* ---- gradients ---- */

static const char *op_named(const mf_node *node, mf_conv_kind kind)
{
    static const char *const names[2][3] = {
        { "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter" },
        { "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2" },
    };

    return names[conv_dims_of(node) == 3][kind];
}

static mf_output conv_apply(mf_grad *g, mf_conv_kind kind, const mf_output *inputs)
{
    return mf_window_apply(g, op_named(g->node, kind), inputs);
}

static mf_status conv_grad(mf_grad *g)
{
    g->dx[0] = conv_apply(g, MF_CONV_INPUT, MF_IN(MF_G1("Shape", g->x[0]), g->x[1], g->dy[0]));
    g->dx[1] = conv_apply(g, MF_CONV_FILTER, MF_IN(g->x[0], MF_G1("Shape", g->x[1]), g->dy[0]));
    return MF_OK;
}

static mf_status conv_input_grad(mf_grad *g)
{
    g->dx[1] = conv_apply(g, MF_CONV_FILTER, MF_IN(g->dy[0], MF_G1("Shape", g->x[1]), g->x[2]));
    g->dx[2] = conv_apply(g, MF_CONV_FORWARD, MF_IN(g->dy[0], g->x[1]));
    return MF_OK;
}

static mf_status conv_filter_grad(mf_grad *g)
{
    g->dx[0] = conv_apply(g, MF_CONV_INPUT, MF_IN(MF_G1("Shape", g->x[0]), g->dy[0], g->x[2]));
    g->dx[2] = conv_apply(g, MF_CONV_FORWARD, MF_IN(g->x[0], g->dy[0]));
    return MF_OK;
}

#define ATTRS_2D                                                                                   \
    "strides:list(int), use_cudnn_on_gpu:bool=true, padding:string in "                            \
    "['SAME','VALID','EXPLICIT'], "                                                                \
    "explicit_paddings:list(int)=[], data_format:string='NHWC' in ['NHWC','NCHW'], "               \
    "dilations:list(int)=[1,1,1,1]}"
#define ATTRS_3D                                                                                   \
    "strides:list(int)>=5, padding:string in ['SAME','VALID'], data_format:string='NDHWC' in "     \
    "['NDHWC','NCDHW'], dilations:list(int)=[1,1,1,1,1]"
#define CONV_OP(ROWS, NAME, DEF, FLAGS, INFER, RUN, GRAD, ...)                                     \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = GRAD,      \
        .prepare = conv_prepare, .run = RUN, .split = mf_conv_split,                               \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_conv[] = {
    CONV_OP(mf_rows_first, "Conv2D",
            "(input:T, filter:T) -> (output:T) {T:type in "
            "[half,bfloat16,float,double,int32], " ATTRS_2D,
            MF_OP_THEN, conv_infer, conv_run, conv_grad,
            "f32[2,5,6,3] f32[3,3,3,4] ; strides=[1,1,1,1] padding='SAME'",
            "f32[2,5,6,3] f32[3,2,3,4] ; strides=[1,2,2,1] padding='VALID'",
            "f32[1,7,7,1] f32[3,3,1,5] ; strides=[1,1,1,1] padding='SAME' dilations=[1,2,2,1]",
            "f32[2,5,6,2] f32[3,3,2,2] ; strides=[1,1,2,1] padding='EXPLICIT' "
            "explicit_paddings=[0,0,1,2,0,1,0,0]",
            "f32[2,3,5,6] f32[3,3,3,4] ; strides=[1,1,1,1] padding='SAME' data_format='NCHW' !notf",
            "f32[2,5,6,4] f32[3,3,2,6] ; strides=[1,1,1,1] padding='SAME'",
            "f64[2,5,6,3] f64[3,3,3,4] ; strides=[1,2,2,1] padding='SAME'",
            "f64[1,4,4,4] f64[2,2,2,4] ; strides=[1,1,1,1] padding='VALID'",
            "f16[1,4,4,2] f16[3,3,2,2] ; strides=[1,1,1,1] padding='SAME'",
            "bf16[1,4,4,2] bf16[3,3,2,2] ; strides=[1,1,1,1] padding='SAME'",
            "i32[1,4,4,2] i32[3,3,2,2] ; strides=[1,1,1,1] padding='SAME'",
            "f32[1,1,1,8] f32[1,1,8,16] ; strides=[1,1,1,1] padding='VALID'",
            "f32[40,9,9,8] f32[3,3,8,8] ; strides=[1,1,1,1] padding='SAME' !nograd",
            "f32[0,5,6,3] f32[3,3,3,4] ; strides=[1,1,1,1] padding='SAME'",
            "f32[1,2,2,1] f32[3,3,1,1] ; strides=[1,1,1,1] padding='VALID' !notf",
            "f32[1,5,5,3] f32[3,3,2,4] ; strides=[1,1,1,1] padding='SAME' !fails",
            "f32[5,5,3] f32[3,3,3,4] ; strides=[1,1,1,1] padding='SAME' !fails",
            "f32[1,1,1,4] f32[2,2,4,1] ; strides=[1,1,1,1] padding='SAME' "
            "dilations=[1,2147483647,2147483647,1] !notf !nograd",
            "f32[1,1,1,4] f32[1,1,4,2] ; strides=[1,2147483647,2147483647,1] padding='EXPLICIT' "
            "explicit_paddings=[0,0,2147483647,0,2147483647,0,0,0] !notf !nograd",
            "f32[1,5,5,3] f32[3,3,3,4] ; strides=[1,0,1,1] padding='SAME' !fails"),
    CONV_OP(
        mf_rows_last, "Conv2DBackpropInput",
        "(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) {T:type in [half,bfloat16,"
        "float,double,int32], " ATTRS_2D,
        MF_OP_THEN, conv_backprop_infer, backprop_run, conv_input_grad,
        "i32[4]{2,5,6,3} f32[3,3,3,4] f32[2,5,6,4] ; strides=[1,1,1,1] padding='SAME'",
        "i32[4]{2,5,6,8} f32[3,2,8,4] f32[2,2,3,4] ; strides=[1,2,2,1] padding='VALID'",
        "i32[4]{2,5,6,3} f64[3,3,3,4] f64[2,3,3,4] ; strides=[1,2,2,1] padding='SAME'",
        "i32[4]{2,9,7,6} bf16[3,3,6,20] bf16[2,5,4,20] ; strides=[1,2,2,1] padding='SAME' !nograd "
        "!notf",
        "i32[4]{1,7,7,5} f32[3,3,5,5] f32[1,7,7,5] ; strides=[1,1,1,1] padding='SAME' "
        "dilations=[1,2,2,1] !notf",
        "i32[4]{2,3,5,6} f32[3,3,3,4] f32[2,4,5,6] ; strides=[1,1,1,1] padding='SAME' "
        "data_format='NCHW' !notf",
        "i32[4]{0,5,6,3} f32[3,3,3,4] f32[0,5,6,4] ; strides=[1,1,1,1] padding='SAME'",
        "i32[4]{2,5,6,3} f32[3,3,3,4] f32[2,5,5,4] ; strides=[1,1,1,1] padding='SAME' !fails",
        "i32[4]{2,5,-6,3} f32[3,3,3,4] f32[2,5,5,4] ; strides=[1,1,1,1] padding='SAME' !fails"),
    CONV_OP(
        NULL, "Conv2DBackpropFilter",
        "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) {T:type in floats, " ATTRS_2D,
        0, conv_backprop_infer, backprop_run, conv_filter_grad,
        "f32[2,5,6,3] i32[4]{3,3,3,4} f32[2,5,6,4] ; strides=[1,1,1,1] padding='SAME'",
        "f32[2,5,6,8] i32[4]{3,2,8,4} f32[2,2,3,4] ; strides=[1,2,2,1] padding='VALID'",
        "f64[2,5,6,3] i32[4]{3,3,3,4} f64[2,3,3,4] ; strides=[1,2,2,1] padding='SAME'",
        "bf16[3,9,7,5] i32[4]{3,3,5,20} bf16[3,9,7,20] ; strides=[1,1,1,1] padding='SAME' !nograd "
        "!notf",
        "f32[1,1,1,4] i32[4]{2,2,4,1} f32[1,1,1,1] ; strides=[1,1,1,1] padding='SAME' "
        "dilations=[1,2147483647,2147483647,1] !notf !nograd",
        "f32[2,3,5,6] i32[4]{3,3,3,4} f32[2,4,5,6] ; strides=[1,1,1,1] padding='SAME' "
        "data_format='NCHW' !notf",
        "f32[70,9,9,8] i32[4]{3,3,8,8} f32[70,9,9,8] ; strides=[1,1,1,1] padding='SAME' !nograd "
        "!tol:1e-3",
        "f32[0,5,6,3] i32[4]{3,3,3,4} f32[0,5,6,4] ; strides=[1,1,1,1] padding='SAME'",
        "f32[2,5,6,3] i32[4]{3,3,3,4} f32[2,5,6,5] ; strides=[1,1,1,1] padding='SAME' !fails",
        "f32[2,5,6,3] i32[3]{3,3,3} f32[2,5,6,5] ; strides=[1,1,1,1] padding='SAME' !fails"),
    CONV_OP(
        NULL, "Conv3D", "(input:T, filter:T) -> (output:T) {T:type in floats, " ATTRS_3D "}", 0,
        conv_infer, conv_run, conv_grad,
        "f32[1,3,4,5,2] f32[2,2,2,2,3] ; strides=[1,1,1,1,1] padding='SAME'",
        "f64[1,3,4,5,2] f64[2,2,2,2,3] ; strides=[1,2,1,2,1] padding='VALID'",
        "f32[1,2,3,4,5] f32[2,2,2,2,3] ; strides=[1,1,1,1,1] padding='SAME' data_format='NCDHW' "
        "!notf",
        "f16[1,3,4,5,2] f16[2,2,2,2,3] ; strides=[1,1,1,1,1] padding='SAME'",
        "f32[1,3,4,5,2] f32[2,2,2,3,3] ; strides=[1,1,1,1,1] padding='SAME' !fails"),
    CONV_OP(
        NULL, "Conv3DBackpropInputV2",
        "(input_sizes:Tshape, filter:T, out_backprop:T) -> (output:T) {T:type in floats, " ATTRS_3D
        ", Tshape:type=int32 in index}",
        0, conv_backprop_infer, backprop_run, conv_input_grad,
        "i32[5]{1,3,4,5,2} f32[2,2,2,2,3] f32[1,3,4,5,3] ; strides=[1,1,1,1,1] padding='SAME'",
        "i64[5]{1,3,4,5,2} f64[2,2,2,2,3] f64[1,2,3,4,3] ; strides=[1,1,1,1,1] padding='VALID'",
        "i32[5]{1,3,4,5,2} f32[2,2,2,2,3] f32[1,3,4,4,3] ; strides=[1,1,1,1,1] padding='SAME' "
        "!fails"),
    CONV_OP(
        NULL, "Conv3DBackpropFilterV2",
        "(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) {T:type in floats, " ATTRS_3D
        "}",
        0, conv_backprop_infer, backprop_run, conv_filter_grad,
        "f32[1,3,4,5,2] i32[5]{2,2,2,2,3} f32[1,3,4,5,3] ; strides=[1,1,1,1,1] padding='SAME'",
        "f64[1,3,4,5,2] i32[5]{2,2,2,2,3} f64[1,2,3,4,3] ; strides=[1,1,1,1,1] padding='VALID'"),
    { .name = "_Conv2DThen",
      .def = "(input:T, filter:T, more:*Tmore) -> (output:T) {T:type in "
             "[float,double], " MF_EPILOGUE_ATTRS ", " ATTRS_2D,
      .infer = conv_infer,
      .grad = mf_grad_missing,
      .prepare = mf_epilogue_prepare,
      .release = mf_epilogue_release,
      .run = mf_epilogue_run,
      .samples = MF_SAMPLES(
          "f32[2,5,6,3] f32[3,3,3,4] f32[4] ; strides=[1,1,1,1] padding='SAME' "
          "ops=['AddV2','Relu'] types=[float,float] args=[0,1,-1] params=[0,0]",
          "f64[2,5,6,3] f64[3,3,3,4] f64[2,5,6,4] ; strides=[1,1,1,1] padding='SAME' "
          "ops=['AddV2'] types=[double] args=[0,1] params=[0]",
          "f32[40,9,9,8] f32[3,3,8,8] f32[8] ; strides=[1,1,1,1] padding='SAME' "
          "ops=['AddV2','Relu'] types=[float,float] args=[0,1,-1] params=[0,0]",
          "f32[0,5,6,3] f32[3,3,3,4] f32[4] ; strides=[1,1,1,1] padding='SAME' ops=['AddV2'] "
          "types=[float] args=[0,1] params=[0]") },
    { .name = "_Conv2DBackpropInputThen",
      .def = "(input_sizes:int32, filter:T, out_backprop:T, more:*Tmore) -> (output:T) {T:type in "
             "[float,double], " MF_EPILOGUE_ATTRS ", " ATTRS_2D,
      .infer = conv_backprop_infer,
      .grad = mf_grad_missing,
      .prepare = mf_epilogue_prepare,
      .release = mf_epilogue_release,
      .run = mf_epilogue_run,
      .samples = MF_SAMPLES(
          "i32[4]{2,5,6,3} f32[3,3,3,4] f32[2,5,6,4] f32[2,5,6,3] ; strides=[1,1,1,1] "
          "padding='SAME' ops=['ReluGrad'] types=[float] args=[0,1] params=[0]",
          "i32[4]{2,5,6,8} f32[3,2,8,4] f32[2,2,3,4] f32[8] ; strides=[1,2,2,1] padding='VALID' "
          "ops=['AddV2','Relu'] types=[float,float] args=[0,1,-1] params=[0,0]",
          "i32[4]{2,3,5,6} f32[3,3,3,4] f32[2,4,5,6] f32[] ; strides=[1,1,1,1] padding='SAME' "
          "data_format='NCHW' ops=['Mul'] types=[float] args=[0,1] params=[0]",
          "i32[4]{2,5,6,3} f64[3,3,3,4] f64[2,3,3,4] f64[3] ; strides=[1,2,2,1] padding='SAME' "
          "ops=['Mul'] types=[double] args=[0,1] params=[0]",
          "i32[4]{0,5,6,3} f32[3,3,3,4] f32[0,5,6,4] f32[3] ; strides=[1,1,1,1] padding='SAME' "
          "ops=['AddV2'] types=[float] args=[0,1] params=[0]") },
    { 0 },
};
