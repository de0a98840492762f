/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_window.c - Window: sliding windows. An element is one dataset per part of the input. */
#include "ops/dataset/dataset_op.h"

/* ---- one window: its arguments are its elements ---- */

typedef struct dataset_window_counting {
    mf_cursor cursor;
    int at;
} dataset_window_counting;

static mf_status one_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_window_counting *k = (dataset_window_counting *)c;

    (void)w;
    *end = k->at >= c->set->n_args;
    if (!*end)
        mf_tensor_set(&row[0], &c->set->args[k->at++]);
    return MF_OK;
}

static int64_t one_size(const mf_dataset_op *d)
{
    return d->n_args;
}

static const mf_dataset_op_kind one = { .name = "Window",
                                        .cursor_bytes = sizeof(dataset_window_counting),
                                        .next = one_next,
                                        .size = one_size };

/* ---- all of them ---- */

enum { SIZE = 1, SHIFT, STRIDE, DROP };

typedef struct dataset_window_moving {
    mf_cursor cursor;
    mf_dataset_rows rows; /* rows of the next window, after `from` obsolete ones */
    int64_t from;
    bool over;
} dataset_window_moving;

static mf_status window_check(mf_dataset_op *d)
{
    static const char *const names[] = { [SIZE] = "size", [SHIFT] = "shift", [STRIDE] = "stride" };

    for (int i = SIZE; i <= STRIDE; i++) {
        if (mf_dataset_op_int(d, i) <= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Window %s must be greater than zero.", names[i]);
    }
    if (d->n_parts != mf_dataset_op_arg(d, 0)->n_parts)
        return MF_FAIL(MF_INVALID_ARGUMENT, "windows have %d components, the input %d", d->n_parts,
                       mf_dataset_op_arg(d, 0)->n_parts);
    for (int i = 0; i < d->n_parts; i++) {
        if (d->types[i] != MF_DTYPE_VARIANT)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a window is a data set, not %s",
                           mf_dtype_name(d->types[i]));
    }
    return MF_OK;
}

static int64_t held(const dataset_window_moving *m)
{
    return m->rows.n - m->from;
}

/* Frees obsolete rows once they are the larger part. */
static void drop_front(dataset_window_moving *m, int64_t n)
{
    mf_dataset_rows *r = &m->rows;

    for (int64_t i = m->from; i < m->from + n; i++)
        mf_row_clear(r->parts + i * r->n_parts, r->n_parts);
    m->from += n;
    if (m->from <= held(m))
        return;
    for (int64_t i = m->from; i < r->n; i++)
        mf_row_move(r->parts + (i - m->from) * r->n_parts, r->parts + i * r->n_parts, r->n_parts);
    r->n -= m->from;
    m->from = 0;
}

static mf_status dataset_window_read_row(dataset_window_moving *m, mf_walk *w, mf_tensor *row)
{
    MF_TRY(mf_cursor_next(m->cursor.input, w, row, &m->over));
    return m->over ? MF_OK : mf_rows_add(&m->rows, row);
}

/* Reads rows for a window of this size, if there are enough. */
static mf_status dataset_window_fill(dataset_window_moving *m, mf_walk *w, int64_t wanted)
{
    mf_tensor *row = mf_row_new(m->rows.n_parts);
    mf_status st = row ? MF_OK : MF_NOMEM("a window");

    while (st == MF_OK && !m->over && held(m) < wanted)
        st = dataset_window_read_row(m, w, row);
    mf_row_free(row, m->rows.n_parts);
    return st;
}

/* Shifts the window over buffered and unread rows. */
static mf_status move_on(dataset_window_moving *m, mf_walk *w, int64_t shift)
{
    const int64_t there = held(m) < shift ? held(m) : shift;
    const int n = m->rows.n_parts;
    mf_tensor *row = mf_row_new(n);
    mf_status st = row ? MF_OK : MF_NOMEM("a window");

    drop_front(m, there);
    for (int64_t i = there; st == MF_OK && i < shift && !m->over; i++) {
        st = mf_cursor_next(m->cursor.input, w, row, &m->over);
        mf_row_clear(row, n);
    }
    mf_row_free(row, n);
    return st;
}

static mf_status make_window(const dataset_window_moving *m, int part, int64_t n, int64_t stride,
                             mf_tensor *out)
{
    const mf_dataset_op *input = m->cursor.input->set;
    mf_dataset_op *d;

    if (n > INT32_MAX / 2)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "a window of %lld elements", (long long)n);
    MF_TRY(mf_dataset_op_new(&one, 1, &input->types[part], &input->shapes[part], (int)n, &d));
    for (int64_t i = 0; i < n; i++)
        mf_tensor_set(&d->args[i], &m->rows.parts[(m->from + i * stride) * m->rows.n_parts + part]);
    return mf_dataset_op_wrap(d, out);
}

static mf_status window_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_window_moving *m = (dataset_window_moving *)c;
    const mf_dataset_op *d = c->set;
    const int64_t size = mf_dataset_op_int(d, SIZE), stride = mf_dataset_op_int(d, STRIDE);
    int64_t wanted, n;

    m->rows.n_parts = c->input->set->n_parts;
    if (!mf_mul_i64(size - 1, stride, &wanted) || wanted == INT64_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a window of %lld elements, %lld apart, is too large",
                       (long long)size, (long long)stride);
    wanted++;
    MF_TRY(dataset_window_fill(m, w, wanted));
    *end = held(m) == 0 || (held(m) < wanted && mf_dataset_op_int(d, DROP));
    if (*end)
        return MF_OK;
    n = (held(m) - 1) / stride + 1;
    n = n < size ? n : size;
    for (int i = 0; i < d->n_parts; i++)
        MF_TRY(make_window(m, i, n, stride, &row[i]));
    return move_on(m, w, mf_dataset_op_int(d, SHIFT));
}

static void window_end(mf_cursor *c)
{
    mf_rows_deinit(&((dataset_window_moving *)c)->rows);
}

static int64_t window_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), shift = mf_dataset_op_int(d, SHIFT);
    int64_t wanted;

    if (n < 0)
        return n;
    if (!mf_dataset_op_int(d, DROP))
        return n / shift + (n % shift != 0);
    if (!mf_mul_i64(mf_dataset_op_int(d, SIZE) - 1, mf_dataset_op_int(d, STRIDE), &wanted) ||
        wanted >= n)
        return 0;
    return (n - 1 - wanted) / shift + 1;
}

static const mf_dataset_op_kind window = { .name = "Window",
                                           .cursor_bytes = sizeof(dataset_window_moving),
                                           .on_input = true,
                                           .check = window_check,
                                           .next = window_next,
                                           .end = window_end,
                                           .size = window_size };
MF_DATASET_OP_KERNEL(window)

const mf_op mf_op_window_sequence =
    MF_DATASET_OP_OP("WindowDataset",
                     "(input_dataset:variant, size:int64, shift:int64, stride:int64, "
                     "drop_remainder:bool" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     window);
