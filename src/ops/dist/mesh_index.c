/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_index.c - indices into a dimension of which a device holds a shard: indices inside the shard
 * are made relative to it, others are dropped. spmd/lower/spmd_lower.c inserts these ops. */
#include "graph/split.h"

#include <string.h>

typedef struct mesh_index_piece {
    int64_t begin, size;
    int64_t limit; /* upper bound of valid indices; -1: none */
    bool negative; /* negative indices are valid */
} mesh_index_piece;

static mf_status piece_prepare(mf_prepare *p)
{
    mesh_index_piece *s = MF_ARENA_NEW(p->arena, mesh_index_piece);

    if (!s)
        return MF_NOMEM("indices");
    *s = (mesh_index_piece){ mf_node_int(p->node, "begin"), mf_node_int(p->node, "size"),
                             mf_node_int(p->node, "limit"), mf_node_bool(p->node, "negative") };
    p->state = s;
    return MF_OK;
}

/* Position of index i in the shard; -1: outside. */
static int64_t mesh_index_place(const mesh_index_piece *s, const mf_tensor *ids, int64_t i)
{
    const int64_t id = mf_tensor_int_at(ids, i);

    const uint64_t at = (uint64_t)id - (uint64_t)s->begin; /* unsigned: does not overflow */

    return id >= s->begin && s->size > 0 && at < (uint64_t)s->size ? (int64_t)at : -1;
}

/* An invalid index of the whole dimension is an error on every shard. */
static mf_status mesh_index_check_range(const mesh_index_piece *s, const mf_tensor *ids)
{
    for (int64_t i = 0; i < ids->count; i++) {
        const int64_t id = mf_tensor_int_at(ids, i);

        if ((id < 0 && !s->negative) || (s->limit >= 0 && id >= s->limit))
            return MF_FAIL(MF_INVALID_ARGUMENT, "indices[%lld] = %lld is not in [0, %lld)",
                           (long long)i, (long long)id, (long long)s->limit);
    }
    return MF_OK;
}

static mf_status indices_run(mf_kernel *k)
{
    const mf_tensor *ids = k->in[0];
    mf_tensor *out;

    MF_TRY(mesh_index_check_range(k->state, ids));
    MF_TRY(mf_kernel_out(k, 0, &ids->shape, &out));
    for (int64_t i = 0; i < ids->count; i++)
        mf_tensor_put(out, i, (double)mesh_index_place(k->state, ids, i));
    return MF_OK;
}

/* ---- rows that are there ---- */

static mf_status select_infer(mf_infer *in)
{
    in->out[0] = in->in[0];
    if (in->out[0].rank > 0)
        in->out[0].dims[0] = MF_UNKNOWN_DIM;
    in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

static mf_status mesh_index_select_run(mf_kernel *k)
{
    const mf_tensor *rows = k->in[0], *ids = k->in[1];
    const mesh_index_piece *s = k->state;
    mf_shape shape = rows->shape;
    int64_t n = 0, row, at = 0;
    mf_tensor *out, *where;

    if (rows->shape.rank < 1 || ids->shape.rank != 1 || rows->shape.dims[0] != ids->count)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there must be an index for each row");
    MF_TRY(mesh_index_check_range(s, ids));
    for (int64_t i = 0; i < ids->count; i++)
        n += mesh_index_place(s, ids, i) >= 0;
    row = ids->count > 0 ? rows->count / ids->count : 0;
    shape.dims[0] = n;
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &where));
    for (int64_t i = 0; i < ids->count; i++) {
        const int64_t id = mesh_index_place(s, ids, i);

        if (id < 0)
            continue;
        MF_TRY(mf_cells_copy(rows->dtype, out->data, at * row, rows->data, i * row, row));
        mf_tensor_put(where, at++, (double)id);
    }
    return MF_OK;
}

/* ---- rows of a table, or nothing ---- */

static mf_status mesh_index_rows_shape(const mf_shape *table, const mf_shape *ids, mf_shape *out)
{
    *out = *ids;
    if (table->rank < 1 || table->rank - 1 + ids->rank > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "rows of a table of rank %d by indices of rank %d",
                       table->rank, ids->rank);
    for (int d = 1; d < table->rank; d++)
        out->dims[out->rank++] = table->dims[d];
    return MF_OK;
}

static mf_status mesh_index_rows_infer(mf_infer *in)
{
    if (in->in[0].rank < 1 || in->in[1].rank < 0 ||
        mf_type_base(in->node->in_types[0]) == MF_DTYPE_RESOURCE)
        return MF_OK;
    return mesh_index_rows_shape(&in->in[0], &in->in[1], &in->out[0]);
}

