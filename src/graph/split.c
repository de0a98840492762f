/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - evaluates and prints the sharding rule (`mf_op.split`) of an op, and the rules that
 * many ops share. */
#include "graph/split.h"

#include <string.h>

int mf_split_new(mf_split *s, int64_t size, mf_cut cut)
{
    if (s->n_letters == MF_SPLIT_LETTERS)
        return -1;
    s->letters[s->n_letters] = (mf_split_letter){ .size = size, .cut = cut };
    return s->n_letters++;
}

void mf_split_in(mf_split *s, int input, int dim, int letter)
{
    s->in_dims[input].dims[dim] = (mf_split_dim){ .letter = letter, .inside = 1 };
}

void mf_split_out(mf_split *s, int output, int dim, int letter)
{
    s->out_dims[output].dims[dim] = (mf_split_dim){ .letter = letter, .inside = 1 };
}

mf_attr *mf_split_attr(mf_named_attr *attrs, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0)
            return &attrs[i].value;
    }
    return NULL;
}

/* ---- text ---- */

/* Parses one side. Returns the position of the next shape; NULL: it does not match. */
static const char *split_fit(const char *text, const mf_shape *shape, int64_t sizes[256])
{
    int rank = 0;

    for (; *text && *text != ',' && *text != '-'; text++, rank++) {
        if (rank >= shape->rank)
            return NULL;
        if (*text != '.') {
            int64_t *size = &sizes[(unsigned char)*text];

            if (*size >= 0 && *size != shape->dims[rank])
                return NULL;
            *size = shape->dims[rank];
        }
    }
    return rank == shape->rank ? text + (*text == ',') : NULL;
}

static void split_give(const char *text, const int letters[256], mf_split_shape *to)
{
    for (int d = 0; *text && *text != ',' && *text != '-'; text++, d++) {
        if (*text != '.')
            to->dims[d] = (mf_split_dim){ .letter = letters[(unsigned char)*text], .inside = 1 };
    }
}

static const char *split_next(const char *text)
{
    while (*text && *text != ',' && *text != '-')
        text++;
    return text + (*text == ',');
}

void mf_split_text(mf_split *s, const char *text, mf_cut contracted)
{
    const char *arrow = strstr(text, "->"), *at = text;
    int64_t sizes[256];
    int letters[256];

    memset(sizes, -1, sizeof sizes);
    for (int i = 0; at && i < s->n_in; i++)
        at = split_fit(at, &s->in[i], sizes);
    if (!at || at != arrow)
        return;
    at += 2;
    for (int i = 0; at && i < s->n_out; i++)
        at = split_fit(at, &s->out[i], sizes);
    if (!at || *at)
        return;
    for (int c = 0; c < 256; c++) {
        if (sizes[c] >= 0)
            letters[c] = mf_split_new(s, sizes[c], strchr(arrow, c) ? MF_CUT_FREE : contracted);
    }
    at = text;
    for (int i = 0; i < s->n_in; i++, at = split_next(at))
        split_give(at, letters, &s->in_dims[i]);
    at = arrow + 2;
    for (int i = 0; i < s->n_out; i++, at = split_next(at))
        split_give(at, letters, &s->out_dims[i]);
}

/* ---- common rules ---- */

mf_split_fn *mf_op_split(const mf_op *op)
{
    return op->split ? op->split : op->loop ? mf_split_elementwise : NULL;
}

void mf_split_through(mf_split *s, int input, int d, int out)
{
    const int letter = mf_split_new(s, s->in[input].dims[d], MF_CUT_FREE);

    mf_split_in(s, input, d, letter);
    mf_split_out(s, 0, out, letter);
}

bool mf_split_axis(const mf_split *s, int input, int rank, int *axis)
{
    const mf_tensor *t = s->in_value[input];

    return t && t->count == 1 && mf_axis_fix(mf_tensor_int_at(t, 0), rank, axis);
}

void mf_split_around(mf_split *s, int first, int n, int axis, bool in, bool out)
{
    const mf_shape *shape = &s->in[first];

    for (int d = 0; d < shape->rank - in; d++) {
        const int behind = d >= axis, i = d + (in && behind), o = d + (out && behind);
        const int letter = mf_split_new(s, shape->dims[i], MF_CUT_FREE);

        for (int k = first; k < first + n; k++)
            mf_split_in(s, k, i, letter);
        for (int k = 0; k < s->n_out; k++)
            mf_split_out(s, k, o, letter);
    }
}

/* A letter for dimension d of output 0, and of the first n inputs unless they broadcast it. */
static void letter_of_output(mf_split *s, int n, int d)
{
    const mf_shape *out = &s->out[0];
    const int letter = mf_split_new(s, out->dims[d], MF_CUT_FREE);

    mf_split_out(s, 0, d, letter);
    for (int i = 0; i < n; i++) {
        const int k = d - (out->rank - s->in[i].rank);

        if (k >= 0 && s->in[i].dims[k] == out->dims[d])
            mf_split_in(s, i, k, letter);
    }
}

void mf_split_broadcast(mf_split *s, int n)
{
    for (int i = 0; i < n; i++) {
        if (s->in[i].rank > s->out[0].rank)
            return;
    }
    for (int d = 0; d < s->out[0].rank; d++) {
        if (s->out[0].dims[d] > 1)
            letter_of_output(s, n, d);
    }
}

void mf_split_elementwise(mf_split *s)
{
    mf_split_broadcast(s, s->n_in);
}

