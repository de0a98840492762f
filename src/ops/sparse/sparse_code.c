/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_code.c - serializes sparse tensors as three strings or variants: TensorProtos or tensors,
 * of indices, values and shape. SerializeSparse, SerializeManySparse, DeserializeSparse,
 * DeserializeManySparse. */
#include "ops/sparse/sparse_util.h"
#include "ops/state/variant_tensor.h"
#include "ops/string/tensor_text.h"
#include "proto/tensor_codec.h"
#include "proto/wire.h"

enum { PARTS = 3, MAX_BYTES = 1 << 30 }; /* maximum of a serialized part */

/* ---- writing ---- */

static mf_status sparse_code_write_string(const mf_tensor *t, mf_string *to)
{
    mf_arena *arena = mf_arena_new();
    Tensorflow__TensorProto *message;
    mf_buf bytes = { 0 };
    mf_status st;

    if (!arena)
        return MF_NOMEM("a tensor's message");
    MF_TRY_TO(done, mf_tensor_encode(t, arena, &message));
    MF_TRY_TO(done, mf_wire_encode(&message->base, &bytes));
    st = mf_string_set(to, bytes.data, bytes.len);
done:
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
    return st;
}

/* Cell i of `out`. */
static mf_status write_part(const mf_tensor *t, mf_tensor *out, int64_t i)
{
    return out->dtype == MF_DTYPE_VARIANT ? mf_variant_tensor_set((mf_object **)out->data + i, t)
                                          : sparse_code_write_string(t, (mf_string *)out->data + i);
}

/* Three cells of `out` from `at`: elements from..to of s, without their first `skip` dimensions. */
static mf_status write_slice(const mf_sparse *s, int64_t from, int64_t to, int skip, mf_tensor *out,
                             int64_t at)
{
    const int rank = s->rank - skip;
    mf_tensor part[PARTS] = { { 0 } };
    mf_status st;

    MF_TRY_TO(done, mf_tensor_alloc(&part[0], MF_DTYPE_I64, &MF_SHAPE(to - from, rank)));
    MF_TRY_TO(done, mf_tensor_alloc(&part[1], s->values->dtype, &MF_SHAPE(to - from)));
    MF_TRY_TO(done, mf_tensor_alloc(&part[2], MF_DTYPE_I64, &MF_SHAPE(rank)));
    for (int64_t i = from; i < to; i++)
        for (int d = 0; d < rank; d++)
            mf_index_put(&part[0], (i - from) * rank + d, mf_sparse_at(s, i, d + skip));
    MF_TRY_TO(done,
              mf_cells_copy(s->values->dtype, part[1].data, 0, s->values->data, from, to - from));
    for (int d = 0; d < rank; d++)
        mf_index_put(&part[2], d, s->size[d + skip]);
    for (int i = 0; i < PARTS; i++)
        MF_TRY_TO(done, write_part(&part[i], out, at + i));
done:
    for (int i = 0; i < PARTS; i++)
        mf_tensor_clear(&part[i]);
    return st;
}

static mf_status write_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = MF_SHAPE(PARTS);
    return MF_OK;
}

static mf_status write_many_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = MF_SHAPE(-1, PARTS);
    return MF_OK;
}

static mf_status sparse_code_write_run(mf_kernel *k)
{
    mf_tensor *out;
    mf_sparse s;

    MF_TRY(mf_sparse_read(k, 0, &s));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(PARTS), &out));
    return write_slice(&s, 0, s.n, 0, out, 0);
}

/* One sparse tensor per index of the first dimension; elements must be sorted by it. */
static mf_status write_many_run(mf_kernel *k)
{
    mf_tensor *out;
    mf_sparse s;
    int64_t at = 0;

    MF_TRY(mf_sparse_read(k, 0, &s));
    if (s.rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Rank of input SparseTensor should be > 1, but saw rank: %d", s.rank);
    MF_TRY(mf_sparse_check_bounds(&s));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s.size[0], PARTS), &out));
    for (int64_t row = 0; row < s.size[0]; row++) {
        const int64_t from = at;

        while (at < s.n && mf_sparse_at(&s, at, 0) == row)
            at++;
        MF_TRY(write_slice(&s, from, at, 1, out, row * PARTS));
    }
    if (at == s.n)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "element %" PRId64 " of the sparse tensor is not in the order of its first "
                   "dimension",
                   at);
}