static mf_status mesh_index_take_rows(mf_kernel *k, const mf_tensor *table)
{
    const mf_tensor *ids = k->in[1];
    mf_shape shape;
    mf_tensor *out;
    size_t bytes;

    if (table->dtype != mf_type_base(k->node->out_types[0]) || !mf_dtype_is_plain(table->dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the table is %s, not %s", mf_dtype_name(table->dtype),
                       mf_dtype_name(k->node->out_types[0]));
    MF_TRY(mesh_index_rows_shape(&table->shape, &ids->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    bytes = (size_t)(out->count / ids->count) * mf_dtype_cell(table->dtype);
    for (int64_t i = 0; i < ids->count; i++) {
        const int64_t id = mf_tensor_int_at(ids, i);
        char *to = (char *)out->data + (size_t)i * bytes;

        if (id >= table->shape.dims[0])
            return MF_FAIL(MF_INVALID_ARGUMENT, "indices[%lld] = %lld is not in [0, %lld)",
                           (long long)i, (long long)id, (long long)table->shape.dims[0]);
        if (id < 0)
            memset(to, 0, bytes);
        else
            memcpy(to, (const char *)table->data + (size_t)id * bytes, bytes);
    }
    return MF_OK;
}

static mf_status mesh_index_rows_run(mf_kernel *k)
{
    return mesh_index_take_rows(k, k->in[0]);
}

static mf_status variable_rows_run(mf_kernel *k)
{
    mf_tensor table = { 0 };
    mf_variable *v;
    mf_status st;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    MF_TRY(mf_variable_read(v, &table));
    st = mesh_index_take_rows(k, &table);
    mf_tensor_clear(&table);
    return st;
}

const mf_op mf_ops_mesh_index[] = {
    /* Indices relative to [begin, begin + size); -1: outside. limit: size of the whole dimension if
     * indices beyond it are errors; negative: whether indices below 0 are valid. */
    { .name = "_MeshIndices",
      .def = "(ids:T) -> (local:T) {T:type in [int8,int16,int32,int64,uint8], begin:int, size:int, "
             "limit:int=-1, negative:bool=true}",
      .infer = mf_infer_same,
      .grad = mf_grad_missing,
      .prepare = piece_prepare,
      .run = indices_run,
      .split = mf_split_same,
      .samples = MF_SAMPLES("i32[5]{0,3,4,6,7} ; begin=3 size=4", "i64[2,2] ; begin=-2 size=3",
                            "i32[0] ; begin=0 size=0", "i32[3]{-1,3,9} ; begin=3 size=4 limit=10",
                            "i32[3]{1,3,10} ; begin=3 size=4 limit=10 !fails",
                            "i32[3]{1,-1,9} ; begin=3 size=4 limit=10 negative=false !fails") },
    /* Rows whose index is inside, and that index. */
    { .name = "_MeshSelect",
      .def = "(rows:T, ids:Tids) -> (local:T, places:Tids) {T:type, Tids:type in [int32,int64], "
             "begin:int, size:int, limit:int=-1, negative:bool=true}",
      .infer = select_infer,
      .grad = mf_grad_missing,
      .prepare = piece_prepare,
      .run = mesh_index_select_run,
      .samples = MF_SAMPLES("f32[5,2] i32[5]{0,3,4,6,7} ; begin=3 size=4",
                            "f64[3] i64[3]{9,1,2} ; begin=5 size=0",
                            "f32[2,2] i32[3]{0,1,2} ; begin=0 size=9 !fails",
                            "f32[2,2] i32[2]{0,9} ; begin=0 size=5 limit=9 !fails") },
    /* Rows of a table; zeros for negative indices. */
    { .name = "_RowsOrZero",
      .def = "(params:T, indices:Tindices) -> (output:T) {T:type in numbers, "
             "Tindices:type in [int16,int32,int64]}",
      .infer = mesh_index_rows_infer,
      .grad = mf_grad_missing,
      .run = mesh_index_rows_run,
      .samples = MF_SAMPLES("f32[5,3] i32[4]{1,-1,0,4}", "f64[4] i64[2,2]{0,-1,1,2}",
                            "f32[5,3] i32[0]", "f32[5,3] i32[1]{5} !fails") },
    { .name = "_VariableRowsOrZero",
      .def = "(resource:resource, indices:Tindices) -> (output:dtype) {dtype:type, "
             "Tindices:type in [int16,int32,int64]} is_stateful",
      .infer = mesh_index_rows_infer,
      .grad = mf_grad_missing,
      .run = variable_rows_run,
      .samples = MF_SAMPLES("var:f32[5,3] i32[4]{1,-1,0,4} ; dtype=float !nograd !notf",
                            "var:f32[5,3] i32[1]{5} ; dtype=float !fails") },
    { 0 },
};