static bool split_is_one(const mf_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dims[d] != 1)
            return false;
    }
    return true;
}

void mf_split_scaled(mf_split *s)
{
    mf_split_elementwise(s);
    if (split_is_one(&s->in[1]) && (!split_is_one(&s->in[0]) || !s->in_value[0]))
        s->additive = 1;
    else if (split_is_one(&s->in[0]) &&
             s->node->op_name[0] == 'M') /* the divisor of a quotient is not a factor */
        s->additive = 2;
}

static int64_t common_factor(int64_t a, int64_t b)
{
    while (b > 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Dimensions [i, i2) of the input are reshaped to [k, k2) of the output. Only the outermost of each
 * can be split, if both have a boundary there. */
static void regroup(mf_split *s, int i, int i2, int k, int k2)
{
    const int64_t *in = s->in[0].dims, *out = s->out[0].dims;
    int64_t factor;
    int letter;

    while (i < i2 && in[i] == 1)
        i++;
    while (k < k2 && out[k] == 1)
        k++;
    if (i == i2 || k == k2)
        return;
    factor = common_factor(in[i], out[k]);
    if (factor <= 1)
        return;
    letter = mf_split_new(s, factor, MF_CUT_FREE);
    s->in_dims[0].dims[i] = (mf_split_dim){ .letter = letter, .inside = in[i] / factor };
    s->out_dims[0].dims[k] = (mf_split_dim){ .letter = letter, .inside = out[k] / factor };
}

void mf_split_regroup(mf_split *s)
{
    const mf_shape *in = &s->in[0], *out = &s->out[0];
    int i = 0, k = 0;

    while (i < in->rank && k < out->rank) {
        const int i1 = i, k1 = k;
        int64_t a = in->dims[i++], b = out->dims[k++];

        while (a != b) {
            if (a < b && i < in->rank)
                a *= in->dims[i++];
            else if (b < a && k < out->rank)
                b *= out->dims[k++];
            else
                return; /* empty */
        }
        regroup(s, i1, i, k1, k);
    }
}

void mf_split_additive(mf_split *s)
{
    mf_split_elementwise(s);
    s->additive = (uint32_t)((uint64_t)1 << (s->n_in < 32 ? s->n_in : 32)) - 1;
    if (s->n_in > 32)
        s->additive = 0;
}

void mf_split_same(mf_split *s)
{
    mf_split_leading(s, s->in[0].rank);
}

void mf_split_identity(mf_split *s)
{
    mf_split_same(s);
    s->additive = 1;
}

void mf_split_leading(mf_split *s, int from)
{
    for (int d = 0; d < from; d++) {
        const int letter = mf_split_new(s, s->in[0].dims[d], MF_CUT_FREE);

        mf_split_in(s, 0, d, letter);
        for (int i = 0; i < s->n_out; i++) {
            if (s->out[i].rank > d && s->out[i].dims[d] == s->in[0].dims[d])
                mf_split_out(s, i, d, letter);
        }
    }
}

void mf_split_rows(mf_split *s, const char *op)
{
    const int letter = mf_split_new(s, s->in[0].dims[0], MF_CUT_ONE);

    mf_split_in(s, 0, 0, letter);
    s->index_letter = letter;
    s->index_input = 1;
    s->index_range = MF_INDEX_INSIDE;
    s->op_if_index_cut = op;
}

void mf_split_own_rows(mf_split *s, int variables, int indices, int rows)
{
    const bool known = mf_shape_is_static(&s->in[rows]); /* otherwise they cannot be split */

    for (int d = 0; d < (known ? s->in[0].rank : 1); d++) {
        const int letter = mf_split_new(s, s->in[0].dims[d], MF_CUT_FREE);

        for (int i = 0; i < variables; i++)
            mf_split_in(s, i, d, letter);
        if (d > 0)
            mf_split_in(s, rows, d, letter);
        else
            s->index_letter = letter;
    }
    s->index_input = indices;
    s->index_range = MF_INDEX_INSIDE;
    s->rows_input = rows;
}

void mf_split_update(mf_split *s)
{
    const mf_shape *shape = &s->in[0];

    for (int d = 0; d < shape->rank; d++) {
        const int letter = mf_split_new(s, shape->dims[d], MF_CUT_FREE);

        for (int i = 0; i < s->n_in; i++) {
            if (mf_shape_equal(&s->in[i], shape))
                mf_split_in(s, i, d, letter);
        }
        for (int i = 0; i < s->n_out; i++) {
            if (mf_shape_equal(&s->out[i], shape))
                mf_split_out(s, i, d, letter);
        }
    }
}

void mf_split_reduce(mf_split *s, const bool *axes, bool keep, mf_cut cut)
{
    bool inside = false; /* inside a reduced axis */
    int at = 0;

    for (int d = 0; d < s->in[0].rank; d++) {
        const int letter = axes[d] && cut == MF_CUT_FREE
                               ? -1
                               : mf_split_new(s, s->in[0].dims[d], axes[d] ? cut : MF_CUT_FREE);

        mf_split_in(s, 0, d, letter);
        if (!axes[d])
            mf_split_out(s, 0, at, letter);
        if (letter >= 0 && inside) /* summing order depends on how many elements are adjacent */
            s->letters[letter].least = MF_SPLIT_ROUNDS;
        inside = inside || axes[d];
        at += keep || !axes[d];
    }
}
