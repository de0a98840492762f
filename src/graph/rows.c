/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - the rules by which kernels treat the samples of a batch independently. */
#include "graph/rows.h"

#include <string.h>

static bool rows_is_rows(const mf_rows_query *q, int i)
{
    return q->in_spread[i] == MF_ROWS && q->in[i].rank >= 1 && q->in[i].dims[0] > 0 &&
           q->in[i].dims[0] % q->samples == 0;
}

static bool is_fixed(const mf_rows_query *q, int i)
{
    return q->in_spread[i] == MF_SHARED || q->in_spread[i] == MF_DIMS;
}

static bool gives_rows(const mf_rows_query *q, int64_t rows)
{
    for (int i = 0; i < q->node->n_outputs; i++) {
        if (q->out[i].rank < 1 || q->out[i].dims[0] != rows)
            return false;
    }
    return true;
}

/* ---- rules ---- */

/* Shared operands must be equal for every row. */
bool mf_rows_elementwise(const mf_rows_query *q)
{
    const mf_shape *out = &q->out[0];
    bool any = false;

    if (out->rank < 1)
        return false;
    for (int i = 0; i < q->node->n_inputs; i++) {
        if (rows_is_rows(q, i) && q->in[i].rank == out->rank && q->in[i].dims[0] == out->dims[0])
            any = true;
        else if (q->in_spread[i] != MF_SHARED ||
                 !(q->in[i].rank >= 0 && (q->in[i].rank < out->rank || q->in[i].dims[0] == 1)))
            return false;
    }
    return any;
}

/* Input 0 in rows, the others shared (or sizes); rows are preserved. */
bool mf_rows_first(const mf_rows_query *q)
{
    for (int i = 1; i < q->node->n_inputs; i++) {
        if (!is_fixed(q, i))
            return false;
    }
    return rows_is_rows(q, 0) && gives_rows(q, q->in[0].dims[0]);
}

/* The last input in rows, the others shared or sizes. */
bool mf_rows_last(const mf_rows_query *q)
{
    const int n = q->node->n_inputs;

    for (int i = 0; i < n - 1; i++) {
        if (!is_fixed(q, i))
            return false;
    }
    return rows_is_rows(q, n - 1) && gives_rows(q, q->in[n - 1].dims[0]);
}

bool mf_rows_all(const mf_rows_query *q)
{
    for (int i = 0; i < q->node->n_inputs; i++) {
        if (!rows_is_rows(q, i) || q->in[i].dims[0] != q->in[0].dims[0])
            return false;
    }
    return gives_rows(q, q->in[0].dims[0]);
}

/* Every number in input i is known and, as an axis of input 0, not the first. */
static bool axes_spare_rows(const mf_rows_query *q, int i, int rank)
{
    const mf_tensor *axes = q->in_value[i];

    if (!axes)
        return false;
    for (int64_t k = 0; k < axes->count; k++) {
        const int64_t a = mf_tensor_int_at(axes, k);

        if (a == 0 || a == -rank)
            return false;
    }
    return true;
}

bool mf_rows_axes(const mf_rows_query *q)
{
    return axes_spare_rows(q, 1, q->in[0].rank) && mf_rows_first(q);
}

bool mf_rows_expand(const mf_rows_query *q)
{
    return axes_spare_rows(q, 1, q->in[0].rank + 1) && mf_rows_first(q);
}

bool mf_rows_reshape(const mf_rows_query *q)
{
    return rows_is_rows(q, 0) && is_fixed(q, 1) && q->out[0].rank >= 1 && q->out[0].dims[0] > 0 &&
           q->out[0].dims[0] % q->samples == 0;
}

bool mf_rows_squeeze(const mf_rows_query *q)
{
    int64_t n;
    const int64_t *dims = mf_node_ints(q->node, "squeeze_dims", &n);

    for (int64_t i = 0; i < n; i++) {
        if (dims[i] == 0 || dims[i] == -q->in[0].rank)
            return false;
    }
    return n > 0 && mf_rows_first(q);
}

bool mf_rows_matmul(const mf_rows_query *q)
{
    return rows_is_rows(q, 0) && q->in_spread[1] == MF_SHARED &&
           !mf_node_bool(q->node, "transpose_a");
}

/* Batched matrices: complete matrices belong to rows. */
bool mf_rows_batch_matmul(const mf_rows_query *q)
{
    const mf_shape *a = &q->in[0], *b = &q->in[1], *out = &q->out[0];

    if (out->rank < 3 || !gives_rows(q, out->dims[0]) || out->dims[0] % q->samples != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const mf_shape *s = i ? b : a;

        if (rows_is_rows(q, i)
                ? s->rank != out->rank || s->dims[0] != out->dims[0]
                : q->in_spread[i] != MF_SHARED || (s->rank == out->rank && s->dims[0] != 1))
            return false;
    }
    return true;
}

static bool first_value_is(const mf_rows_query *q, int i, int64_t value, int64_t n)
{
    const mf_tensor *t = q->in_value[i];

    for (int64_t k = 0; k < n; k++) {
        if (!t || t->count <= k || mf_tensor_int_at(t, k) != value)
            return false;
    }
    return true;
}

bool mf_rows_transpose(const mf_rows_query *q)
{
    return first_value_is(q, 1, 0, 1) && mf_rows_first(q);
}

bool mf_rows_tile(const mf_rows_query *q)
{
    return first_value_is(q, 1, 1, 1) && mf_rows_first(q);
}

bool mf_rows_pad(const mf_rows_query *q)
{
    return first_value_is(q, 1, 0, 2) && mf_rows_first(q);
}

