/* SPDX-License-Identifier: Apache-2.0 */
/* string_split.c - splits strings into sparse rows (StringSplit, StringSplitV2), and joins them
 * (ReduceJoin, UnsortedSegmentJoin). */
#include "ops/string/tensor_text.h"

/* ---- splitting ---- */

typedef struct string_split_piece {
    int64_t row, column;
    const char *data;
    size_t len;
} string_split_piece;

typedef struct pieces {
    string_split_piece *list;
    int64_t n, cap, columns; /* the longest row */
    int64_t row, column; /* position of the next piece */
    mf_status status;
} pieces;

static void add_piece(pieces *p, const char *data, size_t len)
{
    if (p->status == MF_OK)
        p->status = mf_stop_after(20);
    if (p->status == MF_OK)
        p->status = mf_grow(&p->list, &p->cap, p->n + 1, sizeof *p->list);
    if (p->status != MF_OK)
        return;
    p->list[p->n++] = (string_split_piece){ p->row, p->column++, data, len };
    p->columns = p->column > p->columns ? p->column : p->columns;
}

/* At every byte in `set`; if `set` is empty, between all bytes. */
static void split_at_set(pieces *p, const mf_string *s, const mf_string *set, bool skip_empty)
{
    size_t from = 0;

    if (s->len == 0)
        return;
    for (size_t i = 0; i < s->len && set->len == 0; i++)
        add_piece(p, s->data + i, 1);
    for (size_t i = 0; i <= s->len && set->len > 0; i++) {
        if (i < s->len && !memchr(set->data, s->data[i], set->len))
            continue;
        if (i > from || !skip_empty)
            add_piece(p, s->data + from, i - from);
        from = i + 1;
    }
}

static bool string_split_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* At runs of white space, at most `max` times (negative: no limit). */
static void split_at_space(pieces *p, const mf_string *s, int64_t max)
{
    size_t i = 0, from;

    if (max == 0) {
        add_piece(p, mf_string_data(s), s->len);
        return;
    }
    for (;;) {
        while (i < s->len && string_split_is_space(s->data[i]))
            i++;
        if (max == 0) /* the rest, even if it is empty */
            add_piece(p, s->data + i, s->len - i);
        if (max == 0 || i == s->len)
            return;
        for (from = i; i < s->len && !string_split_is_space(s->data[i]); i++)
            ;
        add_piece(p, s->data + from, i - from);
        max -= max > 0;
    }
}

static void split_at_word(pieces *p, const mf_string *s, const mf_string *word, int64_t max)
{
    const char *at = mf_string_data(s), *end = at + s->len, *next;

    while (max != 0 && (next = memmem(at, (size_t)(end - at), word->data, word->len)) != NULL) {
        add_piece(p, at, (size_t)(next - at));
        at = next + word->len;
        max -= max > 0; /* negative: no limit */
    }
    add_piece(p, at, (size_t)(end - at));
}

static mf_status store_pieces(mf_kernel *k, const pieces *p)
{
    mf_tensor *indices, *values, *shape;

    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(p->n, 2), &indices));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(p->n), &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(2), &shape));
    for (int64_t i = 0; i < p->n; i++) {
        ((int64_t *)indices->data)[2 * i] = p->list[i].row;
        ((int64_t *)indices->data)[2 * i + 1] = p->list[i].column;
        MF_TRY(mf_string_set(&((mf_string *)values->data)[i], p->list[i].data, p->list[i].len));
        MF_TRY(mf_stop_after(50));
    }
    ((int64_t *)shape->data)[0] = k->in[0]->count;
    ((int64_t *)shape->data)[1] = p->columns;
    return MF_OK;
}

static mf_status string_split_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 0));
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM, 2);
    in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    in->out[2] = MF_SHAPE(2);
    return MF_OK;
}

static mf_status string_split_run(mf_kernel *k)
{
    const bool v2 = strcmp(k->node->op_name, "StringSplitV2") == 0;
    const bool skip_empty = !v2 && mf_node_bool(k->node, "skip_empty");
    const int64_t max = v2 ? mf_node_int(k->node, "maxsplit") : -1;
    char text[MF_SHAPE_TEXT];
    pieces p = { .status = MF_OK };
    const mf_string *by;
    mf_status st;

    if (k->in[0]->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be a vector, got shape: %s",
                       mf_shape_text(&k->in[0]->shape, text));
    if (k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "delimiter must be a scalar, got shape: %s",
                       mf_shape_text(&k->in[1]->shape, text));
    by = mf_strings(k->in[1]);
    for (; p.row < k->in[0]->count; p.row++) {
        const mf_string *s = &mf_strings(k->in[0])[p.row];

        p.column = 0;
        if (!v2)
            split_at_set(&p, s, by, skip_empty);
        else if (by->len == 0)
            split_at_space(&p, s, max);
        else
            split_at_word(&p, s, by, max);
    }
    st = p.status == MF_OK ? store_pieces(k, &p) : p.status;
    mf_free(p.list);
    return st;
}

/* ---- ReduceJoin ---- */

