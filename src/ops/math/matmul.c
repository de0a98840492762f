/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - products of matrices and of batches of matrices. */
#include "base/mem.h"
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/fused.h"
#include "ops/math/gemm.h"

#include <stdio.h>

typedef struct matmul_state {
    bool ta, tb; /* A, B are transposed */
    bool adjoint; /* and conjugated */
    int64_t shards, samples; /* 0, or k is the samples and is summed by shards */
} matmul_state;

static bool is_batch(const mf_node *node)
{
    return mf_node_attr(node, "adj_x") != NULL;
}

static mf_status matmul_prepare(mf_prepare *p)
{
    const bool batch = is_batch(p->node);
    matmul_state *s = MF_ARENA_NEW(p->arena, matmul_state);

    if (!s)
        return MF_NOMEM("a matrix product");
    s->ta = mf_node_bool(p->node, batch ? "adj_x" : "transpose_a");
    s->tb = mf_node_bool(p->node, batch ? "adj_y" : "transpose_b");
    s->adjoint = batch;
    s->shards = mf_node_int(p->node, "_shards");
    s->samples = mf_node_int(p->node, "_samples");
    p->state = s;
    return MF_OK;
}

/* The last two dimensions of the product. Unknown dimensions match. */
static mf_status product_dims(const mf_shape *a, const mf_shape *b, bool ta, bool tb, int64_t *m,
                              int64_t *n, int64_t *k)
{
    const int64_t ka = a->dims[a->rank - (ta ? 2 : 1)], kb = b->dims[b->rank - (tb ? 1 : 2)];
    char at[MF_SHAPE_TEXT], bt[MF_SHAPE_TEXT];

    if (ka >= 0 && kb >= 0 && ka != kb)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Matrix size-incompatible: In[0]: %s, In[1]: %s (%lld vs. %lld)",
                       mf_shape_text(a, at), mf_shape_text(b, bt), (long long)ka, (long long)kb);
    *m = a->dims[a->rank - (ta ? 1 : 2)];
    *n = b->dims[b->rank - (tb ? 2 : 1)];
    *k = ka >= 0 ? ka : kb;
    return MF_OK;
}

/* Shape of the product: inputs of at least rank 2 (exactly 2 unless it is a batch). */
static mf_status matmul_product_shape(const mf_shape *a, const mf_shape *b, bool batch, bool ta,
                                      bool tb, mf_shape *out, int64_t *k)
{
    const mf_shape *const in[2] = { a, b };
    mf_shape batch_a = { .rank = 0 }, batch_b = { .rank = 0 };
    char text[MF_SHAPE_TEXT];
    int64_t m = -1, n = -1;

    for (int i = 0; i < 2; i++) {
        if (batch ? in[i]->rank < 2 : in[i]->rank != 2)
            return MF_FAIL(MF_INVALID_ARGUMENT, "In[%d] is not a matrix. Instead it has shape %s",
                           i, mf_shape_text(in[i], text));
    }
    MF_TRY(product_dims(a, b, ta, tb, &m, &n, k));
    for (int d = 0; d < a->rank - 2; d++)
        batch_a.dims[batch_a.rank++] = a->dims[d];
    for (int d = 0; d < b->rank - 2; d++)
        batch_b.dims[batch_b.rank++] = b->dims[d];
    MF_TRY(mf_shape_broadcast(&batch_a, &batch_b, out));
    out->dims[out->rank++] = m;
    out->dims[out->rank++] = n;
    return MF_OK;
}

static mf_status matmul_infer(mf_infer *in)
{
    const bool batch = is_batch(in->node);
    int64_t k;

    if (!batch) {
        MF_TRY(mf_infer_rank(in, 0, 2));
        MF_TRY(mf_infer_rank(in, 1, 2));
    }
    if (in->in[0].rank < 0 || in->in[1].rank < 0) {
        if (!batch)
            in->out[0] = MF_SHAPE(-1, -1);
        return MF_OK;
    }
    return matmul_product_shape(
        &in->in[0], &in->in[1], batch, mf_node_bool(in->node, batch ? "adj_x" : "transpose_a"),
        mf_node_bool(in->node, batch ? "adj_y" : "transpose_b"), &in->out[0], &k);
}

