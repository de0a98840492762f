/* SPDX-License-Identifier: Apache-2.0 */
/* unique.c - sets by hashing: Unique and its variants, ListDiff. Elements keep the order of their
 * first occurrence. Floats compare by value: -0 equals 0, and NaN equals nothing. */
#include "base/map.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

/* ---- rows of elements: equality and hash ---- */

/* Rows of `n` elements each, dense. */
typedef struct row_set {
    mf_dtype dtype;
    const char *data;
    int64_t n;
    size_t bytes; /* of a row */
} row_set;

static row_set unique_rows_of(const mf_tensor *t, const void *data, int64_t n)
{
    return (row_set){
        .dtype = t->dtype, .data = data, .n = n, .bytes = (size_t)n * mf_dtype_cell(t->dtype)
    };
}

static bool rows_equal(const row_set *s, int64_t i, const row_set *t, int64_t j)
{
    const char *a = s->data + (size_t)i * s->bytes, *b = t->data + (size_t)j * t->bytes;

    if (s->dtype == MF_DTYPE_STRING) {
        const mf_string *x = (const mf_string *)a, *y = (const mf_string *)b;

        for (int64_t e = 0; e < s->n; e++) {
            if (x[e].len != y[e].len || (x[e].len && memcmp(x[e].data, y[e].data, x[e].len) != 0))
                return false;
        }
        return true;
    }
    if (mf_dtype_is_float(s->dtype)) {
        const mf_tensor x = { .dtype = s->dtype, .data = (void *)(uintptr_t)a };
        const mf_tensor y = { .dtype = s->dtype, .data = (void *)(uintptr_t)b };

        for (int64_t e = 0; e < s->n; e++) {
            if (mf_tensor_float_at(&x, e) != mf_tensor_float_at(&y, e))
                return false;
        }
        return true;
    }
    return memcmp(a, b, s->bytes) == 0;
}

static uint64_t row_hash(const row_set *s, int64_t i)
{
    const char *a = s->data + (size_t)i * s->bytes;
    uint64_t h = 0;

    if (s->dtype == MF_DTYPE_STRING) {
        for (int64_t e = 0; e < s->n; e++)
            h = mf_hash(((const mf_string *)a)[e].data, ((const mf_string *)a)[e].len, h + 1);
        return h;
    }
    if (mf_dtype_is_float(s->dtype)) {
        const mf_tensor x = { .dtype = s->dtype, .data = (void *)(uintptr_t)a };

        for (int64_t e = 0; e < s->n; e++) {
            const double v = mf_tensor_float_at(&x, e) + 0.0; /* -0 + 0 is 0 */

            h = mf_hash(&v, sizeof v, h + 1);
        }
        return h;
    }
    return mf_hash(a, s->bytes, 0);
}

/* ---- an open hash table of row numbers, in pooled memory ---- */

typedef struct row_table {
    mf_tensor slots; /* int64: row + 1, 0 when empty */
    int64_t mask;
} row_table;

static mf_status table_init(row_table *t, int64_t n)
{
    int64_t size = 16;

    while (size < 2 * n)
        size *= 2;
    MF_TRY(mf_tensor_alloc(&t->slots, MF_DTYPE_I64, &MF_SHAPE(size)));
    memset(t->slots.data, 0, (size_t)size * sizeof(int64_t));
    t->mask = size - 1;
    return MF_OK;
}

/* The slot that holds a row equal to row i of `probe`, or the empty slot for it. */
static int64_t *table_slot(const row_table *t, const row_set *rows, const row_set *probe, int64_t i)
{
    int64_t *slots = t->slots.data;
    uint64_t at = row_hash(probe, i);

    for (;; at++) {
        int64_t *slot = &slots[at & (uint64_t)t->mask];

        if (*slot == 0 || rows_equal(rows, *slot - 1, probe, i))
            return slot;
    }
}

/* ---- Unique ---- */

/* x viewed as [outer, n, inner]: entries run along the middle dimension. */
typedef struct unique_job {
    const mf_tensor *x;
    int axis;
    int64_t outer, n, inner;
    mf_tensor gathered; /* [n, outer, inner] if outer > 1: entries as dense rows */
    row_set rows;
    row_table table;
    mf_tensor first; /* int64 [n]: entry of the i-th unique value */
    int64_t found;
} unique_job;

static mf_status unique_axis(const mf_kernel *k, unique_job *job)
{
    const mf_shape *s = &job->x->shape;
    const mf_tensor *axis = strstr(k->node->op_name, "V2") ? k->in[1] : NULL;
    char text[MF_SHAPE_TEXT];

    if (axis && axis->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "axis expects a 1D vector, got shape %s",
                       mf_shape_text(&axis->shape, text));
    if (!axis || axis->count == 0) {
        if (s->rank != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "unique expects a 1D vector.");
        return MF_OK;
    }
    if (axis->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "axis does not support input tensors larger than 1 element");
    return mf_axis_read(mf_index_at(axis, 0), s->rank, "axis", &job->axis);
}