bool mf_rows_slice(const mf_rows_query *q)
{
    return first_value_is(q, 1, 0, 1) && mf_rows_first(q);
}

/* x[:, ...]: the first dimension is not sliced. */
static bool whole_first_dim(const mf_node *n)
{
    const int64_t others = mf_node_int(n, "ellipsis_mask") | mf_node_int(n, "new_axis_mask") |
                           mf_node_int(n, "shrink_axis_mask");

    return (mf_node_int(n, "begin_mask") & mf_node_int(n, "end_mask") & 1) && !(others & 1);
}

bool mf_rows_strided(const mf_rows_query *q)
{
    return whole_first_dim(q->node) && first_value_is(q, 3, 1, 1) && mf_rows_first(q);
}

bool mf_rows_strided_grad(const mf_rows_query *q)
{
    return whole_first_dim(q->node) && first_value_is(q, 3, 1, 1) && mf_rows_last(q);
}

bool mf_rows_concat(const mf_rows_query *q)
{
    const int n = q->node->n_inputs - 1;

    for (int i = 0; i < n; i++) {
        if (!rows_is_rows(q, i) || q->in[i].dims[0] != q->in[0].dims[0])
            return false;
    }
    return n > 0 && axes_spare_rows(q, n, q->in[0].rank) && gives_rows(q, q->in[0].dims[0]);
}

/* Split has its axis first, SplitV last. */
bool mf_rows_split(const mf_rows_query *q)
{
    const int x = strcmp(q->node->op_name, "Split") == 0 ? 1 : 0, axis = x ? 0 : 2;

    return rows_is_rows(q, x) && is_fixed(q, axis) && axes_spare_rows(q, axis, q->in[x].rank) &&
           gives_rows(q, q->in[x].dims[0]);
}

bool mf_rows_pack(const mf_rows_query *q)
{
    const int64_t axis = mf_node_int(q->node, "axis");

    return axis != 0 && axis != -q->out[0].rank && mf_rows_all(q);
}

bool mf_rows_unpack(const mf_rows_query *q)
{
    const int64_t axis = mf_node_int(q->node, "axis");

    return axis != 0 && axis != -q->in[0].rank && mf_rows_all(q);
}

/* Rows of a shared table, indexed by ids in rows. */
bool mf_rows_lookup(const mf_rows_query *q)
{
    const bool has_axis = q->node->n_inputs > 2;

    return q->in_spread[0] == MF_SHARED && rows_is_rows(q, 1) &&
           mf_node_int(q->node, "batch_dims") == 0 && (!has_axis || first_value_is(q, 2, 0, 1)) &&
           gives_rows(q, q->in[1].dims[0]);
}

bool mf_rows_one_hot(const mf_rows_query *q)
{
    return mf_node_int(q->node, "axis") != 0 && mf_rows_first(q);
}

bool mf_rows_in_top_k(const mf_rows_query *q)
{
    return rows_is_rows(q, 0) && rows_is_rows(q, 1) && q->in_spread[2] == MF_SHARED &&
           gives_rows(q, q->in[0].dims[0]);
}

/* Samples in rows, all other inputs shared. Other row-wise inputs must have one row per sample:
 * several rows per sample would be counted incorrectly. */
bool mf_rows_own(const mf_rows_query *q)
{
    return q->in[0].rank >= 1 && q->in[0].dims[0] == q->samples && mf_rows_first(q);
}

/* Boxes and scores per image. */
bool mf_rows_boxes(const mf_rows_query *q)
{
    for (int i = 2; i < q->node->n_inputs; i++) {
        if (!is_fixed(q, i))
            return false;
    }
    return rows_is_rows(q, 0) && rows_is_rows(q, 1) && q->in[0].dims[0] == q->in[1].dims[0] &&
           gives_rows(q, q->in[0].dims[0]);
}

/* One value in all rows. */
bool mf_rows_fill(const mf_rows_query *q)
{
    const int value = strcmp(q->node->op_name, "Fill") == 0 ? 1 : 0;
    const mf_shape *v = &q->in[value];

    return q->in_spread[value] == MF_SHARED && q->in_spread[1 - value] == MF_DIMS &&
           q->out[0].rank >= 1 && q->out[0].dims[0] > 0 && q->out[0].dims[0] % q->samples == 0 &&
           v->rank >= 0 && (v->rank < q->out[0].rank || v->dims[0] == 1);
}

bool mf_rows_broadcast(const mf_rows_query *q)
{
    return mf_rows_fill(q) || (q->in[0].rank == q->out[0].rank && mf_rows_first(q));
}

/* ---- queries ---- */

bool mf_rows_apart(const mf_rows_query *q)
{
    const mf_kernel_def *k = mf_node_kernel(q->node);

    if (!k)
        return false;
    return k->rows ? k->rows(q) : k->loop && mf_rows_elementwise(q);
}

/* ---- sums over samples ---- */

bool mf_rows_summed(const mf_rows_query *q)
{
    if (strcmp(q->node->op_name, "MatMul") == 0)
        return rows_is_rows(q, 0) && rows_is_rows(q, 1) && mf_node_bool(q->node, "transpose_a") &&
               !mf_node_bool(q->node, "transpose_b") && mf_node_type(q->node, "T") == MF_DTYPE_F32;
    if (strcmp(q->node->op_name, "Conv2DBackpropFilter") == 0)
        return rows_is_rows(q, 0) && q->in_spread[1] == MF_SHARED && rows_is_rows(q, 2) &&
               q->in[0].dims[0] == q->samples && mf_node_type(q->node, "T") == MF_DTYPE_F32;
    return false;
}