/* ---- reading ---- */

typedef struct sparse_code_parts {
    mf_tensor index, values, shape;
} sparse_code_parts;

static mf_status sparse_code_read_string(const mf_string *s, mf_tensor *out)
{
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *message;
    mf_status st;

    if (!arena)
        return MF_NOMEM("a tensor's message");
    MF_TRY_TO(done, mf_wire_decode(&tensorflow__tensor_proto__descriptor, mf_string_data(s), s->len,
                                   NULL, arena, &message));
    st = mf_tensor_decode((const Tensorflow__TensorProto *)message, MAX_BYTES, out);
done:
    mf_arena_free(arena);
    return st;
}

/* Cell i of `in`. */
static mf_status sparse_code_read_part(const mf_tensor *in, int64_t i, mf_tensor *out)
{
    const mf_tensor *t;

    if (in->dtype != MF_DTYPE_VARIANT)
        return sparse_code_read_string(mf_strings(in) + i, out);
    MF_TRY(mf_variant_tensor_get(((mf_object *const *)in->data)[i], &t));
    mf_tensor_set(out, t);
    return MF_OK;
}

static mf_status sparse_code_check_parts(const sparse_code_parts *p, mf_dtype type, int64_t i)
{
    if (p->index.dtype != MF_DTYPE_I64 || p->shape.dtype != MF_DTYPE_I64 ||
        p->index.shape.rank != 2 || p->values.shape.rank != 1 || p->shape.shape.rank != 1 ||
        p->index.shape.dims[0] != p->values.count || p->index.shape.dims[1] != p->shape.count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected serialized_sparse[%" PRId64
                       "] to be indices, values and shape that fit together",
                       i);
    if (p->values.dtype != type)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Requested SparseTensor of type %s but SparseTensor[%" PRId64
                       "].values.dtype() == %s",
                       mf_dtype_name(type), i, mf_dtype_name(p->values.dtype));
    return MF_OK;
}

/* Totals over all sparse tensors; `size` is the maximum of each dimension. */
typedef struct total {
    int64_t n;
    int rank;
    int64_t size[MF_MAX_RANK];
} total;

static mf_status sparse_code_add_up(const sparse_code_parts *p, int64_t i, total *t)
{
    if (i == 0) {
        MF_TRY(mf_rank_check(p->shape.count > MF_MAX_RANK ? MF_MAX_RANK + 1 : (int)p->shape.count));
        t->rank = (int)p->shape.count;
    }
    if (p->shape.count != t->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Inconsistent rank across SparseTensors: rank prior to SparseTensor[%" PRId64
                       "] was %d but rank of it is %" PRId64,
                       i, t->rank, p->shape.count);
    t->n += p->values.count;
    for (int d = 0; d < t->rank; d++) {
        const int64_t size = mf_index_at(&p->shape, d);

        t->size[d] = size > t->size[d] ? size : t->size[d];
    }
    return MF_OK;
}

/* Indices of sparse tensor number `i` of a batch: prepends its position in the batch. */
static void sparse_code_put_indices(const sparse_code_parts *p, const mf_shape *batch, int64_t i,
                                    mf_tensor *to, int64_t at)
{
    const int64_t rank = p->shape.count, wide = batch->rank + rank;

    for (int64_t e = 0; e < p->values.count; e++) {
        int64_t rest = i;

        for (int d = batch->rank - 1; d >= 0; d--) {
            mf_index_put(to, (at + e) * wide + d, rest % batch->dims[d]);
            rest /= batch->dims[d];
        }
        for (int64_t d = 0; d < rank; d++)
            mf_index_put(to, (at + e) * wide + batch->rank + d,
                         mf_index_at(&p->index, e * rank + d));
    }
}

static mf_status sparse_code_write_all(mf_kernel *k, const sparse_code_parts *p, int64_t n,
                                       const mf_shape *batch, const total *t)
{
    const int rank = batch->rank + t->rank;
    mf_tensor *index, *values, *shape;
    int64_t at = 0;

    MF_TRY(mf_rank_check(rank));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(t->n, rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(t->n), &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(rank), &shape));
    for (int d = 0; d < rank; d++)
        mf_index_put(shape, d, d < batch->rank ? batch->dims[d] : t->size[d - batch->rank]);
    for (int64_t i = 0; i < n; i++) {
        sparse_code_put_indices(&p[i], batch, i, index, at);
        MF_TRY(
            mf_cells_copy(values->dtype, values->data, at, p[i].values.data, 0, p[i].values.count));
        at += p[i].values.count;
    }
    return MF_OK;
}

static mf_status sparse_code_read_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    in->out[0] = MF_SHAPE(-1, -1);
    in->out[1] = in->out[2] = MF_SHAPE(-1);
    return MF_OK;
}

