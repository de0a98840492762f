/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c - the k largest elements of each row, and the n-th smallest.
 *
 * A heap of k indices keeps the best so far, with the worst of them on top. Larger elements come
 * first; ties are ordered by index; NaN is larger than all numbers. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

/* Sets at[0..k) to the indices of the k best of x[0..n): a heap, worst first, or sorted. */
typedef void top_fn(const void *x, int64_t n, int64_t k, bool sort, int64_t *at);

#define FLOAT_ABOVE(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
#define INT_ABOVE(a, b) ((a) > (b))

#define TOP_LOOP(NAME, kind, ABOVE)                                                                \
    static bool ahead_##kind(const MF_S_##kind *x, int64_t i, int64_t j)                           \
    {                                                                                              \
        const MF_C_##kind a = MF_LD_##kind(x, i), b = MF_LD_##kind(x, j);                          \
        return ABOVE(a, b) || (!ABOVE(b, a) && i < j);                                             \
    }                                                                                              \
    static void sink_##kind(const MF_S_##kind *x, int64_t *heap, int64_t k, int64_t at)            \
    {                                                                                              \
        const int64_t moved = heap[at];                                                            \
        for (int64_t child; (child = 2 * at + 1) < k; at = child) {                                \
            if (child + 1 < k && ahead_##kind(x, heap[child], heap[child + 1]))                    \
                child++;                                                                           \
            if (ahead_##kind(x, heap[child], moved))                                               \
                break;                                                                             \
            heap[at] = heap[child];                                                                \
        }                                                                                          \
        heap[at] = moved;                                                                          \
    }                                                                                              \
    static void NAME##_##kind(const void *in, int64_t n, int64_t k, bool sort, int64_t *heap)      \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        for (int64_t i = 0; i < k; i++)                                                            \
            heap[i] = i;                                                                           \
        for (int64_t i = k / 2; i-- > 0;)                                                          \
            sink_##kind(x, heap, k, i);                                                            \
        for (int64_t i = k; k > 0 && i < n; i++) {                                                 \
            if (ahead_##kind(x, i, heap[0])) {                                                     \
                heap[0] = i;                                                                       \
                sink_##kind(x, heap, k, 0);                                                        \
            }                                                                                      \
        }                                                                                          \
        for (int64_t last = k - 1; sort && last > 0; last--) { /* moves the worst to the end */    \
            const int64_t worst = heap[0];                                                         \
            heap[0] = heap[last];                                                                  \
            heap[last] = worst;                                                                    \
            sink_##kind(x, heap, last, 0);                                                         \
        }                                                                                          \
    }

MF_EACH_FLOAT(TOP_LOOP, top, FLOAT_ABOVE)
MF_EACH_INT(TOP_LOOP, top, INT_ABOVE)
static top_fn *const top_loops[MF_DTYPE_COUNT] = { MF_FN_FLOATS(top), MF_FN_INTS(top) };

typedef struct topk_job {
    top_fn *fn;
    const char *in;
    mf_tensor *values, *indices; /* indices: NULL for NthElement, which keeps the heap's top */
    int64_t *heaps; /* k per piece */
    size_t item;
    int64_t n, k, rows, rows_per_piece;
    bool sorted;
} topk_job;

static void store_index(mf_tensor *t, int64_t i, int64_t index)
{
    if (t->dtype == MF_DTYPE_I64)
        ((int64_t *)t->data)[i] = index;
    else if (t->dtype == MF_DTYPE_I32)
        ((int32_t *)t->data)[i] = (int32_t)index;
    else
        ((int16_t *)t->data)[i] = (int16_t)index;
}

static void topk_run_piece(void *ctx, int64_t piece)
{
    const topk_job *j = ctx;
    const int64_t end = (piece + 1) * j->rows_per_piece;
    int64_t *heap = j->heaps + piece * j->k;

    for (int64_t row = piece * j->rows_per_piece; row < end && row < j->rows; row++) {
        const char *x = j->in + (size_t)(row * j->n) * j->item;
        char *out = j->values->data;
        const int64_t keep = j->indices ? j->k : 1;

        j->fn(x, j->n, j->k, j->sorted, heap);
        for (int64_t i = 0; i < keep; i++) {
            memcpy(out + (size_t)(row * keep + i) * j->item, x + (size_t)heap[i] * j->item,
                   j->item);
            if (j->indices)
                store_index(j->indices, row * keep + i, heap[i]);
        }
    }
}

static mf_status topk_run_rows(mf_kernel *k, topk_job *j)
{
    mf_tensor heaps = { 0 };
    mf_shape shape = MF_SHAPE(0);
    int64_t pieces;
    mf_status st;

    if (j->rows == 0 || j->k == 0)
        return MF_OK;
    j->rows_per_piece = 1 + MF_LOOP_GRAIN / j->n;
    pieces = (j->rows + j->rows_per_piece - 1) / j->rows_per_piece;
    if (!mf_mul_i64(pieces, j->k, &shape.dims[0]))
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "k = %lld is too large", (long long)j->k);
    MF_TRY(mf_tensor_alloc(&heaps, MF_DTYPE_I64, &shape));
    j->heaps = heaps.data;
    st = mf_kernel_parallel(k, pieces, topk_run_piece, j);
    mf_tensor_clear(&heaps);
    return st;
}

