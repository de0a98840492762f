/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_source.c - datasets from tensors and numbers. */
#include "ops/dataset/dataset_op.h"

#include <string.h>

typedef struct dataset_source_counting {
    mf_cursor cursor;
    int64_t at;
} dataset_source_counting;

/* ---- Tensor: one element ---- */

static mf_status tensor_check(mf_dataset_op *d)
{
    for (int i = 0; i < d->n_parts; i++)
        d->shapes[i] = d->args[i].shape;
    return MF_OK;
}

static mf_status tensor_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_source_counting *k = (dataset_source_counting *)c;

    (void)w;
    *end = k->at++ > 0;
    for (int i = 0; !*end && i < c->set->n_parts; i++)
        mf_tensor_set(&row[i], &c->set->args[i]);
    k->at = 1;
    return MF_OK;
}

static int64_t tensor_size(const mf_dataset_op *d)
{
    (void)d;
    return 1;
}

static const mf_dataset_op_kind tensor = { .name = "Tensor",
                                           .cursor_bytes = sizeof(dataset_source_counting),
                                           .check = tensor_check,
                                           .next = tensor_next,
                                           .size = tensor_size };
MF_DATASET_OP_KERNEL(tensor)

/* ---- TensorSlice: one for each row ---- */

static mf_status slice_check(mf_dataset_op *d)
{
    for (int i = 0; i < d->n_parts; i++) {
        const mf_shape *s = &d->args[i].shape;

        if (s->rank < 1)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "All components must be at least 1-dimensional, but component %d is a "
                           "scalar",
                           i);
        if (s->dims[0] != d->args[0].shape.dims[0])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "All components must have the same size in the 0th dimension");
        d->shapes[i] = (mf_shape){ .rank = s->rank - 1 };
        memcpy(d->shapes[i].dims, s->dims + 1, (size_t)(s->rank - 1) * sizeof(int64_t));
    }
    return MF_OK;
}

static int64_t slice_size(const mf_dataset_op *d)
{
    return d->args[0].shape.dims[0];
}

static mf_status slice_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_source_counting *k = (dataset_source_counting *)c;
    const mf_dataset_op *d = c->set;

    (void)w;
    *end = k->at >= slice_size(d);
    for (int i = 0; !*end && i < d->n_parts; i++) {
        MF_TRY(mf_tensor_alloc(&row[i], d->types[i], &d->shapes[i]));
        MF_TRY(mf_cells_copy(d->types[i], row[i].data, 0, d->args[i].data, k->at * row[i].count,
                             row[i].count));
    }
    k->at += !*end;
    return MF_OK;
}

static const mf_dataset_op_kind slice = { .name = "TensorSlice",
                                          .cursor_bytes = sizeof(dataset_source_counting),
                                          .check = slice_check,
                                          .next = slice_next,
                                          .size = slice_size };
MF_DATASET_OP_KERNEL(slice)

/* ---- Range ---- */

enum { START, STOP, STEP };

static mf_status range_check(mf_dataset_op *d)
{
    if (mf_dataset_op_int(d, STEP) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "step must be a non-zero integer.");
    if (d->n_parts != 1 || !mf_dtype_is_plain(d->types[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a range has one component, of numbers");
    return MF_OK;
}

static int64_t range_size(const mf_dataset_op *d)
{
    const int64_t start = mf_dataset_op_int(d, START), stop = mf_dataset_op_int(d, STOP);
    const int64_t step = mf_dataset_op_int(d, STEP);
    const uint64_t way =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    uint64_t n;

    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    n = way / stride + (way % stride != 0);
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static mf_status range_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_source_counting *k = (dataset_source_counting *)c;
    const mf_dataset_op *d = c->set;
    int64_t value;

    (void)w;
    *end = k->at >= range_size(d);
    if (*end)
        return MF_OK;
    value = (int64_t)((uint64_t)mf_dataset_op_int(d, START) +
                      (uint64_t)k->at * (uint64_t)mf_dataset_op_int(d, STEP));
    k->at++;
    MF_TRY(mf_tensor_alloc(&row[0], d->types[0], &MF_SCALAR));
    if (d->types[0] == MF_DTYPE_I64)
        *(int64_t *)row[0].data = value;
    else
        mf_tensor_put(&row[0], 0, (double)value);
    return MF_OK;
}

static const mf_dataset_op_kind range = { .name = "Range",
                                          .cursor_bytes = sizeof(dataset_source_counting),
                                          .check = range_check,
                                          .next = range_next,
                                          .size = range_size };
MF_DATASET_OP_KERNEL(range)

#define PARTS                                                                                      \
    "(components:*Toutput_types" MF_DATASET_OP_OUT                                                 \
    "Toutput_types:list(type)>=1, output_shapes:list(shape)>=1, "

const mf_op mf_ops_dataset_source[] = {
    MF_DATASET_OP_OP("TensorDataset", PARTS "metadata:string=''} is_stateful", tensor),
    MF_DATASET_OP_OP("TensorSliceDataset",
                     PARTS
                     "is_files:bool=false, metadata:string='', replicate_on_split:bool=false} "
                     "is_stateful",
                     slice),
    MF_DATASET_OP_OP("RangeDataset",
                     "(start:int64, stop:int64, step:int64" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES
                     ", metadata:string='', replicate_on_split:bool=false} is_stateful",
                     range),
    { 0 },
};
