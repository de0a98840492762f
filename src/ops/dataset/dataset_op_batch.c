/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op_batch.c - batches: stacks elements, pads them to a common shape, and unbatches. */
#include "ops/array/array_util.h"
#include "ops/dataset/dataset_op.h"

#include <string.h>

typedef struct batching {
    mf_cursor cursor;
    bool over;
} batching;

/* ---- gathering ---- */

static bool drops_remainder(const mf_dataset_op *d, int arg)
{
    return arg < d->n_args && d->args[arg].dtype == MF_DTYPE_BOOL &&
           *(const uint8_t *)d->args[arg].data;
}

static mf_status dataset_op_batch_check_size(const mf_dataset_op *d)
{
    if (mf_dataset_op_int(d, 1) <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Batch size must be greater than zero.");
    return MF_OK;
}

/* The next rows, at most one batch; fewer at the end. */
static mf_status dataset_op_batch_gather(mf_cursor *c, mf_walk *w, mf_dataset_rows *rows)
{
    batching *b = (batching *)c;
    const int64_t size = mf_dataset_op_int(c->set, 1);
    const int n = c->input->set->n_parts;
    mf_tensor *row = mf_row_new(n);
    mf_status st = row ? MF_OK : MF_NOMEM("a batch");

    rows->n_parts = n;
    while (st == MF_OK && !b->over && rows->n < size) {
        st = mf_cursor_next(c->input, w, row, &b->over);
        if (st == MF_OK && !b->over)
            st = mf_rows_add(rows, row);
    }
    mf_row_free(row, n);
    return st;
}

static int64_t batches(const mf_dataset_op *d, bool drop)
{
    const int64_t n = mf_dataset_op_input_size(d), size = mf_dataset_op_int(d, 1);

    return n < 0 ? n : n / size + (!drop && n % size != 0);
}

/* ---- Batch ---- */

static mf_status stack(const mf_dataset_rows *rows, int part, mf_tensor *out)
{
    const mf_tensor *first = &rows->parts[part];
    mf_shape shape = { .rank = first->shape.rank + 1 };
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    MF_TRY(mf_rank_check(shape.rank));
    shape.dims[0] = rows->n;
    memcpy(shape.dims + 1, first->shape.dims, (size_t)first->shape.rank * sizeof(int64_t));
    MF_TRY(mf_tensor_alloc(out, first->dtype, &shape));
    for (int64_t i = 0; i < rows->n; i++) {
        const mf_tensor *t = &rows->parts[i * rows->n_parts + part];

        if (!mf_shape_equal(&t->shape, &first->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Cannot batch tensors with different shapes in component %d. First "
                           "element had shape %s and element %lld had shape %s.",
                           part, mf_shape_text(&first->shape, a), (long long)i,
                           mf_shape_text(&t->shape, b));
        MF_TRY(mf_cells_copy(t->dtype, out->data, i * t->count, t->data, 0, t->count));
    }
    return MF_OK;
}

static int drop_arg(const mf_dataset_op *d)
{
    return d->n_args - 1; /* the last, if there is one */
}

static mf_status batch_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    mf_dataset_rows rows = { 0 };
    mf_status st = dataset_op_batch_gather(c, w, &rows);

    *end = rows.n == 0 ||
           (rows.n < mf_dataset_op_int(c->set, 1) && drops_remainder(c->set, drop_arg(c->set)));
    for (int i = 0; st == MF_OK && !*end && i < c->set->n_parts; i++)
        st = stack(&rows, i, &row[i]);
    mf_rows_deinit(&rows);
    return st;
}

/* The output has the same parts and types as the input. */
static mf_status batch_check(mf_dataset_op *d)
{
    MF_TRY(dataset_op_batch_check_size(d));
    return mf_dataset_op_same_parts(d, mf_dataset_op_arg(d, 0));
}

static int64_t batch_size(const mf_dataset_op *d)
{
    return batches(d, drops_remainder(d, drop_arg(d)));
}

static const mf_dataset_op_kind batch = { .name = "Batch",
                                          .cursor_bytes = sizeof(batching),
                                          .on_input = true,
                                          .check = batch_check,
                                          .next = batch_next,
                                          .size = batch_size };
MF_DATASET_OP_KERNEL(batch)

/* ---- PaddedBatch: dataset, batch_size, shapes, values, drop_remainder ---- */

static const mf_tensor *pad_shape(const mf_dataset_op *d, int part)
{
    return &d->args[2 + part];
}

static const mf_tensor *pad_value(const mf_dataset_op *d, int part)
{
    return &d->args[2 + d->n_parts + part];
}

static bool pad_drops(const mf_dataset_op *d)
{
    return drops_remainder(d, 2 + 2 * d->n_parts);
}

static mf_status pad_check(mf_dataset_op *d)
{
    MF_TRY(batch_check(d));
    if (d->n_args < 2 + 2 * d->n_parts)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Number of padded shapes (%d) must match the number of components in the "
                       "input dataset's elements (%d)",
                       d->n_args - 2, d->n_parts);
    for (int i = 0; i < d->n_parts; i++) {
        mf_ivec unused;

        MF_TRY(mf_ivec_read(pad_shape(d, i), MF_MAX_RANK - 1, "padded_shapes", &unused));
        if (pad_value(d, i)->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "All padding values must be scalars");
        if (pad_value(d, i)->dtype != d->types[i])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Mismatched type between padding value %d and input dataset's component "
                           "%d: %s vs. %s",
                           i, i, mf_dtype_name(pad_value(d, i)->dtype), mf_dtype_name(d->types[i]));
    }
    return MF_OK;
}