/* The first BatchMatMul does not broadcast. */
static mf_status same_batch_infer(mf_infer *in)
{
    const mf_shape *a = &in->in[0], *b = &in->in[1];
    char at[MF_SHAPE_TEXT], bt[MF_SHAPE_TEXT];
    bool same = a->rank < 0 || b->rank < 0 || a->rank == b->rank;

    for (int d = 0; same && d < a->rank - 2 && b->rank >= 0; d++)
        same = a->dims[d] < 0 || b->dims[d] < 0 || a->dims[d] == b->dims[d];
    if (!same)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "In[0] and In[1] must have compatible batch dimensions: "
                       "%s vs. %s",
                       mf_shape_text(a, at), mf_shape_text(b, bt));
    return matmul_infer(in);
}

/* Strides of `side` in a batch of shape `out`. */
static void side_init(mf_gemm_side *side, const mf_tensor *t, bool transposed, bool conj,
                      const mf_shape *out)
{
    const int r = t->shape.rank;
    int64_t step = t->shape.dims[r - 1] * t->shape.dims[r - 2];

    side->data = t->data;
    side->type = t->dtype;
    side->row = transposed ? 1 : t->shape.dims[r - 1];
    side->col = transposed ? t->shape.dims[r - 1] : 1;
    side->conj = conj;
    for (int d = out->rank - 3; d >= 0; d--) {
        const int td = d - (out->rank - r);
        const int64_t dim = td >= 0 ? t->shape.dims[td] : 1;

        side->batch_stride[d] = dim == 1 ? 0 : step;
        step *= dim;
    }
}

static mf_status matmul_run(mf_kernel *k)
{
    const matmul_state *s = k->state;
    mf_gemm g = { 0 };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(matmul_product_shape(&k->in[0]->shape, &k->in[1]->shape, s->adjoint, s->ta, s->tb,
                                &shape, &g.k));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    g.m = shape.dims[shape.rank - 2];
    g.n = shape.dims[shape.rank - 1];
    g.c = out->data;
    g.c_type = out->dtype;
    g.then = k->then;
    g.batch_rank = shape.rank - 2;
    memcpy(g.batch_dims, shape.dims, sizeof g.batch_dims);
    mf_gemm_c_follows(&g);
    if (s->shards > 0 && s->samples > 0 && g.k % s->samples == 0 && g.c_type == MF_DTYPE_F32 &&
        g.batch_rank == 0) {
        g.shards = s->shards;
        g.samples = s->samples;
    }
    side_init(&g.a, k->in[0], s->ta, s->ta && s->adjoint, &shape);
    side_init(&g.b, k->in[1], s->tb, s->tb && s->adjoint, &shape);
    return mf_gemm_run(k, &g);
}

static mf_status same_batch_run(mf_kernel *k)
{
    const mf_shape *a = &k->in[0]->shape, *b = &k->in[1]->shape;
    bool same = a->rank == b->rank;
    char at[MF_SHAPE_TEXT], bt[MF_SHAPE_TEXT];

    for (int d = 0; same && d < a->rank - 2; d++)
        same = a->dims[d] == b->dims[d];
    if (!same)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "In[0] and In[1] must have compatible batch dimensions: "
                       "%s vs. %s",
                       mf_shape_text(a, at), mf_shape_text(b, bt));
    return matmul_run(k);
}

/* ---- gradients ---- */

static mf_output product(mf_grad *g, mf_output a, bool ta, mf_output b, bool tb, int for_input)
{
    return mf_applyf(g->graph, "MatMul", MF_IN(a, b), "transpose_a=%s transpose_b=%s %s=true",
                     ta ? "true" : "false", tb ? "true" : "false", for_input ? "grad_b" : "grad_a");
}

static mf_status matmul_grad(mf_grad *g)
{
    const bool ta = mf_node_bool(g->node, "transpose_a"), tb = mf_node_bool(g->node, "transpose_b");
    const mf_output a = mf_grad_conj(g, g->x[0]), b = mf_grad_conj(g, g->x[1]), dy = g->dy[0];

    g->dx[0] = ta ? product(g, b, tb, dy, true, 0) : product(g, dy, false, b, !tb, 0);
    g->dx[1] = tb ? product(g, dy, true, a, ta, 1) : product(g, a, !ta, dy, false, 1);
    return MF_OK;
}

