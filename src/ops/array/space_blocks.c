/* SPDX-License-Identifier: Apache-2.0 */
/* space_blocks.c - moves spatial blocks into the depth or the batch dimension and back. All ops are
 * the same permutation of a larger number of dimensions, in either direction. */
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

/* ---- SpaceToDepth, DepthToSpace ---- */

typedef struct depth_attrs {
    int64_t block;
    bool to_depth, channels_first;
} depth_attrs;

static mf_status depth_read(const mf_node *node, depth_attrs *a)
{
    const char *format = mf_node_string(node, "data_format");

    if (strcmp(format, "NHWC") != 0 && strcmp(format, "NCHW") != 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "data_format %s is not supported", format);
    *a = (depth_attrs){ .block = mf_node_int(node, "block_size"),
                        .to_depth = node->op_name[0] == 'S',
                        .channels_first = strcmp(format, "NCHW") == 0 };
    return MF_OK;
}

/* x / y, or x * y in the other direction; unknown stays unknown. */
static mf_status scale_dim(int64_t dim, int64_t by, bool divide, const char *what, int64_t *out)
{
    *out = dim;
    if (dim < 0)
        return MF_OK;
    if (divide && dim % by != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input %s %" PRId64 " should be divisible by: %" PRId64,
                       what, dim, by);
    if (!divide && !mf_mul_i64(dim, by, out))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s %" PRId64 " is too large", what, dim);
    if (divide)
        *out = dim / by;
    return MF_OK;
}