static mf_status unique_gather_rows(mf_kernel *k, unique_job *job)
{
    const mf_tensor *x = job->x;
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };

    if (job->outer == 1) {
        job->rows = unique_rows_of(x, x->data, job->inner);
        return MF_OK;
    }
    MF_TRY(mf_tensor_alloc(&job->gathered, x->dtype, &MF_SHAPE(x->count)));
    m.dst = job->gathered.data;
    mf_strided_copy_add(&m, job->n, job->outer * job->inner, job->inner);
    mf_strided_copy_add(&m, job->outer, job->inner, job->n * job->inner);
    mf_strided_copy_add(&m, job->inner, 1, 1);
    job->rows = unique_rows_of(x, job->gathered.data, job->outer * job->inner);
    return mf_strided_copy_run(k->step->pool, &m);
}

/* Numbers the entries: idx[i] is the number of entry i's value. */
static void find_unique(unique_job *job, mf_tensor *idx, mf_tensor *counts)
{
    int64_t *first = job->first.data;

    for (int64_t i = 0; i < job->n; i++) {
        int64_t *slot = table_slot(&job->table, &job->rows, &job->rows, i);
        int64_t number;

        if (*slot == 0) {
            *slot = i + 1;
            number = job->found;
            first[job->found++] = i;
            mf_index_put(counts, number, 0);
        } else {
            number = mf_index_at(idx, *slot - 1);
        }
        mf_index_put(idx, i, number);
        mf_index_put(counts, number, mf_index_at(counts, number) + 1);
    }
}

static mf_status write_unique(mf_kernel *k, unique_job *job, const mf_tensor *counts)
{
    const int64_t *first = job->first.data;
    mf_shape shape = job->x->shape;
    mf_tensor *out;

    shape.dims[job->axis] = job->found;
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t o = 0; o < job->outer; o++) {
        for (int64_t i = 0; i < job->found; i++)
            MF_TRY(mf_cells_copy(out->dtype, out->data, (o * job->found + i) * job->inner,
                                 job->x->data, (o * job->n + first[i]) * job->inner, job->inner));
    }
    if (k->n_out < 3)
        return MF_OK;
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(job->found), &out));
    return mf_cells_copy(out->dtype, out->data, 0, counts->data, 0, job->found);
}

static mf_status unique_run(mf_kernel *k)
{
    unique_job job = { .x = k->in[0] };
    mf_tensor *idx, counts = { 0 };
    const mf_shape *s = &k->in[0]->shape;
    mf_status st;

    if (s->rank == 0 || job.x->dtype == MF_DTYPE_RESOURCE || job.x->dtype == MF_DTYPE_VARIANT)
        return MF_FAIL(MF_INVALID_ARGUMENT, "unique expects a 1D vector of values");
    MF_TRY(unique_axis(k, &job));
    job.n = s->dims[job.axis];
    job.outer = mf_shape_span(s, 0, job.axis);
    job.inner = mf_shape_span(s, job.axis + 1, s->rank);
    MF_TRY_TO(done, mf_kernel_out(k, 1, &MF_SHAPE(job.n), &idx));
    MF_TRY_TO(done, mf_tensor_alloc(&counts, idx->dtype, &MF_SHAPE(job.n)));
    MF_TRY_TO(done, mf_tensor_alloc(&job.first, MF_DTYPE_I64, &MF_SHAPE(job.n)));
    MF_TRY_TO(done, table_init(&job.table, job.n));
    MF_TRY_TO(done, unique_gather_rows(k, &job));
    find_unique(&job, idx, &counts);
    st = write_unique(k, &job, &counts);

done:
    mf_tensor_clear(&job.gathered);
    mf_tensor_clear(&job.first);
    mf_tensor_clear(&job.table.slots);
    mf_tensor_clear(&counts);
    return st;
}

static mf_status unique_infer(mf_infer *in)
{
    const bool v2 = strstr(in->node->op_name, "V2") != NULL;
    const mf_shape *x = &in->in[0];
    int64_t axis = 0;
    int at = 0;

    for (int i = 1; i < in->n_out; i++)
        in->out[i] = MF_SHAPE(MF_UNKNOWN_DIM);
    if (!v2 || (in->in_value[1] && in->in_value[1]->count == 0))
        MF_TRY(mf_infer_rank(in, 0, 1));
    else if (!mf_infer_int_input(in, 1, &axis))
        return MF_OK;
    if (x->rank < 0)
        return MF_OK;
    MF_TRY(mf_axis_read(axis, x->rank, "axis", &at));
    in->out[0] = *x;
    in->out[0].dims[at] = MF_UNKNOWN_DIM;
    in->out[1].dims[0] = x->dims[at];
    return MF_OK;
}