/* ---- TopK ---- */

static mf_status check_k(int64_t k, const mf_shape *x)
{
    char text[MF_SHAPE_TEXT];

    if (k < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Need k >= 0, got %lld", (long long)k);
    if (x->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be >= 1-D, got shape %s",
                       mf_shape_text(x, text));
    if (x->rank > 0 && x->dims[x->rank - 1] >= 0 && x->dims[x->rank - 1] < k)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "input must have at least k columns. Had %lld, needed %lld",
                       (long long)x->dims[x->rank - 1], (long long)k);
    return MF_OK;
}

static mf_status topk_infer(mf_infer *in)
{
    int64_t k = in->n_in == 1 ? mf_node_int(in->node, "k") : -1;

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    if (in->n_in == 2)
        MF_TRY(mf_infer_rank(in, 1, 0));
    if (in->n_in == 1 || mf_infer_int_input(in, 1, &k))
        MF_TRY(check_k(k, &in->in[0]));
    in->out[0] = in->in[0];
    if (in->in[0].rank > 0)
        in->out[0].dims[in->in[0].rank - 1] = k < 0 ? MF_UNKNOWN_DIM : k;
    in->out[1] = in->out[0];
    return MF_OK;
}

static mf_status topk_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_shape shape = x->shape;
    char text[MF_SHAPE_TEXT];
    topk_job j = { .fn = top_loops[x->dtype], .in = x->data, .item = mf_dtype_cell(x->dtype) };

    if (k->n_in == 2 && k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "k must be scalar, got shape %s",
                       mf_shape_text(&k->in[1]->shape, text));
    j.k = k->n_in == 2 ? mf_tensor_int_at(k->in[1], 0) : mf_node_int(k->node, "k");
    MF_TRY(check_k(j.k, &shape));
    if (!j.fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "TopK of type %s is not supported",
                       mf_dtype_name(x->dtype));
    j.n = shape.dims[shape.rank - 1];
    j.rows = mf_shape_span(&shape, 0, shape.rank - 1);
    j.sorted = true; /* any order is valid for unsorted output */
    shape.dims[shape.rank - 1] = j.k;
    MF_TRY(mf_kernel_out(k, 0, &shape, &j.values));
    MF_TRY(mf_kernel_out(k, 1, &shape, &j.indices));
    return topk_run_rows(k, &j);
}

