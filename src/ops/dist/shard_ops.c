/* SPDX-License-Identifier: Apache-2.0 */
/* shard_ops.c - ops of a training step that is split into shards. compiler/sharding/shard_map.c
 * lowers them. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"

/* ---- training or inference ---- */

/* Only training has gradients. */
static mf_status by_mode_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    return MF_OK;
}

static mf_status by_mode_infer(mf_infer *in)
{
    in->out[0] = in->in[1];
    return MF_OK;
}

/* ---- what belongs to samples, of all that there is ---- */

static mf_status check_own(int64_t from, int64_t n, int64_t rows)
{
    if (from >= 0 && from <= rows - n)
        return MF_OK;
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "%lld samples from %lld on of the batch need a row each, but there are %lld rows: make "
        "batches smaller, or add rows (chains of an RBM)",
        (long long)n, (long long)from, (long long)rows);
}

static mf_status own_infer(mf_infer *in)
{
    const mf_shape *like = &in->in[0], *rows = &in->in[1];

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    MF_TRY(mf_infer_rank_at_least(in, 1, 1));
    in->out[0] = *rows;
    if (rows->rank > 0)
        in->out[0].dims[0] = like->rank > 0 ? like->dims[0] : -1;
    if (like->rank > 0 && rows->rank > 0 && like->dims[0] >= 0 && rows->dims[0] >= 0)
        return check_own(mf_node_int(in->node, "offset"), like->dims[0], rows->dims[0]);
    return MF_OK;
}

static mf_status own_prepare(mf_prepare *p)
{
    int64_t *offset = MF_ARENA_NEW(p->arena, int64_t);

    if (!offset)
        return MF_NOMEM("rows");
    *offset = mf_node_int(p->node, "offset");
    p->state = offset;
    return MF_OK;
}

static mf_status own_run(mf_kernel *k)
{
    const mf_tensor *all = k->in[1], *clock = k->in[2];
    mf_shape shape = all->shape;
    int64_t from = *(const int64_t *)k->state, n, row;
    mf_tensor *out;

    if (k->in[0]->shape.rank < 1 || shape.rank < 1 || clock->count < 2 || clock->count > 3)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "samples and rows must be first dimensions, and clock a vector of seed, "
                       "step and (if not 0) the batch's first sample");
    if (clock->count == 3)
        from = (int64_t)((uint64_t)from + (uint64_t)((const int64_t *)clock->data)[2]);
    n = k->in[0]->shape.dims[0];
    MF_TRY(check_own(from, n, shape.dims[0]));
    row = shape.dims[0] > 0 ? all->count / shape.dims[0] : 0;
    shape.dims[0] = n;
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return mf_cells_copy(out->dtype, out->data, 0, all->data, from * row, n * row);
}

/* ---- some rows ---- */

typedef struct rows_state {
    int64_t from, to;
} rows_state;