/* The smallest shape that fits all rows. */
static mf_status dataset_op_batch_padded_shape(const mf_dataset_op *d, const mf_dataset_rows *rows,
                                               int part, mf_shape *out)
{
    mf_ivec wanted;

    MF_TRY(mf_ivec_read(pad_shape(d, part), MF_MAX_RANK - 1, "padded_shapes", &wanted));
    *out = (mf_shape){ .rank = wanted.n + 1 };
    out->dims[0] = rows->n;
    for (int k = 0; k < wanted.n; k++)
        out->dims[k + 1] = wanted.v[k] < 0 ? 0 : wanted.v[k];
    for (int64_t i = 0; i < rows->n; i++) {
        const mf_shape *s = &rows->parts[i * rows->n_parts + part].shape;

        if (s->rank != wanted.n)
            return MF_FAIL(
                MF_INVALID_ARGUMENT,
                "All elements in a batch must have the same rank as the padded shape for "
                "component%d: expected rank %d but got element with rank %d",
                part, wanted.n, s->rank);
        for (int k = 0; k < s->rank; k++) {
            if (wanted.v[k] >= 0 && s->dims[k] > wanted.v[k])
                return MF_FAIL(MF_DATA_LOSS,
                               "Attempted to pad to a smaller size than the input element.");
            if (s->dims[k] > out->dims[k + 1])
                out->dims[k + 1] = s->dims[k];
        }
    }
    return MF_OK;
}

/* Copies t to the corner of row i of `out`. */
static mf_status put_corner(mf_tensor *out, int64_t i, const mf_tensor *t)
{
    const int rank = t->shape.rank;
    const int64_t run = rank ? t->shape.dims[rank - 1] : 1;
    int64_t index[MF_MAX_RANK] = { 0 };

    for (int64_t from = 0; run > 0 && from < t->count; from += run) {
        int64_t to = i;

        for (int k = 0; k < rank; k++)
            to = to * out->shape.dims[k + 1] + index[k];
        MF_TRY(mf_cells_copy(t->dtype, out->data, to, t->data, from, run));
        for (int k = rank - 2; k >= 0 && ++index[k] == t->shape.dims[k]; k--)
            index[k] = 0;
    }
    return MF_OK;
}

static mf_status dataset_op_batch_pad(const mf_dataset_op *d, const mf_dataset_rows *rows, int part,
                                      mf_tensor *out)
{
    mf_shape shape;

    MF_TRY(dataset_op_batch_padded_shape(d, rows, part, &shape));
    MF_TRY(mf_tensor_alloc(out, d->types[part], &shape));
    MF_TRY(mf_cells_fill(out->dtype, out->data, 0, out->count, pad_value(d, part)->data));
    for (int64_t i = 0; i < rows->n; i++)
        MF_TRY(put_corner(out, i, &rows->parts[i * rows->n_parts + part]));
    return MF_OK;
}

static mf_status pad_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    mf_dataset_rows rows = { 0 };
    mf_status st = dataset_op_batch_gather(c, w, &rows);

    *end = rows.n == 0 || (rows.n < mf_dataset_op_int(c->set, 1) && pad_drops(c->set));
    for (int i = 0; st == MF_OK && !*end && i < c->set->n_parts; i++)
        st = dataset_op_batch_pad(c->set, &rows, i, &row[i]);
    mf_rows_deinit(&rows);
    return st;
}