/* The gradient is scattered to the positions of the values: one flat scatter over all rows. */
static mf_status topk_grad(mf_grad *g)
{
    const mf_output x_shape = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=int64");
    const mf_output last = mf_scalar(g->graph, MF_DTYPE_I32, -1);
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I64, 0);
    const mf_output flat = mf_ints(g->graph, (const int64_t[]){ -1 }, 1);
    const mf_output all = mf_ints(g->graph, (const int64_t[]){ 0 }, 1);
    const mf_output n = mf_applyf(g->graph, "StridedSlice",
                                  MF_IN(x_shape, flat, mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                                        mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                                  "shrink_axis_mask=1 end_mask=1");
    const mf_output count = MF_G2("Prod", x_shape, all);
    const mf_output starts = MF_G2("ExpandDims", MF_G3("Range", zero, count, n), last);
    const mf_output index =
        mf_applyf(g->graph, "Cast", MF_IN((mf_output){ g->node, 1 }), "DstT=int64");
    /* [rows, k], also if k is 0 and the number of rows cannot be inferred. */
    const mf_output k_shape =
        mf_applyf(g->graph, "Shape", MF_IN((mf_output){ g->node, 1 }), "out_type=int64");
    const mf_output k = mf_applyf(g->graph, "StridedSlice",
                                  MF_IN(k_shape, flat, mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                                        mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                                  "shrink_axis_mask=1 end_mask=1");
    const mf_output rows = mf_applyf(g->graph, "Size", MF_IN(starts), "out_type=int64");
    const mf_output by_row = MF_G2("Reshape", index, MF_G2("Pack", rows, k));
    const mf_output where = MF_G2("Reshape", MF_G2("AddV2", by_row, starts), flat);
    const mf_output target = mf_apply(g->graph, "Pack", MF_IN(count));
    const mf_output dx = MF_G3("ScatterNd", MF_G2("ExpandDims", where, last),
                               MF_G2("Reshape", g->dy[0], flat), target);

    g->dx[0] = MF_G2("Reshape", dx, x_shape);
    return MF_OK;
}

/* ---- _TopKPart: the k largest of each part, `width` neighbours of a row; parts count from
 * `first`. What the mesh makes of TopK over a dimension that is cut (spmd/lower/decompose.c). ----
 */

static mf_status part_shape(const mf_node *node, mf_shape *shape)
{
    const int64_t width = mf_node_int(node, "width"), k = mf_node_int(node, "k");
    int64_t *last = shape->rank > 0 ? &shape->dims[shape->rank - 1] : NULL;

    if (!last || *last < 0)
        return MF_OK;
    if (*last % width != 0 || k > width)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld columns cannot be divided into parts of %lld "
                       "with the %lld largest",
                       (long long)*last, (long long)width, (long long)k);
    *last = *last / width * k;
    return MF_OK;
}

static mf_status topk_part_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    in->out[0] = in->in[0];
    MF_TRY(part_shape(in->node, &in->out[0]));
    in->out[1] = in->out[0];
    return MF_OK;
}

static mf_status topk_part_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const int64_t first = mf_node_int(k->node, "first");
    mf_shape shape = x->shape;
    topk_job j = { .fn = top_loops[x->dtype], .in = x->data, .item = mf_dtype_cell(x->dtype) };
    int64_t parts;

    if (shape.rank < 1 || !j.fn)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be rows of numbers");
    if (first < 0 || first > INT32_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "first = %lld is not in [0, 2^31)", (long long)first);
    j.k = mf_node_int(k->node, "k");
    j.n = mf_node_int(k->node, "width");
    parts = shape.dims[shape.rank - 1] / j.n;
    j.rows = mf_shape_span(&shape, 0, shape.rank - 1) * parts;
    j.sorted = true; /* ties are won by the lower index, also among candidates of shards */
    MF_TRY(part_shape(k->node, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &j.values));
    MF_TRY(mf_kernel_out(k, 1, &shape, &j.indices));
    MF_TRY(topk_run_rows(k, &j));
    for (int64_t i = 0; i < j.rows * j.k; i++)
        store_index(j.indices, i, mf_tensor_int_at(j.indices, i) + (first + i / j.k % parts) * j.n);
    return MF_OK;
}

static void part_split(mf_split *s)
{
    const int last = s->in[0].rank - 1;
    const int64_t width = mf_node_int(s->node, "width");
    const int letter = mf_split_new(s, s->in[0].dims[last] / width, MF_CUT_FREE);

    mf_split_around(s, 0, 1, last, true, true);
    if (letter < 0)
        return;
    s->in_dims[0].dims[last] =
        (mf_split_dim){ .letter = letter, .inside = 1, .step = width, .span = width };
    for (int i = 0; i < 2; i++)
        s->out_dims[i].dims[last] =
            (mf_split_dim){ .letter = letter, .inside = mf_node_int(s->node, "k") };
    s->letters[letter].some = true;
    s->offset_attr = "first";
    s->offset_letter = letter;
}

/* ---- NthElement ---- */

static mf_status nth_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 0));
    in->out[0] = in->in[0];
    if (in->in[0].rank > 0)
        in->out[0].rank--;
    return MF_OK;
}

static mf_status nth_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_shape shape = x->shape;
    topk_job j = { .fn = top_loops[x->dtype], .in = x->data, .item = mf_dtype_cell(x->dtype) };
    int64_t n;

    if (k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "N must be scalar but has rank %d",
                       k->in[1]->shape.rank);
    n = mf_tensor_int_at(k->in[1], 0);
    if (n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "n must be non-negative but is %lld", (long long)n);
    if (shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must be at least rank 1 but is rank 0");
    j.n = shape.dims[shape.rank - 1];
    if (n >= j.n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must have last dimension > n = %lld",
                       (long long)n);
    /* The worst of the k largest. */
    j.k = mf_node_bool(k->node, "reverse") ? n + 1 : j.n - n;
    j.rows = mf_shape_span(&shape, 0, shape.rank - 1);
    shape.rank--;
    MF_TRY(mf_kernel_out(k, 0, &shape, &j.values));
    return topk_run_rows(k, &j);
}