static mf_status sparse_code_read_run(mf_kernel *k)
{
    const mf_tensor *in = k->in[0];
    mf_shape batch = in->shape;
    total t = { 0 };
    char text[MF_SHAPE_TEXT];
    mf_status st = MF_OK;
    sparse_code_parts *p;
    int64_t n;

    if (batch.rank < 1 || batch.dims[batch.rank - 1] != PARTS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Serialized sparse should have 3 as the last dimension, got shape %s",
                       mf_shape_text(&batch, text));
    batch.rank--;
    n = in->count / PARTS;
    if (n == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
    p = mf_calloc(n, sizeof *p);
    if (!p)
        return MF_NOMEM("sparse tensors");
    for (int64_t i = 0; i < n; i++) {
        MF_TRY_TO(done, sparse_code_read_part(in, i * PARTS, &p[i].index));
        MF_TRY_TO(done, sparse_code_read_part(in, i * PARTS + 1, &p[i].values));
        MF_TRY_TO(done, sparse_code_read_part(in, i * PARTS + 2, &p[i].shape));
        MF_TRY_TO(done, sparse_code_check_parts(&p[i], mf_out_type(k->node, 1), i));
        MF_TRY_TO(done, sparse_code_add_up(&p[i], i, &t));
    }
    st = sparse_code_write_all(k, p, n, &batch, &t);
done:
    for (int64_t i = 0; i < n; i++) {
        mf_tensor_clear(&p[i].index);
        mf_tensor_clear(&p[i].values);
        mf_tensor_clear(&p[i].shape);
    }
    mf_free(p);
    return st;
}

#define CODE_OP(NAME, DEF, INFER, RUN, ...)                                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = mf_grad_missing, .run = RUN,             \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define WRITE                                                                                      \
    "(sparse_indices:int64, sparse_values:T, sparse_shape:int64) -> (serialized_sparse:out_type) " \
    "{T:type, out_type:type=string in [string,variant]}"

const mf_op mf_ops_sparse_code[] = {
    CODE_OP("SerializeSparse", WRITE, write_infer, sparse_code_write_run,
            "i64[2,2]{0,1,2,0} f32[2] i64[2]{3,4} !unordered",
            "i64[2,2]{0,1,2,0} f32[3] i64[2]{3,4} !fails !notf"),
    CODE_OP("SerializeManySparse", WRITE, write_many_infer, write_many_run,
            "i64[2,2]{0,1,2,0} f32[2] i64[2]{3,4} !unordered",
            "i64[2,1]{0,1} f32[2] i64[1]{3} !fails"),
    CODE_OP("DeserializeSparse",
            "(serialized_sparse:Tserialized) -> (sparse_indices:int64, sparse_values:dtype, "
            "sparse_shape:int64) {dtype:type, Tserialized:type=string in [string,variant]}",
            sparse_code_read_infer, sparse_code_read_run, "str[3]{a,b,c} ; dtype=float !fails",
            "str[2]{a,b} ; dtype=float !fails"),
    CODE_OP("DeserializeManySparse",
            "(serialized_sparse:string) -> (sparse_indices:int64, sparse_values:dtype, "
            "sparse_shape:int64) {dtype:type}",
            sparse_code_read_infer, sparse_code_read_run, "str[1,3]{a,b,c} ; dtype=float !fails",
            "str[0,3] ; dtype=float !fails"),
    { 0 },
};