/* ---- ListDiff ---- */

static mf_status diff_write(mf_kernel *k, const row_table *table, int64_t kept)
{
    const mf_tensor *x = k->in[0], *y = k->in[1];
    const row_set xs = unique_rows_of(x, x->data, 1), ys = unique_rows_of(y, y->data, 1);
    mf_tensor *out, *idx;
    int64_t n = 0;

    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(kept), &out));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(kept), &idx));
    for (int64_t i = 0; i < x->count; i++) {
        if (*table_slot(table, &ys, &xs, i) != 0)
            continue;
        MF_TRY(mf_cells_copy(x->dtype, out->data, n, x->data, i, 1));
        mf_index_put(idx, n++, i);
    }
    return MF_OK;
}

static mf_status unique_diff_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *y = k->in[1];
    const row_set xs = unique_rows_of(x, x->data, 1), ys = unique_rows_of(y, y->data, 1);
    row_table table = { 0 };
    int64_t kept = 0;
    mf_status st;

    if (x->shape.rank != 1 || y->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%c should be a 1D vector.",
                       x->shape.rank != 1 ? 'x' : 'y');
    MF_TRY(table_init(&table, y->count));
    for (int64_t i = 0; i < y->count; i++)
        *table_slot(&table, &ys, &ys, i) = i + 1;
    for (int64_t i = 0; i < x->count; i++)
        kept += *table_slot(&table, &ys, &xs, i) == 0;
    st = diff_write(k, &table, kept);
    mf_tensor_clear(&table.slots);
    return st;
}

static mf_status diff_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 1));
    in->out[0] = in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

#define UNIQUE(NAME, DEF_, ...)                                                                    \
    {                                                                                              \
        .name = NAME, .def = DEF_, .infer = unique_infer, .grad = mf_grad_missing,                 \
        .run = unique_run, .samples = MF_SAMPLES(__VA_ARGS__)                                      \
    }

const mf_op mf_ops_unique[] = {
    UNIQUE("Unique", "(x:T) -> (y:T, idx:out_idx) {T:type, out_idx:type=int32 in index}",
           "i32[9]@0:4", "i64[5] ; out_idx=int64", "f32[5]{0,-0,1,2,1} !nograd", "str[4]{a,b,a,c}",
           "i32[0]", "f16[4]{1,2,1,2} !nograd", "i32[2,2] !fails"),
    UNIQUE("UniqueV2",
           "(x:T, axis:Taxis) -> (y:T, idx:out_idx) {T:type, Taxis:type=int64 in "
           "index, out_idx:type=int32 in index}",
           "i32[3,2]{1,2,1,2,0,2} i64[1]{0}", "i32[2,3]{1,2,1,2,0,2} i32[1]{1}",
           "i32[6]@0:3 i64[0]", "f64[2,2,2]{1,2,1,2,3,4,3,4} i64[1]{-2} !nograd",
           "i32[2,2] i64[0] !fails", "i32[2,2] i64[1]{2} !fails"),
    UNIQUE("UniqueWithCounts",
           "(x:T) -> (y:T, idx:out_idx, count:out_idx) {T:type, out_idx:type=int32 "
           "in index}",
           "i32[9]@0:4", "str[4]{a,b,a,c}", "u8[3]{1,1,1} ; out_idx=int64"),
    UNIQUE("UniqueWithCountsV2",
           "(x:T, axis:Taxis) -> (y:T, idx:out_idx, count:out_idx) {T:type, "
           "Taxis:type=int64 in index, out_idx:type=int32 in index}",
           "i32[3,2]{1,2,1,2,0,2} i64[1]{0}", "i32[6]@0:3 i64[0]"),
    { .name = "ListDiff",
      .def = "(x:T, y:T) -> (out:T, idx:out_idx) {T:type, out_idx:type=int32 in index}",
      .infer = diff_infer,
      .grad = mf_grad_missing,
      .run = unique_diff_run,
      .samples = MF_SAMPLES("i32[4]{1,2,3,2} i32[1]{3}", "i64[5] i64[3] ; out_idx=int64",
                            "str[3]{a,b,c} str[2]{b,x}", "f32[2] f32[0] !nograd", "i32[0] i32[2]",
                            "i32[1,1] i32[1] !fails") },
    { 0 },
};