static mf_output batch_product(mf_grad *g, mf_output x, bool ax, mf_output y, bool ay,
                               int for_input)
{
    const char *extra = "";
    char text[96];

    if (strcmp(g->node->op_name, "BatchMatMulV3") == 0) {
        snprintf(text, sizeof text, "Tout=%s", mf_dtype_name(mf_grad_type(g->x[for_input])));
        extra = text;
    }
    return mf_applyf(g->graph, g->node->op_name, MF_IN(x, y), "adj_x=%s adj_y=%s %s=true %s",
                     ax ? "true" : "false", ay ? "true" : "false", for_input ? "grad_y" : "grad_x",
                     extra);
}

static mf_status matmul_batch_grad(mf_grad *g)
{
    const bool ax = mf_node_bool(g->node, "adj_x"), ay = mf_node_bool(g->node, "adj_y");
    const mf_output x = g->x[0], y = g->x[1], dy = g->dy[0];

    g->dx[0] = ax ? batch_product(g, y, ay, dy, true, 0) : batch_product(g, dy, false, y, !ay, 0);
    g->dx[1] = ay ? batch_product(g, dy, true, x, ax, 1) : batch_product(g, x, !ax, dy, false, 1);
    return MF_OK;
}

/* The same, and repeated dimensions are summed. */
static mf_status broadcast_batch_grad(mf_grad *g)
{
    const mf_output sx = MF_G1("Shape", g->x[0]), sy = MF_G1("Shape", g->x[1]);
    const mf_output axes =
        MF_G2("BroadcastGradientArgs", mf_grad_batch_dims(g, sx), mf_grad_batch_dims(g, sy));

    MF_TRY(matmul_batch_grad(g));
    g->dx[0] = MF_G2("Reshape", MF_G2("Sum", g->dx[0], axes), sx);
    g->dx[1] = MF_G2("Reshape", MF_G2("Sum", g->dx[1], ((mf_output){ axes.node, 1 })), sy);
    return MF_OK;
}

/* SparseMatMul: gradients of 16-bit inputs have their type, everything else is float. */
static mf_output mixed_product(mf_grad *g, mf_output a, bool ta, mf_output b, bool tb,
                               mf_output like)
{
    const mf_output d =
        mf_applyf(g->graph, "SparseMatMul", MF_IN(a, b), "transpose_a=%s transpose_b=%s",
                  ta ? "true" : "false", tb ? "true" : "false");

    if (mf_grad_type(like) == MF_DTYPE_F32)
        return d;
    return mf_applyf(g->graph, "Cast", MF_IN(d), "DstT=%s", mf_dtype_name(mf_grad_type(like)));
}

static mf_status mixed_grad(mf_grad *g)
{
    const bool ta = mf_node_bool(g->node, "transpose_a"), tb = mf_node_bool(g->node, "transpose_b");
    const mf_output a = g->x[0], b = g->x[1], dy = g->dy[0];

    g->dx[0] = ta ? mixed_product(g, b, tb, dy, true, a) : mixed_product(g, dy, false, b, !tb, a);
    g->dx[1] = tb ? mixed_product(g, dy, true, a, ta, b) : mixed_product(g, a, !ta, dy, false, b);
    return MF_OK;
}

/* [batch, m, k] by [batch, k, n]; an operand that is repeated over the batch has no letters there.
 */
static void matmul_split(mf_split *s)
{
    const bool batch = is_batch(s->node);
    const bool ta = mf_node_bool(s->node, batch ? "adj_x" : "transpose_a");
    const bool tb = mf_node_bool(s->node, batch ? "adj_y" : "transpose_b");
    const int ra = s->in[0].rank, rb = s->in[1].rank, r = s->out[0].rank;
    const int m = mf_split_new(s, s->out[0].dims[r - 2], MF_CUT_FREE);
    const int n = mf_split_new(s, s->out[0].dims[r - 1], MF_CUT_FREE);
    const int k = mf_split_new(s, s->in[0].dims[ra - (ta ? 2 : 1)], MF_CUT_SUM);

    for (int d = 0; d < r - 2; d++) {
        const int letter =
            s->out[0].dims[d] > 1 ? mf_split_new(s, s->out[0].dims[d], MF_CUT_FREE) : -1;

        mf_split_out(s, 0, d, letter);
        for (int i = 0; i < 2; i++) {
            const int at = d - (r - s->in[i].rank);

            if (at >= 0 && s->in[i].dims[at] == s->out[0].dims[d])
                mf_split_in(s, i, at, letter);
        }
    }
    mf_split_in(s, 0, ra - (ta ? 1 : 2), m);
    mf_split_in(s, 1, rb - (tb ? 2 : 1), n);
    mf_split_out(s, 0, r - 2, m);
    mf_split_out(s, 0, r - 1, n);
    if (mf_node_int(s->node, "_shards") > 0)
        return; /* k is the samples, which are added in an order of their own */
    mf_split_in(s, 0, ra - (ta ? 2 : 1), k);
    mf_split_in(s, 1, rb - (tb ? 1 : 2), k);
}