static mf_status depth_result(const depth_attrs *a, const mf_shape *x, mf_shape *out)
{
    const int h = a->channels_first ? 2 : 1, c = a->channels_first ? 1 : 3;
    int64_t area;

    if (x->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input rank should be 4 instead of %d", x->rank);
    if (a->block < 2 || !mf_mul_i64(a->block, a->block, &area))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Block size %" PRId64 " should be > 1", a->block);
    *out = *x;
    MF_TRY(scale_dim(x->dims[h], a->block, a->to_depth, "height", &out->dims[h]));
    MF_TRY(scale_dim(x->dims[h + 1], a->block, a->to_depth, "width", &out->dims[h + 1]));
    return scale_dim(x->dims[c], area, !a->to_depth, "depth", &out->dims[c]);
}

static mf_status space_blocks_depth_infer(mf_infer *in)
{
    depth_attrs a = { 0 };

    MF_TRY(depth_read(in->node, &a));
    if (in->in[0].rank < 0) {
        in->out[0] = MF_SHAPE(-1, -1, -1, -1);
        return MF_OK;
    }
    return depth_result(&a, &in->in[0], &in->out[0]);
}

static mf_status space_blocks_depth_prepare(mf_prepare *p)
{
    depth_attrs *a = MF_ARENA_NEW(p->arena, depth_attrs);

    if (!a)
        return MF_NOMEM("a kernel");
    p->state = a;
    return depth_read(p->node, a);
}

/* Adds one dimension with its stride on the space side and on the depth side. */
static void space_blocks_add_dim(mf_strided_copy *m, bool to_depth, int64_t dim, int64_t space,
                                 int64_t depth)
{
    mf_strided_copy_add(m, dim, to_depth ? depth : space, to_depth ? space : depth);
}

static mf_status space_blocks_depth_run(mf_kernel *k)
{
    const depth_attrs *a = k->state;
    const mf_tensor *x = k->in[0];
    const int h = a->channels_first ? 2 : 1, w = h + 1, c = a->channels_first ? 1 : 3;
    const int64_t b = a->block;
    const mf_shape *space, *depth;
    int64_t ss[MF_MAX_RANK], ds[MF_MAX_RANK];
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(depth_result(a, &x->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    space = a->to_depth ? &x->shape : &shape;
    depth = a->to_depth ? &shape : &x->shape;
    mf_strides_of(space, ss);
    mf_strides_of(depth, ds);
    m.dst = out->data;
    /* The depth dimension is (row in block, column in block, channel). */
    space_blocks_add_dim(&m, a->to_depth, space->dims[0], ss[0], ds[0]);
    if (a->channels_first)
        space_blocks_add_dim(&m, a->to_depth, space->dims[c], ss[c], ds[c]);
    space_blocks_add_dim(&m, a->to_depth, depth->dims[h], ss[h] * b, ds[h]);
    if (!a->to_depth) {
        space_blocks_add_dim(&m, a->to_depth, b, ss[h], ds[c] * b * space->dims[c]);
        space_blocks_add_dim(&m, a->to_depth, depth->dims[w], ss[w] * b, ds[w]);
    } else {
        space_blocks_add_dim(&m, a->to_depth, depth->dims[w], ss[w] * b, ds[w]);
        space_blocks_add_dim(&m, a->to_depth, b, ss[h], ds[c] * b * space->dims[c]);
    }
    space_blocks_add_dim(&m, a->to_depth, b, ss[w], ds[c] * space->dims[c]);
    if (!a->channels_first)
        space_blocks_add_dim(&m, a->to_depth, space->dims[c], ss[c], ds[c]);
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status space_blocks_depth_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, g->node->op_name[0] == 'S' ? "DepthToSpace" : "SpaceToDepth",
                         MF_IN(g->dy[0]), "block_size=%lld data_format='%s'",
                         (long long)mf_node_int(g->node, "block_size"),
                         mf_node_string(g->node, "data_format"));
    return MF_OK;
}

/* ---- SpaceToBatchND, BatchToSpaceND and their old spellings ---- */

typedef struct batch_plan {
    int n; /* spatial dimensions: 1 .. n of the tensors */
    bool nd; /* SpaceToBatchND, BatchToSpaceND: any rank */
    int64_t block[MF_MAX_RANK], blocks;
    mf_pairs pads; /* paddings, or crops of the inverse */
} batch_plan;

static bool to_batch(const mf_node *node)
{
    return node->op_name[0] == 'S';
}

/* block_shape: NULL for the old ops, which have an attribute block_size and two dimensions. */
static mf_status batch_read(const mf_node *node, const mf_tensor *block_shape,
                            const mf_tensor *pads, batch_plan *p)
{
    mf_ivec block = { .n = 2 };

    if (block_shape)
        MF_TRY(mf_ivec_read(block_shape, MF_MAX_RANK - 1, "block_shape", &block));
    else
        block.v[0] = block.v[1] = mf_node_int(node, "block_size");
    *p = (batch_plan){ .n = block.n, .blocks = 1, .nd = block_shape != NULL };
    for (int d = 0; d < p->n; d++) {
        p->block[d] = block.v[d];
        if (block.v[d] < 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "block_shape[%d] = %" PRId64 " must be positive", d,
                           block.v[d]);
        if (!mf_mul_i64(p->blocks, block.v[d], &p->blocks))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the product of block_shape is too large");
    }
    return mf_pairs_read(pads, p->n, to_batch(node) ? "paddings" : "crops", &p->pads);
}

static mf_status batch_spatial(const batch_plan *p, int d, bool forward, int64_t dim, int64_t *out)
{
    const int64_t before = p->pads.before[d], after = p->pads.after[d];

    *out = dim;
    if (dim < 0)
        return MF_OK;
    if (forward) {
        if (!mf_add_i64(dim, before, out) || !mf_add_i64(*out, after, out) ||
            *out % p->block[d] != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "padded_shape[%d]=%" PRId64
                           " is not divisible by block_shape[%d]=%" PRId64,
                           d, *out, d, p->block[d]);
        *out /= p->block[d];
        return MF_OK;
    }
    if (!mf_mul_i64(dim, p->block[d], out) || before > *out || after > *out - before)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "crops (%" PRId64 ", %" PRId64 ") exceed dimension %d of %" PRId64
                       " blocks of %" PRId64,
                       before, after, d, dim, p->block[d]);
    *out -= before + after;
    return MF_OK;
}

static mf_status batch_result(const mf_node *node, const batch_plan *p, const mf_shape *x,
                              mf_shape *out)
{
    const bool forward = to_batch(node);

    if (!p->nd && x->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input rank should be 4 instead of %d", x->rank);
    if (x->rank < p->n + 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input rank should be >= %d instead of %d", p->n + 1,
                       x->rank);
    *out = *x;
    MF_TRY(scale_dim(x->dims[0], p->blocks, !forward, "batch", &out->dims[0]));
    for (int d = 0; d < p->n; d++)
        MF_TRY(batch_spatial(p, d, forward, x->dims[d + 1], &out->dims[d + 1]));
    return MF_OK;
}

static mf_status batch_infer(mf_infer *in)
{
    const bool nd = in->n_in == 3;
    const mf_tensor *block = nd ? in->in_value[1] : NULL, *pads = in->in_value[nd ? 2 : 1];
    const mf_shape *x = &in->in[0];
    batch_plan p;

    if (x->rank < 0)
        return MF_OK;
    if (pads && (block || !nd)) {
        MF_TRY(batch_read(in->node, block, pads, &p));
        return batch_result(in->node, &p, x, &in->out[0]);
    }
    in->out[0].rank = x->rank;
    for (int d = 0; d < x->rank; d++)
        in->out[0].dims[d] = MF_UNKNOWN_DIM;
    return MF_OK;
}

/* The cells at position `at` (one index per spatial dimension) of every block: a box on the batch
 * side, every block[d]-th cell on the space side, clipped to the part outside padding or crops. */
static mf_status move_place(mf_kernel *k, const batch_plan *p, mf_tensor *out, int64_t place)
{
    const bool forward = to_batch(k->node);
    const mf_shape *space = forward ? &k->in[0]->shape : &out->shape;
    const mf_shape *batch = forward ? &out->shape : &k->in[0]->shape;
    int64_t ss[MF_MAX_RANK], bs[MF_MAX_RANK], at[MF_MAX_RANK], space_at = 0, batch_at = 0;
    mf_strided_copy m = { .dtype = out->dtype };

    mf_strides_of(space, ss);
    mf_strides_of(batch, bs);
    batch_at = place * space->dims[0] * bs[0];
    for (int d = p->n - 1; d >= 0; d--) {
        at[d] = place % p->block[d];
        place /= p->block[d];
    }
    space_blocks_add_dim(&m, forward, space->dims[0], ss[0], bs[0]);
    for (int d = 0; d < p->n; d++) {
        /* Cell i of the batch side is cell i * block + shift of the space side. */
        const int64_t block = p->block[d], shift = at[d] - p->pads.before[d];
        const int64_t first = shift >= 0 ? 0 : (-shift + block - 1) / block;
        const int64_t room = space->dims[d + 1] - shift;
        const int64_t end = room <= 0 ? 0 : (room + block - 1) / block;
        const int64_t last = end < batch->dims[d + 1] ? end : batch->dims[d + 1];

        if (last <= first)
            return MF_OK;
        space_blocks_add_dim(&m, forward, last - first, last - first > 1 ? ss[d + 1] * block : 0,
                             bs[d + 1]);
        space_at += (first * block + shift) * ss[d + 1];
        batch_at += first * bs[d + 1];
    }
    space_blocks_add_dim(&m, forward, mf_shape_span(space, p->n + 1, space->rank), 1, 1);
    m.src = mf_cell_at(m.dtype, k->in[0]->data, forward ? space_at : batch_at);
    m.dst = mf_cell_at(m.dtype, out->data, forward ? batch_at : space_at);
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status batch_run(mf_kernel *k)
{
    const bool nd = k->n_in == 3;
    batch_plan p;
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(batch_read(k->node, nd ? k->in[1] : NULL, k->in[nd ? 2 : 1], &p));
    MF_TRY(batch_result(k->node, &p, &k->in[0]->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (k->in[0]->count < out->count)
        mf_cells_zero(out->dtype, out->data, 0, out->count); /* the padding */
    if (k->in[0]->count == 0 || out->count == 0)
        return MF_OK;
    for (int64_t place = 0; place < p.blocks; place++)
        MF_TRY(move_place(k, &p, out, place));
    return MF_OK;
}

static mf_status batch_nd_grad(mf_grad *g)
{
    g->dx[0] =
        MF_G3(to_batch(g->node) ? "BatchToSpaceND" : "SpaceToBatchND", g->dy[0], g->x[1], g->x[2]);
    return MF_OK;
}

static mf_status space_blocks_batch_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, to_batch(g->node) ? "BatchToSpace" : "SpaceToBatch",
                         MF_IN(g->dy[0], g->x[1]), "block_size=%lld",
                         (long long)mf_node_int(g->node, "block_size"));
    return MF_OK;
}

const mf_op mf_ops_blocks[] = {
    { .name = "SpaceToDepth",
      .def = "(input:T) -> (output:T) {T:type, block_size:int>=2, "
             "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
      .infer = space_blocks_depth_infer,
      .grad = space_blocks_depth_grad,
      .prepare = space_blocks_depth_prepare,
      .run = space_blocks_depth_run,
      .samples = MF_SAMPLES("f32[2,4,6,3] ; block_size=2", "i32[1,3,3,1] ; block_size=3",
                            "f32[1,2,4,6] ; block_size=2 data_format='NCHW' !notf",
                            "f32[0,2,2,3] ; block_size=2", "f32[1,3,4,1] ; block_size=2 !fails",
                            "f32[4,4] ; block_size=2 !fails") },
    { .name = "DepthToSpace",
      .def = "(input:T) -> (output:T) {T:type, block_size:int>=2, "
             "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C']}",
      .infer = space_blocks_depth_infer,
      .grad = space_blocks_depth_grad,
      .prepare = space_blocks_depth_prepare,
      .run = space_blocks_depth_run,
      .samples = MF_SAMPLES("f32[2,2,3,12] ; block_size=2", "f64[1,1,2,9] ; block_size=3",
                            "f32[1,8,2,3] ; block_size=2 data_format='NCHW' !notf",
                            "f32[1,2,2,6] ; block_size=2 !fails") },
    { .name = "SpaceToBatchND",
      .def = "(input:T, block_shape:Tblock_shape, paddings:Tpaddings) -> (output:T) "
             "{T:type, Tblock_shape:type=int32 in index, Tpaddings:type=int32 in "
             "index}",
      .infer = batch_infer,
      .grad = batch_nd_grad,
      .run = batch_run,
      .samples = MF_SAMPLES(
          "f32[2,4,6,3] i32[2]{2,3} i32[2,2]{0,0,0,0}",
          "f32[1,3,5,2] i32[2]{2,4} i32[2,2]{1,0,2,1}", "f64[2,5] i64[1]{3} i64[1,2]{0,1}",
          "i32[2,3] i32[0] i32[0,2]", "f32[1,3,1] i32[1]{2} i32[1,2]{4,1}",
          "f32[1,3,1] i32[1]{2} i32[1,2]{0,0} !fails", "f32[1,4,1] i32[1]{0} i32[1,2]{0,0} !fails",
          "f32[1,4,1] i32[1]{2} i32[1,2]{-2,0} !fails") },
    { .name = "BatchToSpaceND",
      .def = "(input:T, block_shape:Tblock_shape, crops:Tcrops) -> (output:T) {T:type,"
             " Tblock_shape:type=int32 in index, Tcrops:type=int32 in index}",
      .infer = batch_infer,
      .grad = batch_nd_grad,
      .run = batch_run,
      .samples = MF_SAMPLES(
          "f32[12,2,2,3] i32[2]{2,3} i32[2,2]{0,0,0,0}",
          "f32[8,2,2,2] i32[2]{2,4} i32[2,2]{1,0,2,1}", "f64[6,2] i64[1]{3} i64[1,2]{0,1}",
          "f32[5,2] i32[1]{2} i32[1,2]{0,0} !fails", "f32[4,2] i32[1]{2} i32[1,2]{3,2} !fails") },
    { .name = "SpaceToBatch",
      .def = "(input:T, paddings:Tpaddings) -> (output:T) {T:type, "
             "Tpaddings:type=int32 in index, block_size:int>=2}",
      .infer = batch_infer,
      .grad = space_blocks_batch_grad,
      .run = batch_run,
      .samples = MF_SAMPLES("f32[2,4,6,3] i32[2,2]{0,0,0,0} ; block_size=2",
                            "f32[1,3,5,2] i32[2,2]{1,0,0,1} ; block_size=2") },
    { .name = "BatchToSpace",
      .def = "(input:T, crops:Tidx) -> (output:T) {T:type, block_size:int>=2, "
             "Tidx:type=int32 in index}",
      .infer = batch_infer,
      .grad = space_blocks_batch_grad,
      .run = batch_run,
      .samples = MF_SAMPLES("f32[4,2,3,2] i32[2,2]{0,0,0,0} ; block_size=2",
                            "f32[8,2,3,1] i32[2,2]{1,0,0,1} ; block_size=2") },
    { 0 },
};