static mf_status string_split_read_axes(const mf_tensor *axes, int rank, int *order, bool *reduced)
{
    memset(reduced, 0, sizeof(bool) * MF_MAX_RANK);
    for (int64_t i = 0; i < axes->count; i++) {
        const int64_t axis = mf_tensor_int_at(axes, i);
        int d;

        if (!mf_axis_fix(axis, rank, &d))
            return MF_FAIL(MF_OUT_OF_RANGE,
                           "Invalid reduction dimension %lld for input with %d dimension(s)",
                           (long long)axis, rank);
        if (reduced[d])
            return MF_FAIL(MF_INVALID_ARGUMENT, "Duplicate reduction dimension %lld",
                           (long long)axis);
        reduced[d] = true;
        order[i] = d;
    }
    return MF_OK;
}

static void joined_shape(const mf_shape *in, const bool *reduced, bool keep, mf_shape *out)
{
    *out = MF_SCALAR;
    for (int d = 0; d < in->rank; d++) {
        if (!reduced[d])
            out->dims[out->rank++] = in->dims[d];
        else if (keep)
            out->dims[out->rank++] = 1;
    }
}

static mf_status reduce_join_infer(mf_infer *in)
{
    bool reduced[MF_MAX_RANK];
    int order[MF_MAX_RANK];

    if (in->in[0].rank < 0 || !in->in_value[1])
        return MF_OK;
    MF_TRY(string_split_read_axes(in->in_value[1], in->in[0].rank, order, reduced));
    joined_shape(&in->in[0], reduced, mf_node_bool(in->node, "keep_dims"), &in->out[0]);
    return MF_OK;
}

static mf_status reduce_join_run(mf_kernel *k)
{
    const char *separator = mf_node_string(k->node, "separator");
    const mf_tensor *in = k->in[0];
    const int64_t n_axes = k->in[1]->count;
    bool reduced[MF_MAX_RANK];
    int order[MF_MAX_RANK];
    mf_buf buf = { 0 };
    mf_shape shape;
    mf_tensor *out;
    mf_status st = MF_OK;
    int64_t each = 1;

    MF_TRY(string_split_read_axes(k->in[1], in->shape.rank, order, reduced));
    joined_shape(&in->shape, reduced, mf_node_bool(k->node, "keep_dims"), &shape);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; in->count > 0 && i < n_axes; i++)
        each *= in->shape.dims[order[i]];
    each = in->count > 0 ? each : 0;
    for (int64_t o = 0; st == MF_OK && o < out->count; o++) {
        int64_t first = 0, rest = o;

        for (int d = in->shape.rank - 1; each > 0 && d >= 0; d--) {
            if (reduced[d])
                continue;
            first += rest % in->shape.dims[d] * mf_shape_span(&in->shape, d + 1, in->shape.rank);
            rest /= in->shape.dims[d];
        }
        for (int64_t j = 0; st == MF_OK && j < each; j++) { /* the first axis varies fastest */
            int64_t at = first;

            st = mf_stop_after(20);
            rest = j;
            for (int64_t a = 0; a < n_axes; a++) {
                const int d = order[a];

                at += rest % in->shape.dims[d] * mf_shape_span(&in->shape, d + 1, in->shape.rank);
                rest /= in->shape.dims[d];
            }
            mf_buf_str(&buf, j ? separator : "");
            mf_buf_bytes(&buf, mf_string_data(&mf_strings(in)[at]), mf_strings(in)[at].len);
        }
        if (st == MF_OK)
            st = mf_string_take(&((mf_string *)out->data)[o], &buf);
    }
    mf_buf_deinit(&buf);
    return st;
}

/* ---- UnsortedSegmentJoin ---- */

static mf_status segment_join_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0], *ids = &in->in[1];
    mf_shape *out = &in->out[0];
    int64_t n = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 2, 0));
    if (mf_infer_int_input(in, 2, &n) && n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_segments = %lld must be positive", (long long)n);
    if (x->rank < 0 || ids->rank < 0 || ids->rank > x->rank || ids->rank < 1)
        return MF_OK;
    out->rank = 1 + x->rank - ids->rank;
    out->dims[0] = n;
    for (int d = 1; d < out->rank; d++)
        out->dims[d] = x->dims[ids->rank + d - 1];
    return MF_OK;
}

