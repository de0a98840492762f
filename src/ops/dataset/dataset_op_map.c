/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op_map.c - datasets whose elements a function computes from others, or selects. */
#include "ops/dataset/dataset_op.h"

/* ---- Map ---- */

/* OUT_OF_RANGE from the function ends the dataset, unless preserve_cardinality is set. */
static mf_status end_or_fail(const mf_dataset_op *d, mf_status st, bool *end)
{
    if (st != MF_OUT_OF_RANGE)
        return st;
    *end = !d->option;
    return *end ? MF_OK
                : mf_error_wrap(MF_INVALID_ARGUMENT,
                                "Function invocation produced OutOfRangeError: ", "");
}

static mf_status map_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    const mf_dataset_op *d = c->set;
    const int n = c->input->set->n_parts;
    mf_tensor *element = mf_row_new(n);
    mf_status st = element ? mf_cursor_next(c->input, w, element, end) : MF_NOMEM("an element");

    if (st == MF_OK && !*end)
        st = end_or_fail(d, mf_cursor_call(c, w, element, n, d->types, d->n_parts, row), end);
    mf_row_free(element, n);
    return st;
}

static int64_t map_size(const mf_dataset_op *d)
{
    return d->option ? mf_dataset_op_input_size(d) : MF_SIZE_UNKNOWN;
}

static const mf_dataset_op_kind map = { .name = "Map",
                                        .on_input = true,
                                        .option = "preserve_cardinality",
                                        .next = map_next,
                                        .size = map_size };
MF_DATASET_OP_KERNEL(map)

/* ---- Filter, TakeWhile ---- */

static mf_status filter_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    const int n = c->set->n_parts;
    bool good = false;

    for (;;) {
        MF_TRY(mf_cursor_next(c->input, w, row, end));
        if (*end)
            return MF_OK;
        MF_TRY(mf_cursor_call_test(c, w, row, n, &good));
        if (good)
            return MF_OK;
        mf_row_clear(row, n);
    }
}

static const mf_dataset_op_kind filter = {
    .name = "Filter", .like_input = true, .on_input = true, .next = filter_next
};
MF_DATASET_OP_KERNEL(filter)

typedef struct taking {
    mf_cursor cursor;
    bool over;
} taking;

static mf_status while_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    taking *t = (taking *)c;
    bool good = false;

    *end = t->over;
    if (!*end)
        MF_TRY(mf_cursor_next(c->input, w, row, end));
    if (!*end) {
        MF_TRY(mf_cursor_call_test(c, w, row, c->set->n_parts, &good));
        *end = !good;
    }
    t->over = *end;
    return MF_OK;
}

static const mf_dataset_op_kind take_while = { .name = "TakeWhile",
                                               .cursor_bytes = sizeof(taking),
                                               .like_input = true,
                                               .on_input = true,
                                               .next = while_next };
MF_DATASET_OP_KERNEL(take_while)

/* ---- Scan: a map with a memory ---- */

typedef struct scanning {
    mf_cursor cursor;
    mf_tensor *args, *results; /* state and element; state and output */
    mf_dtype *types; /* of the results */
    int n_state, n_args, n_results;
} scanning;

static mf_status scan_begin(mf_cursor *c, mf_walk *w)
{
    scanning *s = (scanning *)c;
    const mf_dataset_op *d = c->set;

    (void)w;
    s->n_state = d->captured - 1;
    s->n_args = s->n_state + c->input->set->n_parts;
    s->n_results = s->n_state + d->n_parts;
    s->args = mf_row_new(s->n_args);
    s->results = mf_row_new(s->n_results);
    s->types = mf_calloc(s->n_results, sizeof *s->types);
    if (!s->args || !s->results || !s->types)
        return MF_NOMEM("an iterator");
    for (int i = 0; i < s->n_state; i++) {
        mf_tensor_set(&s->args[i], &d->args[1 + i]);
        s->types[i] = d->args[1 + i].dtype;
    }
    for (int i = 0; i < d->n_parts; i++)
        s->types[s->n_state + i] = d->types[i];
    return MF_OK;
}

static mf_status scan_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    scanning *s = (scanning *)c;
    mf_status st;

    MF_TRY(mf_cursor_next(c->input, w, s->args + s->n_state, end));
    if (*end)
        return MF_OK;
    st = mf_cursor_call(c, w, s->args, s->n_args, s->types, s->n_results, s->results);
    mf_row_clear(s->args + s->n_state, s->n_args - s->n_state);
    st = end_or_fail(c->set, st, end);
    if (st != MF_OK || *end)
        return st;
    mf_row_move(s->args, s->results, s->n_state);
    mf_row_move(row, s->results + s->n_state, c->set->n_parts);
    return MF_OK;
}

static void scan_end(mf_cursor *c)
{
    scanning *s = (scanning *)c;

    mf_row_free(s->args, s->n_args);
    mf_row_free(s->results, s->n_results);
    mf_free(s->types);
}

static const mf_dataset_op_kind scan = { .name = "Scan",
                                         .cursor_bytes = sizeof(scanning),
                                         .on_input = true,
                                         .option = "preserve_cardinality",
                                         .begin = scan_begin,
                                         .next = scan_next,
                                         .end = scan_end,
                                         .size = map_size };
MF_DATASET_OP_KERNEL(scan)

#define ARGS "(input_dataset:variant, other_arguments:*Targuments"
#define FUNC(NAME) NAME ":func, Targuments:list(type)>=0, " MF_DATASET_OP_TYPES

const mf_op mf_ops_dataset_map[] = {
    MF_DATASET_OP_OP(
        "MapDataset",
        ARGS MF_DATASET_OP_OUT FUNC("f") ", use_inter_op_parallelism:bool=true, "
                                         "preserve_cardinality:bool=false, "
                                         "force_synchronous:bool=false" MF_DATASET_OP_META,
        map),
    MF_DATASET_OP_OP("ParallelMapDataset",
                     ARGS ", num_parallel_calls:int32" MF_DATASET_OP_OUT FUNC(
                         "f") ", use_inter_op_parallelism:bool=true, sloppy:bool=false, "
                              "preserve_cardinality:bool=false" MF_DATASET_OP_META,
                     map),
    MF_DATASET_OP_OP(
        "ParallelMapDatasetV2",
        ARGS ", num_parallel_calls:int64" MF_DATASET_OP_OUT FUNC(
            "f") ", use_inter_op_parallelism:bool=true, deterministic:string='default', "
                 "preserve_cardinality:bool=false, "
                 "use_unbounded_threadpool:bool=false" MF_DATASET_OP_META,
        map),
    MF_DATASET_OP_OP("FilterDataset", ARGS MF_DATASET_OP_OUT FUNC("predicate") MF_DATASET_OP_META,
                     filter),
    MF_DATASET_OP_OP("TakeWhileDataset",
                     ARGS MF_DATASET_OP_OUT FUNC("predicate") MF_DATASET_OP_META, take_while),
    MF_DATASET_OP_OP("ScanDataset",
                     "(input_dataset:variant, initial_state:*Tstate, "
                     "other_arguments:*Targuments" MF_DATASET_OP_OUT
                     "f:func, Tstate:list(type)>=1, Targuments:list(type)>=0, " MF_DATASET_OP_TYPES
                     ", preserve_cardinality:bool=false, "
                     "use_default_device:bool=true" MF_DATASET_OP_META,
                     scan),
    { 0 },
};
