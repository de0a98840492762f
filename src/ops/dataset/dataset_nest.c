/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_nest.c - datasets of datasets: a function makes a dataset of each element, whose elements
 * are concatenated or interleaved. */
#include "ops/dataset/dataset_op.h"

#include <unistd.h>

/* A cursor over the dataset that the function makes of the input's next element; NULL: end. */
static mf_status next_inner(mf_cursor *c, mf_walk *w, mf_cursor **out)
{
    const int n = c->input->set->n_parts;
    mf_tensor *element = mf_row_new(n);
    bool end = false;
    mf_status st = element ? mf_cursor_next(c->input, w, element, &end) : MF_NOMEM("an element");

    *out = NULL;
    if (st == MF_OK && !end)
        st = mf_cursor_call_sequence(c, w, element, n, out);
    mf_row_free(element, n);
    return st;
}

/* ---- FlatMap ---- */

typedef struct flat {
    mf_cursor cursor;
    mf_cursor *inner;
} flat;

static mf_status flat_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    flat *f = (flat *)c;

    for (;;) {
        if (!f->inner)
            MF_TRY(next_inner(c, w, &f->inner));
        *end = !f->inner;
        if (*end)
            return MF_OK;
        MF_TRY(mf_cursor_next(f->inner, w, row, end));
        if (!*end)
            return MF_OK;
        mf_cursor_end(f->inner);
        f->inner = NULL;
    }
}

static void flat_end(mf_cursor *c)
{
    mf_cursor_end(((flat *)c)->inner);
}

static const mf_dataset_op_kind flat_map = { .name = "FlatMap",
                                             .cursor_bytes = sizeof(flat),
                                             .on_input = true,
                                             .next = flat_next,
                                             .end = flat_end };
MF_DATASET_OP_KERNEL(flat_map)

/* ---- Interleave: so many are open at a time, and each gives a block in its turn ---- */

enum { MAX_OPEN = 1 << 20 };

typedef struct turns {
    mf_cursor cursor;
    mf_cursor **open; /* NULL: closed */
    int64_t cycle, block, at, given; /* `given`: elements of the current block so far */
    int64_t n_open;
    bool input_over;
} turns;

/* cycle_length and block_length follow the captured arguments. */
static int64_t length_arg(const mf_dataset_op *d, int which)
{
    return mf_dataset_op_int(d, 1 + d->n_captured + which);
}

static int64_t cycle_of(const mf_dataset_op *d)
{
    const int64_t cycle = length_arg(d, 0);
    const long cpus = cycle == -1 ? sysconf(_SC_NPROCESSORS_ONLN) : 0;

    return cycle != -1 ? cycle : cpus > 0 ? cpus : 1; /* -1: number of CPUs */
}

static mf_status turns_check(mf_dataset_op *d)
{
    if (cycle_of(d) <= 0 || cycle_of(d) > MAX_OPEN)
        return MF_FAIL(MF_INVALID_ARGUMENT, "`cycle_length` must be > 0");
    if (length_arg(d, 1) <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "`block_length` must be > 0");
    return MF_OK;
}

static mf_status turns_begin(mf_cursor *c, mf_walk *w)
{
    turns *t = (turns *)c;

    (void)w;
    t->cycle = cycle_of(c->set);
    t->block = length_arg(c->set, 1);
    t->open = mf_calloc(t->cycle, sizeof(mf_cursor *));
    return t->open ? MF_OK : MF_NOMEM("an iterator");
}

static void dataset_nest_turn(turns *t)
{
    t->at = (t->at + 1) % t->cycle;
    t->given = 0;
}

/* Opens a cursor in this slot, or notes the end of the input. */
static mf_status open_here(turns *t, mf_walk *w)
{
    MF_TRY(next_inner(&t->cursor, w, &t->open[t->at]));
    t->input_over = !t->open[t->at];
    t->n_open += !t->input_over;
    return MF_OK;
}

static mf_status turns_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    turns *t = (turns *)c;

    while (!t->input_over || t->n_open > 0) {
        mf_cursor **here = &t->open[t->at];

        if (!*here && !t->input_over) {
            MF_TRY(open_here(t, w));
            continue;
        }
        if (!*here) {
            dataset_nest_turn(t);
            continue;
        }
        MF_TRY(mf_cursor_next(*here, w, row, end));
        if (!*end) {
            if (++t->given == t->block)
                dataset_nest_turn(t);
            return MF_OK;
        }
        mf_cursor_end(*here);
        *here = NULL;
        t->n_open--;
        dataset_nest_turn(t);
    }
    *end = true;
    return MF_OK;
}

static void turns_end(mf_cursor *c)
{
    turns *t = (turns *)c;

    for (int64_t i = 0; t->open && i < t->cycle; i++)
        mf_cursor_end(t->open[i]);
    mf_free(t->open);
}

static const mf_dataset_op_kind interleave = { .name = "Interleave",
                                               .cursor_bytes = sizeof(turns),
                                               .on_input = true,
                                               .check = turns_check,
                                               .begin = turns_begin,
                                               .next = turns_next,
                                               .end = turns_end };
MF_DATASET_OP_KERNEL(interleave)

#define ARGS "(input_dataset:variant, other_arguments:*Targuments"
#define TURNS ARGS ", cycle_length:int64, block_length:int64"
#define FUNC "f:func, Targuments:list(type)>=0, " MF_DATASET_OP_TYPES

const mf_op mf_ops_dataset_nest[] = {
    MF_DATASET_OP_OP("FlatMapDataset", ARGS MF_DATASET_OP_OUT FUNC MF_DATASET_OP_META, flat_map),
    MF_DATASET_OP_OP("InterleaveDataset", TURNS MF_DATASET_OP_OUT FUNC MF_DATASET_OP_META,
                     interleave),
    MF_DATASET_OP_OP("ParallelInterleaveDatasetV2",
                     TURNS ", num_parallel_calls:int64" MF_DATASET_OP_OUT FUNC
                           ", sloppy:bool=false" MF_DATASET_OP_META,
                     interleave),
    MF_DATASET_OP_OP(
        "ParallelInterleaveDatasetV3",
        TURNS
        ", num_parallel_calls:int64" MF_DATASET_OP_OUT
        "f:func, deterministic:string='default', Targuments:list(type)>=0, " MF_DATASET_OP_TYPES
            MF_DATASET_OP_META,
        interleave),
    MF_DATASET_OP_OP(
        "ParallelInterleaveDatasetV4",
        TURNS
        ", buffer_output_elements:int64, prefetch_input_elements:int64, "
        "num_parallel_calls:int64" MF_DATASET_OP_OUT
        "f:func, deterministic:string='default', Targuments:list(type)>=0, " MF_DATASET_OP_TYPES
            MF_DATASET_OP_META,
        interleave),
    MF_DATASET_OP_OP(
        "LegacyParallelInterleaveDatasetV2",
        TURNS
        ", buffer_output_elements:int64, prefetch_input_elements:int64" MF_DATASET_OP_OUT
        "f:func, deterministic:string='default', Targuments:list(type)>=0, " MF_DATASET_OP_TYPES
            MF_DATASET_OP_META,
        interleave),
    { 0 },
};
