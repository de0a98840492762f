/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c - shape inference functions and helpers for ops. */
#include "graph/op.h"

mf_status mf_infer_unknown(mf_infer *in)
{
    (void)in; /* outputs are unknown on entry */
    return MF_OK;
}

mf_status mf_infer_none(mf_infer *in)
{
    (void)in;
    return MF_OK;
}

mf_status mf_infer_same(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = in->in[0];
    return MF_OK;
}

mf_status mf_infer_scalar(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = MF_SCALAR;
    return MF_OK;
}

mf_status mf_infer_broadcast(mf_infer *in)
{
    return mf_shape_broadcast(&in->in[0], &in->in[1], &in->out[0]);
}

mf_status mf_infer_rank(const mf_infer *in, int input, int rank)
{
    char text[MF_SHAPE_TEXT];

    if (in->in[input].rank < 0 || in->in[input].rank == rank)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "input %d must have rank %d, but has shape %s", input, rank,
                   mf_shape_text(&in->in[input], text));
}

mf_status mf_infer_rank_at_least(const mf_infer *in, int input, int rank)
{
    char text[MF_SHAPE_TEXT];

    if (in->in[input].rank < 0 || in->in[input].rank >= rank)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "input %d must have at least rank %d, but has shape %s",
                   input, rank, mf_shape_text(&in->in[input], text));
}

mf_status mf_infer_shape_input(const mf_infer *in, int input, mf_shape *out)
{
    const mf_tensor *v = in->in_value[input];
    const mf_shape *s = &in->in[input];
    const int64_t n = v ? v->count : s->rank == 1 ? s->dims[0] : -1;

    *out = MF_SHAPE_UNKNOWN;
    if (s->rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input %d is a shape and must be a vector", input);
    if (n < 0)
        return MF_OK;
    if (n > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input %d requests rank %lld; the maximum is %d", input,
                       (long long)n, MF_MAX_RANK);
    out->rank = (int)n;
    for (int i = 0; i < n; i++) {
        out->dims[i] = v ? mf_tensor_int_at(v, i) : MF_UNKNOWN_DIM;
        if (out->dims[i] < -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "input %d: dimension %d is %lld; it must be >= 0",
                           input, i, (long long)out->dims[i]);
    }
    return MF_OK;
}

bool mf_infer_int_input(const mf_infer *in, int input, int64_t *out)
{
    const mf_tensor *v = in->in_value[input];

    if (!v || v->count != 1)
        return false;
    *out = mf_tensor_int_at(v, 0);
    return true;
}

void mf_infer_value(mf_infer *in, int output, const mf_tensor *value)
{
    mf_tensor_set(&in->out_value[output], value);
}