static int64_t pad_size(const mf_dataset_op *d)
{
    return batches(d, pad_drops(d));
}

static const mf_dataset_op_kind padded = { .name = "PaddedBatch",
                                           .cursor_bytes = sizeof(batching),
                                           .on_input = true,
                                           .check = pad_check,
                                           .next = pad_next,
                                           .size = pad_size };
MF_DATASET_OP_KERNEL(padded)

/* ---- Unbatch ---- */

typedef struct unbatching {
    mf_cursor cursor;
    mf_tensor *whole;
    int64_t at, n;
} unbatching;

static mf_status unbatch_begin(mf_cursor *c, mf_walk *w)
{
    unbatching *u = (unbatching *)c;

    (void)w;
    u->whole = mf_row_new(c->set->n_parts);
    return u->whole ? MF_OK : MF_NOMEM("an iterator");
}

static mf_status next_whole(unbatching *u, mf_walk *w, bool *end)
{
    const int n = u->cursor.set->n_parts;

    mf_row_clear(u->whole, n);
    u->at = u->n = 0;
    MF_TRY(mf_cursor_next(u->cursor.input, w, u->whole, end));
    for (int i = 0; !*end && i < n; i++) {
        const mf_shape *s = &u->whole[i].shape;

        if (s->rank == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Input element must have a non-scalar value in each component.");
        if (i > 0 && s->dims[0] != u->n)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Input element must have the same batch size in each component.");
        u->n = s->dims[0];
    }
    return MF_OK;
}

static mf_status unbatch_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    unbatching *u = (unbatching *)c;

    while (!*end && u->at >= u->n)
        MF_TRY(next_whole(u, w, end));
    for (int i = 0; !*end && i < c->set->n_parts; i++) {
        const mf_tensor *t = &u->whole[i];
        mf_shape shape = { .rank = t->shape.rank - 1 };

        memcpy(shape.dims, t->shape.dims + 1, (size_t)shape.rank * sizeof(int64_t));
        MF_TRY(mf_tensor_alloc(&row[i], t->dtype, &shape));
        MF_TRY(
            mf_cells_copy(t->dtype, row[i].data, 0, t->data, u->at * row[i].count, row[i].count));
    }
    u->at++;
    return MF_OK;
}

static void unbatch_end(mf_cursor *c)
{
    mf_row_free(((unbatching *)c)->whole, c->set->n_parts);
}

static mf_status unbatch_check(mf_dataset_op *d)
{
    return mf_dataset_op_same_parts(d, mf_dataset_op_arg(d, 0));
}

static const mf_dataset_op_kind unbatch = { .name = "Unbatch",
                                            .cursor_bytes = sizeof(unbatching),
                                            .on_input = true,
                                            .check = unbatch_check,
                                            .begin = unbatch_begin,
                                            .next = unbatch_next,
                                            .end = unbatch_end };
MF_DATASET_OP_KERNEL(unbatch)

#define BATCH "(input_dataset:variant, batch_size:int64"
#define PAD BATCH ", padded_shapes:N*int64, padding_values:*Toutput_types"
#define PAD_TYPES                                                                                  \
    "Toutput_types:list(type)>=1, output_shapes:list(shape)>=1, N:int>=1" MF_DATASET_OP_META

const mf_op mf_ops_dataset_batch[] = {
    MF_DATASET_OP_OP("BatchDataset", BATCH MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     batch),
    MF_DATASET_OP_OP("BatchDatasetV2",
                     BATCH ", drop_remainder:bool" MF_DATASET_OP_OUT
                           "parallel_copy:bool=false, " MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     batch),
    MF_DATASET_OP_OP("ParallelBatchDataset",
                     BATCH ", num_parallel_calls:int64, drop_remainder:bool" MF_DATASET_OP_OUT
                           "parallel_copy:bool=false, " MF_DATASET_OP_TYPES
                           ", deterministic:string='default'" MF_DATASET_OP_META,
                     batch),
    MF_DATASET_OP_OP("PaddedBatchDataset", PAD MF_DATASET_OP_OUT PAD_TYPES, padded),
    MF_DATASET_OP_OP("PaddedBatchDatasetV2",
                     PAD ", drop_remainder:bool" MF_DATASET_OP_OUT
                         "parallel_copy:bool=false, " PAD_TYPES,
                     padded),
    MF_DATASET_OP_OP(
        "UnbatchDataset",
        "(input_dataset:variant" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META, unbatch),
    { 0 },
};