#define MATMUL_OP(ROWS, NAME, DEF, FLAGS, INFER, RUN, GRAD, ...)                                   \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = GRAD,      \
        .prepare = matmul_prepare, .run = RUN, .split = matmul_split,                              \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define THEN_OP(NAME, DEF, ...)                                                                    \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = matmul_infer, .grad = mf_grad_missing,                  \
        .prepare = mf_epilogue_prepare, .release = mf_epilogue_release, .run = mf_epilogue_run,    \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_matmul[] = {
    MATMUL_OP(NULL, "SparseMatMul", /* of dense matrices with many zeros, which are not exploited */
              "(a:Ta, b:Tb) -> (product:float) {transpose_a:bool=false, transpose_b:bool=false, "
              "a_is_sparse:bool=false, b_is_sparse:bool=false, Ta:type=float in [float,bfloat16], "
              "Tb:type=float in [float,bfloat16]}",
              0, matmul_infer, matmul_run, mixed_grad, "f32[3,4] f32[4,5]",
              "f32[4,3] f32[4,5] ; transpose_a=true a_is_sparse=true",
              "f32[3,4] f32[5,4] ; transpose_b=true b_is_sparse=true",
              "f32[4,3] f32[5,4] ; transpose_a=true transpose_b=true", "bf16[3,4] f32[4,5]",
              "bf16[3,4] bf16[4,5]", "f32[0,4] f32[4,5]", "f32[3,4] f32[3,5] !fails"),
    MATMUL_OP(mf_rows_matmul, "MatMul",
              "(a:T, b:T) -> (product:T) {transpose_a:bool=false, transpose_b:bool=false, "
              "T:type in [bfloat16,half,float,double,int32,int64,uint8,uint16,uint32,uint64,"
              "complex64,complex128], grad_a:bool=false, grad_b:bool=false}",
              MF_OP_THEN, matmul_infer, matmul_run, matmul_grad, "f32[3,5] f32[5,7]",
              "f32[5,3] f32[5,7] ; transpose_a=true", "f32[3,5] f32[7,5] ; transpose_b=true",
              "f64[5,3] f64[7,5] ; transpose_a=true transpose_b=true", "f32[1,1] f32[1,1]",
              "f32[19,300] f32[300,37] !nograd", "f32[130,70] f32[70,150] !nograd",
              "f32[1,9] f32[9,200] !nograd",
              "f32[70,130] f32[150,70] ; transpose_a=true "
              "transpose_b=true !nograd",
              "f32[0,3] f32[3,2]", "f32[3,0] f32[0,2]", "f16[4,5] f16[5,6]", "bf16[4,5] bf16[5,6]",
              "i32[4,5] i32[5,6]", "i64[4,5] i64[5,6]", "u8[4,5]@0:5 u8[5,6]@0:5 !notf",
              "u16[4,5]@0:5 u16[5,6]@0:5 !notf", "c64[3,5] c64[5,4]",
              "c128[5,3] c128[5,4] ; transpose_a=true", "f32[3,5] f32[4,7] !fails",
              "f32[3] f32[3,7] !fails"),
    MATMUL_OP(mf_rows_batch_matmul, "BatchMatMul",
              "(x:T, y:T) -> (output:T) {T:type in [bfloat16,half,float,double,int32,int64,"
              "complex64,complex128], adj_x:bool=false, adj_y:bool=false, grad_x:bool=false, "
              "grad_y:bool=false}",
              0, same_batch_infer, same_batch_run, matmul_batch_grad, "f32[2,3,5] f32[2,5,4]",
              "f64[2,2,3,5] f64[2,2,4,5] ; adj_y=true", "c64[2,5,3] c64[2,5,4] ; adj_x=true",
              "f32[2,3] f32[3,2]", "f32[0,3,5] f32[0,5,4]", "f32[2,3,5] f32[3,5,4] !fails"),
    MATMUL_OP(mf_rows_batch_matmul, "BatchMatMulV2",
              "(x:T, y:T) -> (output:T) {T:type in [bfloat16,half,float,double,int16,int32,int64,"
              "uint8,uint16,uint32,uint64,complex64,complex128], adj_x:bool=false, "
              "adj_y:bool=false, grad_x:bool=false, grad_y:bool=false}",
              MF_OP_THEN, matmul_infer, matmul_run, broadcast_batch_grad, "f32[2,3,5] f32[2,5,4]",
              "f32[2,1,3,5] f32[3,5,4]", "f64[3,5] f64[2,5,4]",
              "f32[2,5,3] f32[2,4,5] ; adj_x=true "
              "adj_y=true",
              "c64[2,3,5] c64[1,4,5] ; adj_y=true", "c128[2,5,3] c128[5,4] ; adj_x=true",
              "i16[2,3,5] i16[2,5,4] !notf", "f16[2,3,5] f16[2,5,4]", "f32[2,0,5] f32[2,5,4]",
              "f32[40,9,8] f32[40,8,7] !nograd", "f32[2,3,5] f32[3,5,4] !fails",
              "f32[5] f32[5,4] !fails"),
    MATMUL_OP(NULL, "BatchMatMulV3",
              "(x:Ta, y:Tb) -> (output:Tout) {Ta:type in [bfloat16,half,float,double,uint8,int8,"
              "int16,int32,int64,complex64,complex128], Tb:type in [bfloat16,half,float,double,"
              "uint8,int8,int16,int32,int64,complex64,complex128], Tout:type in [bfloat16,half,"
              "float,double,int16,int32,int64,complex64,complex128], adj_x:bool=false, "
              "adj_y:bool=false, grad_x:bool=false, grad_y:bool=false}",
              0, matmul_infer, matmul_run, broadcast_batch_grad,
              "f32[2,3,5] f32[2,5,4] ; Tout=float",
              "f32[2,3,5] f32[2,5,4] ; Tout=complex64 !fails !notf",
              "c64[2,3,5] c64[2,5,4] ; Tout=float !fails !notf",
              "f32[2,3,5] f32[2,5,4] ; Tout=double !fails !notf",
              "f32[2,1,3,5] f32[3,4,5] ; Tout=float adj_y=true",
              "i8[2,3,5] i8[2,5,4] ; Tout=int32 !notf", "f32[2,3] f32[4,2] ; Tout=float !fails"),
    THEN_OP("_MatMulThen",
            "(a:T, b:T, more:*Tmore) -> (product:T) {transpose_a:bool=false, "
            "transpose_b:bool=false, T:type in [float,double], grad_a:bool=false, "
            "grad_b:bool=false, " MF_EPILOGUE_ATTRS "}",
            "f32[3,5] f32[5,7] f32[7] ; ops=['AddV2','Relu'] types=[float,float] args=[0,1,-1] "
            "params=[0,0]",
            "f64[130,70] f64[150,70] f64[150] f64[130,1] ; transpose_b=true ops=['AddV2','Mul'] "
            "types=[double,double] args=[0,1,-1,2] params=[0,0]",
            "f32[0,5] f32[5,7] f32[7] ; ops=['AddV2'] types=[float] args=[0,1] params=[0]",
            "f32[3,5] f32[5,7] ; ops=['Sigmoid','Mul'] types=[float,float] args=[0,0,-1] "
            "params=[0,0]",
            "f32[3,5] f32[5,7] f32[6] ; ops=['AddV2'] types=[float] args=[0,1] params=[0] !fails"),
    THEN_OP("_BatchMatMulV2Then",
            "(x:T, y:T, more:*Tmore) -> (output:T) {T:type in [float,double], adj_x:bool=false, "
            "adj_y:bool=false, grad_x:bool=false, grad_y:bool=false, " MF_EPILOGUE_ATTRS "}",
            "f32[2,3,5] f32[2,5,4] f32[] ; ops=['Mul'] types=[float] args=[0,1] params=[0]",
            "f32[40,9,8] f32[40,8,7] f32[40,1,7] ; ops=['AddV2','Relu'] types=[float,float] "
            "args=[0,1,-1] params=[0,0]"),
    { 0 },
};
