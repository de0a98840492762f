/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_concat.c - ParallelConcat: tensors of one row each, below each other. */
#include "ops/array/array_util.h"

/* The attribute says what the result will be, and is believed before anything runs. */
static mf_status parallel_concat_check_shape(const mf_node *node, const mf_shape *row)
{
    const mf_shape *said = mf_node_shape(node, "shape");
    mf_shape whole = *row;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (row->rank > 0)
        whole.dims[0] = node->n_inputs;
    if (mf_shape_compatible(said, &whole))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%d values of shape %s give a result of shape %s, but the attribute 'shape' is "
                   "%s",
                   node->n_inputs, mf_shape_text(row, a), mf_shape_text(&whole, b),
                   mf_shape_text(said, (char[MF_SHAPE_TEXT]){ 0 }));
}

static mf_status parallel_concat_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_in; i++)
        MF_TRY(parallel_concat_check_shape(in->node, &in->in[i]));
    in->out[0] = *mf_node_shape(in->node, "shape");
    return MF_OK;
}

static mf_status parallel_concat_run(mf_kernel *k)
{
    mf_shape shape = k->in[0]->shape;
    const int64_t row = k->in[0]->count;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_tensor *out;

    if (shape.rank < 1 || shape.dims[0] != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Size of first dimension must be 1, got shape %s",
                       mf_shape_text(&shape, a));
    for (int i = 1; i < k->n_in; i++) {
        if (!mf_shape_equal(&k->in[i]->shape, &shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "All values must have one shape: %s vs. %s",
                           mf_shape_text(&shape, a), mf_shape_text(&k->in[i]->shape, b));
    }
    MF_TRY(parallel_concat_check_shape(k->node, &shape));
    shape.dims[0] = k->n_in;
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int i = 0; i < k->n_in; i++)
        MF_TRY(mf_cells_copy(out->dtype, out->data, i * row, k->in[i]->data, 0, row));
    return MF_OK;
}

const mf_op mf_op_parallel_concat = {
    .name = "ParallelConcat",
    .def = "(values:N*T) -> (output:T) {N:int>=1, T:type, shape:shape}",
    .infer = parallel_concat_infer,
    .grad = mf_grad_missing,
    .run = parallel_concat_run,
    .samples = MF_SAMPLES(
        "f32[1,3] f32[1,3] ; shape=shape[2,3] !notf", "str[1] str[1] str[1] ; shape=shape[3] !notf",
        "i32[1,2,2] ; shape=shape[1,2,2] !notf", "f32[2,3] f32[2,3] ; shape=shape[4,3] !fails",
        "f32[1,3] f32[1,2] ; shape=shape[2,3] !fails",
        "f32[1,3] f32[1,3] ; shape=shape[1,3] !fails"),
};