static mf_status shard_ops_rows_infer(mf_infer *in)
{
    const int64_t from = mf_node_int(in->node, "from"), to = mf_node_int(in->node, "to");

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    in->out[0] = in->in[0];
    if (in->in[0].rank < 1)
        return MF_OK;
    if (from < 0 || to < from || (in->in[0].dims[0] >= 0 && to > in->in[0].dims[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "rows %lld to %lld of %lld", (long long)from,
                       (long long)to, (long long)in->in[0].dims[0]);
    in->out[0].dims[0] = to - from;
    return MF_OK;
}

static mf_status rows_prepare(mf_prepare *p)
{
    rows_state *s = MF_ARENA_NEW(p->arena, rows_state);

    if (!s)
        return MF_NOMEM("rows");
    *s = (rows_state){ mf_node_int(p->node, "from"), mf_node_int(p->node, "to") };
    p->state = s;
    return MF_OK;
}

static mf_status shard_ops_rows_run(mf_kernel *k)
{
    const rows_state *s = k->state;
    const mf_tensor *x = k->in[0];
    mf_shape shape = x->shape;
    int64_t row;

    if (shape.rank < 1 || s->from < 0 || s->to < s->from || s->to > shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "rows %lld to %lld are not there", (long long)s->from,
                       (long long)s->to);
    row = shape.dims[0] > 0 ? x->count / shape.dims[0] : 0;
    shape.dims[0] = s->to - s->from;
    mf_kernel_view(k, 0, 0, &shape);
    k->out[0]->data = (char *)x->data + (size_t)(s->from * row) * mf_dtype_cell(x->dtype);
    k->out[0]->count = row * shape.dims[0];
    return MF_OK;
}

const mf_op mf_ops_shard[] = {
    /* x[from:to], sharing its storage. */
    { .name = "_Rows",
      .def = "(x:T) -> (rows:T) {T:type, from:int, to:int}",
      .flags = MF_OP_VIEW,
      .infer = shard_ops_rows_infer,
      .grad = mf_grad_missing,
      .prepare = rows_prepare,
      .run = shard_ops_rows_run,
      .samples =
          MF_SAMPLES("f32[5,3] ; from=1 to=4", "i32[4] ; from=2 to=2", "u8[3,2] ; from=0 to=3",
                     "f32[2] ; from=1 to=3 !fails", "f32[] ; from=0 to=0 !fails") },
    /* Applies f to each of `shards` parts of the batch: the first dimension of every `batched`
     * input is split into sizes that differ by at most one. Results are joined: 'sum' by the
     * reduction tree over the shard numbers, 'concat' along the first dimension. turns: number of
     * sequential groups of shards. buckets: for each result, its bucket in exchanges with other
     * workers; none: all sums in one, all others in another. names: the weight whose gradient a
     * result is, or ''. aggregation, trim, weights: aggregation of the gradients of all turns
     * (collective/gradient_aggregation.h); not if shards are exchanged. */
    { .name = "_ShardMap",
      .def = "(batched:*Tbatched, shared:*Tshared) -> (output:*Tout) {Tbatched:list(type)>=1, "
             "Tshared:list(type)>=0, Tout:list(type)>=1, f:func, shards:int>=1, "
             "turns:int=1, join:list(string)>=1, buckets:list(int)>=0=[], "
             "names:list(string)>=0=[], aggregation:string='mean', trim:float=0, "
             "weights:list(float)>=0=[]} is_stateful",
      .control = MF_CONTROL_CALL,
      .infer = mf_infer_unknown,
      .grad = mf_grad_missing },
    /* `training` inside a _ShardMap, `inference` elsewhere. The other one is not computed. */
    { .name = "_ByMode",
      .def = "(training:T, inference:T) -> (output:T) {T:type}",
      .control = MF_CONTROL_CALL,
      .infer = by_mode_infer,
      .grad = by_mode_grad },
    /* From rows of all samples of the batch, those of the shard's samples: as many as `like` has,
     * from the index of its first (found as for _SampleUniform). */
    { .name = "_SampleRows",
      .rows = mf_rows_own,
      .def = "(like:L, rows:T, clock:int64) -> (own:T) {L:type, T:type, offset:int=0}",
      .infer = own_infer,
      .grad = mf_grad_none,
      .prepare = own_prepare,
      .run = own_run,
      .samples =
          MF_SAMPLES("f32[2,5]~ f32[4,3] i64[2]{7,9} ; offset=1", "i32[3] f32[3] i64[2]{7,9}",
                     "f32[2]~ i32[5,2] i64[3]{7,9,2} ; offset=1", "f32[0]~ f32[2] i64[2]{7,9}",
                     "f32[2]~ f32[4] i64[2]{7,9} ; offset=3 !fails",
                     "f32[2]~ f32[4] i64[1]{7} !fails", "f32[2]~ f32[] i64[2]{7,9} !fails") },
    { 0 },
};