static mf_status nth_grad(mf_grad *g)
{
    const mf_output last = mf_scalar(g->graph, MF_DTYPE_I32, -1);
    const mf_output equal = MF_G2("Equal", MF_G2("ExpandDims", g->y[0], last), g->x[0]);
    const mf_output chosen =
        mf_applyf(g->graph, "Cast", MF_IN(equal), "DstT=%s", mf_dtype_name(mf_grad_type(g->dy[0])));
    const mf_output n = mf_applyf(g->graph, "Sum", MF_IN(chosen, last), "keep_dims=true");

    g->dx[0] = MF_G2("Mul", MF_G2("RealDiv", chosen, n), MF_G2("ExpandDims", g->dy[0], last));
    return MF_OK;
}

static void topk_split(mf_split *s)
{
    mf_split_around(s, 0, 1, s->in[0].rank - 1, true, true);
}

static void nth_split(mf_split *s)
{
    mf_split_around(s, 0, 1, s->in[0].rank - 1, true, false);
}

const mf_op mf_ops_topk[] = {
    { .name = "TopKV2",
      .rows = mf_rows_first,
      .def = "(input:T, k:Tk) -> (values:T, indices:index_type) {sorted:bool=true, "
             "T:type in reals, Tk:type=int32 in [int16,int32,int64], "
             "index_type:type=int32 in [int16,int32,int64]}",
      .infer = topk_infer,
      .grad = topk_grad,
      .run = topk_run,
      .split = topk_split,
      .samples =
          MF_SAMPLES("f32[3,7] i32[]{3}", "f32[3,12]@0:4 i32[]{2}",
                     "i16[2,24]@0:5 i32[]{3} ; index_type=int64", "f64[9] i32[]{9}",
                     "i32[2,2,5] i64[]{1}", "i8[20]@0:4 i16[]{6}", "f32[4,3] i32[]{0}",
                     "f32[0,3] i32[]{2}", "bf16[6] i32[]{2} ; index_type=int64 !nograd",
                     "u8[3,8]@0:200 i32[]{4} ; index_type=int16",
                     "f16[9] i32[]{4} ; sorted=false !unordered !nograd", "f32[3] i32[]{4} !fails",
                     "f32[3] i32[]{-1} !fails", "f32[] i32[]{0} !fails") },
    { .name = "TopK", /* TensorFlow has no kernel for it any more: nothing to compare with */
      .def = "(input:T) -> (values:T, indices:int32) {k:int>=0, sorted:bool=true, T:type in reals}",
      .infer = topk_infer,
      .grad = topk_grad,
      .run = topk_run,
      .split = topk_split,
      .samples = MF_SAMPLES("f32[3,7] ; k=2 !notf", "i64[8] ; k=8 !notf", "f32[2] ; k=3 !fails") },
    { .name = "_TopKPart",
      .def = "(input:T) -> (values:T, indices:index_type) {k:int>=1, width:int>=1, first:int=0, "
             "T:type in reals, index_type:type=int32 in [int16,int32,int64]}",
      .infer = topk_part_infer,
      .grad = mf_grad_missing,
      .run = topk_part_run,
      .split = part_split,
      .samples = MF_SAMPLES("f32[3,12] ; k=2 width=4 !nograd", "i32[2,3,6]@0:3 ; k=1 width=2",
                            "f64[8] ; k=3 width=4 first=2 index_type=int64 !nograd",
                            "f32[2,0] ; k=1 width=2 !nograd", "f32[2,5] ; k=1 width=2 !fails",
                            "f32[4] ; k=3 width=2 !fails", "f32[] ; k=1 width=1 !fails") },
    { .name = "NthElement",
      .def = "(input:T, n:int32) -> (values:T) {reverse:bool=false, T:type in reals}",
      .infer = nth_infer,
      .grad = nth_grad,
      .run = nth_run,
      .split = nth_split,
      .samples = MF_SAMPLES("f32[3,7] i32[]{2}", "f64[5] i32[]{4} ; reverse=true",
                            "i32[2,3,4] i32[]{0}", "u16[6]@0:3 i32[]{3}", "f32[0,4] i32[]{1}",
                            "f32[4] i32[]{4} !fails", "f32[4] i32[]{-1} !fails") },
    { 0 },
};
