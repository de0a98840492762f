/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_pick.c - datasets that select elements: by another dataset (DirectedInterleave), without
 * duplicates (Unique), without failures (IgnoreErrors); and random numbers to select by (Random).
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "ops/dataset/dataset_op.h"
#include "ops/random/random_util.h"

#include <inttypes.h>

/* ---- Random: numbers of 32 bits out of TensorFlow's generator ---- */

typedef struct dataset_pick_drawing {
    mf_cursor cursor;
    mf_random_draw draw;
} dataset_pick_drawing;

static mf_status random_check(mf_dataset_op *d)
{
    if (d->n_parts != 1 || d->types[0] != MF_DTYPE_I64)
        return MF_FAIL(MF_INVALID_ARGUMENT, "random numbers are one component of int64");
    d->shapes[0] = MF_SCALAR;
    return MF_OK;
}

static mf_status random_begin(mf_cursor *c, mf_walk *w)
{
    dataset_pick_drawing *r = (dataset_pick_drawing *)c;
    uint64_t first = (uint64_t)mf_dataset_op_int(c->set, 0);
    uint64_t second = (uint64_t)mf_dataset_op_int(c->set, 1);

    (void)w;
    if (first == 0 && second == 0) {
        first = mf_random_seed();
        second = mf_random_seed();
    }
    r->draw = (mf_random_draw){ .gen = mf_philox_init(first, second), .used = 4 };
    return MF_OK;
}

static mf_status random_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_pick_drawing *r = (dataset_pick_drawing *)c;

    (void)w;
    *end = false;
    MF_TRY(mf_tensor_alloc(&row[0], MF_DTYPE_I64, &MF_SCALAR));
    *(int64_t *)row[0].data = mf_random_u32(&r->draw);
    return MF_OK;
}

static int64_t random_size(const mf_dataset_op *d)
{
    (void)d;
    return MF_SIZE_INFINITE;
}

static const mf_dataset_op_kind random_numbers = { .name = "Random",
                                                   .cursor_bytes = sizeof(dataset_pick_drawing),
                                                   .check = random_check,
                                                   .begin = random_begin,
                                                   .next = random_next,
                                                   .size = random_size };
MF_DATASET_OP_KERNEL(random_numbers)

/* ---- DirectedInterleave: argument 0 says which of the others gives the next element ---- */

typedef struct directed {
    mf_cursor cursor;
    mf_cursor **inputs; /* one per argument; NULL: it has ended */
    int left; /* inputs that have not ended */
} directed;

static mf_status directed_check(mf_dataset_op *d)
{
    mf_dataset_op *input;

    MF_TRY(mf_dataset_op_of(&d->args[0], &input));
    if (input->n_parts != 1 || input->types[0] != MF_DTYPE_I64)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The selector dataset must have a single component of type int64");
    for (int i = 1; i < d->n_args; i++) {
        MF_TRY(mf_dataset_op_of(&d->args[i], &input));
        MF_TRY(mf_dataset_op_same_parts(d, input));
    }
    return MF_OK;
}

static mf_status directed_begin(mf_cursor *c, mf_walk *w)
{
    directed *k = (directed *)c;

    k->inputs = mf_calloc(c->set->n_args, sizeof *k->inputs);
    if (!k->inputs)
        return MF_NOMEM("an iterator");
    for (int i = 0; i < c->set->n_args; i++)
        MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, i), c, &k->inputs[i]));
    k->left = c->set->n_args - 1;
    return MF_OK;
}

static void directed_end(mf_cursor *c)
{
    directed *k = (directed *)c;

    for (int i = 0; k->inputs && i < c->set->n_args; i++)
        mf_cursor_end(k->inputs[i]);
    mf_free(k->inputs);
    k->inputs = NULL;
}

/* The argument that the selector chooses. */
static mf_status select_input(directed *k, mf_walk *w, int *which, bool *end)
{
    const int n = k->cursor.set->n_args - 1;
    mf_tensor row = { 0 };
    int64_t index;

    MF_TRY(mf_cursor_next(k->inputs[0], w, &row, end));
    if (*end)
        return MF_OK;
    index = row.count == 1 ? mf_tensor_int_at(&row, 0) : -1;
    mf_tensor_clear(&row);
    if (index < 0 || index >= n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Selector index out of range: %" PRId64 " >= %d", index,
                       n);
    *which = (int)index + 1;
    return MF_OK;
}

static mf_status directed_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    directed *k = (directed *)c;

    *end = !k->inputs;
    while (!*end) {
        int i = 0;
        bool input_ends = true;

        MF_TRY(select_input(k, w, &i, end));
        if (*end)
            break;
        if (k->inputs[i])
            MF_TRY(mf_cursor_next(k->inputs[i], w, row, &input_ends));
        if (!input_ends)
            return MF_OK;
        k->left -= k->inputs[i] != NULL;
        mf_cursor_end(k->inputs[i]);
        k->inputs[i] = NULL;
        *end = c->set->option || k->left == 0;
    }
    directed_end(c);
    return MF_OK;
}