static mf_status segment_join_check(const mf_kernel *k, int64_t *n)
{
    const mf_shape *x = &k->in[0]->shape, *ids = &k->in[1]->shape;

    if (k->in[2]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Number of segments should be a scalar");
    *n = mf_tensor_int_at(k->in[2], 0);
    if (*n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_segments = %lld must be positive", (long long)*n);
    if (ids->rank < 1 || ids->rank > x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "segment_ids have rank %d, the input has rank %d",
                       ids->rank, x->rank);
    for (int d = 0; d < ids->rank; d++) {
        if (ids->dims[d] != x->dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Segment dimension is %lld while input dimension is %lld in rank %d",
                           (long long)ids->dims[d], (long long)x->dims[d], d);
    }
    for (int64_t i = 0; i < k->in[1]->count; i++) {
        if (mf_tensor_int_at(k->in[1], i) < 0 || mf_tensor_int_at(k->in[1], i) >= *n)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "segment_ids are not allowed to exceed num_segments or to have negative "
                           "values.");
    }
    return MF_OK;
}

/* The output of element i. */
static mf_string *segment_of(const mf_kernel *k, const mf_tensor *out, int64_t inner, int64_t i)
{
    const int64_t at = mf_tensor_int_at(k->in[1], i / inner) * inner + i % inner;

    return &((mf_string *)out->data)[at];
}

/* Two passes: the first adds up lengths; the second, `filling`, appends bytes. As in TensorFlow, no
 * separator is inserted between a string and empty ones before it. */
static mf_status join_segments(const mf_kernel *k, mf_tensor *out, int64_t inner, bool filling)
{
    const char *separator = mf_node_string(k->node, "separator");
    const size_t between = strlen(separator);

    for (int64_t i = 0; i < k->in[0]->count; i++) {
        const mf_string *s = &mf_strings(k->in[0])[i];
        mf_string *to = segment_of(k, out, inner, i);
        const size_t gap = to->len > 0 ? between : 0;

        MF_TRY(mf_stop_after(10 + (int64_t)s->len));
        if (filling && gap + s->len > 0)
            (void)mempcpy(mempcpy(to->data + to->len, separator, gap), mf_string_data(s), s->len);
        to->len += gap + s->len;
    }
    return MF_OK;
}

static mf_status segment_join_run(mf_kernel *k)
{
    const mf_tensor *in = k->in[0], *ids = k->in[1];
    mf_shape shape = MF_SHAPE(0);
    mf_tensor *out;
    int64_t inner;

    MF_TRY(segment_join_check(k, &shape.dims[0]));
    for (int d = ids->shape.rank; d < in->shape.rank; d++)
        shape.dims[shape.rank++] = in->shape.dims[d];
    inner = mf_shape_span(&shape, 1, shape.rank);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(join_segments(k, out, inner, false));
    for (int64_t i = 0; i < out->count; i++) {
        mf_string *s = &((mf_string *)out->data)[i];

        MF_TRY(mf_string_new(s, (int64_t)s->len));
        s->len = 0;
    }
    return join_segments(k, out, inner, true);
}

const mf_op mf_ops_string_split[] = {
    { .name = "StringSplit",
      .def = "(input:string, delimiter:string) -> (indices:int64, values:string, shape:int64) "
             "{skip_empty:bool=true}",
      .infer = string_split_infer,
      .grad = mf_grad_none,
      .run = string_split_run,
      .samples =
          MF_SAMPLES("str[2]{a-b--c,} str[]{-}", "str[2]{a-b--c,} str[]{-} ; skip_empty=false",
                     "str[1]{a.b-c} str[]{.-}", "str[0] str[]{x}", "str[] str[]{x} !fails",
                     "str[1] str[1]{x} !fails") },
    { .name = "StringSplitV2",
      .def = "(input:string, sep:string) -> (indices:int64, values:string, shape:int64) "
             "{maxsplit:int=-1}",
      .infer = string_split_infer,
      .grad = mf_grad_missing,
      .run = string_split_run,
      .samples = MF_SAMPLES(
          "str[3]{a--b----c,--,} str[]{--}", "str[1]{a-b-c-d} str[]{-} ; maxsplit=2",
          "str[1]{a-b} str[]{-} ; maxsplit=0", "str[0] str[]{x}", "str[] str[]{x} !fails") },
    { .name = "ReduceJoin",
      .def = "(inputs:string, reduction_indices:int32) -> (output:string) {keep_dims:bool=false, "
             "separator:string=''}",
      .infer = reduce_join_infer,
      .grad = mf_grad_none,
      .run = reduce_join_run,
      .samples = MF_SAMPLES("str[2,3] i32[1]{0}", "str[2,3] i32[]{-1} ; separator=','",
                            "str[2,3] i32[2]{1,0}", "str[2,3] i32[2]{0,1} ; keep_dims=true",
                            "str[2,3,2] i32[2]{2,0}", "str[2] i32[0]", "str[0,2] i32[1]{0}",
                            "str[2] i32[1]{1} !fails", "str[2] i32[2]{0,-1} !fails") },
    { .name = "UnsortedSegmentJoin",
      .def = "(inputs:string, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:string) "
             "{separator:string='', Tindices:type in index, Tnumsegments:type=int32 in index}",
      .infer = segment_join_infer,
      .grad = mf_grad_missing,
      .run = segment_join_run,
      .samples = MF_SAMPLES(
          "str[3]{a,b,c} i32[3]{0,1,0} i32[]{2}", "str[2,2] i32[2]{0,0} i32[]{2} ; separator=','",
          "str[2,2] i64[2,2]{0,1,1,1} i32[]{3}", "str[3] i32[3]{0,2,0} i32[]{2} !fails",
          "str[3] i32[2]{0,0} i32[]{2} !fails") },
    { 0 },
};