static const mf_dataset_op_kind directed_interleave = { .name = "DirectedInterleave",
                                                        .cursor_bytes = sizeof(directed),
                                                        .option = "stop_on_empty_dataset",
                                                        .check = directed_check,
                                                        .begin = directed_begin,
                                                        .next = directed_next,
                                                        .end = directed_end };
MF_DATASET_OP_KERNEL(directed_interleave)

/* ---- Unique: each value where it comes first ---- */

typedef struct uniting {
    mf_cursor cursor;
    mf_map seen; /* keys of values, owned by the cursor -> not NULL */
} uniting;

static mf_status unique_check(mf_dataset_op *d)
{
    mf_dtype t;

    if (d->n_parts != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "UniqueDataset only supports inputs with a single component.");
    t = d->types[0];
    if (t != MF_DTYPE_I32 && t != MF_DTYPE_I64 && t != MF_DTYPE_STRING)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, "
                       "or `tf.string` component.");
    return MF_OK;
}

static void write_hex(mf_buf *out, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    mf_buf_printf(out, ",");
    for (size_t i = 0; i < n; i++)
        mf_buf_printf(out, "%02x", p[i]);
}

/* A key: equal exactly for equal values. */
static void dataset_pick_write_value(mf_buf *out, const mf_tensor *t)
{
    for (int i = 0; i < t->shape.rank; i++)
        mf_buf_printf(out, "[%" PRId64 "]", t->shape.dims[i]);
    if (t->dtype != MF_DTYPE_STRING) {
        write_hex(out, t->data, (size_t)t->count * mf_dtype_cell(t->dtype));
        return;
    }
    for (int64_t i = 0; i < t->count; i++) {
        const mf_string *s = (const mf_string *)t->data + i;

        write_hex(out, s->data, s->len);
    }
}

static mf_status unique_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    uniting *u = (uniting *)c;

    for (;;) {
        mf_buf text = { 0 };
        bool is_new = false;
        mf_status st;

        MF_TRY(mf_cursor_next(c->input, w, row, end));
        if (*end)
            return MF_OK;
        dataset_pick_write_value(&text, &row[0]);
        st = mf_buf_finish(&text);
        if (st == MF_OK)
            is_new = !mf_map_find(&u->seen, text.data);
        if (st == MF_OK && is_new)
            st = mf_map_set(&u->seen, text.data, u);
        if (st == MF_OK && is_new)
            return MF_OK;
        mf_buf_deinit(&text);
        mf_row_clear(row, 1);
        MF_TRY(st);
    }
}

static void unique_end(mf_cursor *c)
{
    uniting *u = (uniting *)c;
    mf_map_entry *e;
    int64_t at = 0;

    while ((e = mf_map_next(&u->seen, &at)) != NULL)
        mf_free((void *)(uintptr_t)e->key);
    mf_map_deinit(&u->seen);
}

static const mf_dataset_op_kind unique = { .name = "Unique",
                                           .cursor_bytes = sizeof(uniting),
                                           .like_input = true,
                                           .on_input = true,
                                           .check = unique_check,
                                           .next = unique_next,
                                           .end = unique_end };
MF_DATASET_OP_KERNEL(unique)

/* ---- IgnoreErrors: elements that fail are skipped ---- */

static mf_status ignore_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    mf_status st;

    do {
        st = mf_cursor_next(c->input, w, row, end);
    } while (st != MF_OK && st != MF_CANCELLED && st != MF_DEADLINE_EXCEEDED &&
             st != MF_RESOURCE_EXHAUSTED);
    return st;
}

static const mf_dataset_op_kind ignore_errors = { .name = "IgnoreErrors",
                                                  .cursor_bytes = sizeof(mf_cursor),
                                                  .like_input = true,
                                                  .on_input = true,
                                                  .next = ignore_next };
MF_DATASET_OP_KERNEL(ignore_errors)

const mf_op mf_ops_dataset_pick[] = {
    MF_DATASET_OP_OP(
        "RandomDataset",
        "(seed:int64, seed2:int64" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META
        " is_stateful",
        random_numbers),
    MF_DATASET_OP_OP(
        "DirectedInterleaveDataset",
        "(selector_input_dataset:variant, data_input_datasets:N*variant" MF_DATASET_OP_OUT
            MF_DATASET_OP_TYPES ", N:int>=1, stop_on_empty_dataset:bool=false}",
        directed_interleave),
    MF_DATASET_OP_OP(
        "UniqueDataset",
        "(input_dataset:variant" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META, unique),
    MF_DATASET_OP_OP("IgnoreErrorsDataset",
                     "(input_dataset:variant" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES
                     ", log_warning:bool=false}",
                     ignore_errors),
    { 0 },
};
