/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_whole.c - ops on a whole dataset: reduce, count, the only element. */
#include "ops/dataset/dataset_op.h"

/* The first element of d, with the outputs' types; `only`: there must be exactly one. */
static mf_status put_first(mf_kernel *k, mf_dataset_op *d, bool only)
{
    mf_walk walk = { .step = k->step };
    mf_cursor *c = NULL;
    mf_tensor *row = mf_row_new(d->n_parts), *more = mf_row_new(d->n_parts);
    bool end = false;
    mf_status st = row && more ? mf_cursor_begin(&walk, d, NULL, &c) : MF_NOMEM("an element");

    if (st == MF_OK)
        st = mf_cursor_next(c, &walk, row, &end);
    if (st == MF_OK && end)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "Dataset was empty.");
    if (st == MF_OK && only)
        st = mf_cursor_next(c, &walk, more, &end);
    if (st == MF_OK && only && !end)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "Dataset had more than one element.");
    if (st == MF_OK)
        st = mf_row_put(k, row, d->n_parts);
    mf_cursor_end(c);
    mf_walk_deinit(&walk);
    mf_row_free(row, d->n_parts);
    mf_row_free(more, d->n_parts);
    return st;
}

/* ---- Reduce: a data set of one element, the last state ---- */

typedef struct reducing {
    mf_cursor cursor;
    mf_tensor *args, *results; /* state and element; the next state */
    int n_state, n_args;
} reducing;

static mf_status reduce_check(mf_dataset_op *d)
{
    const int n_state = d->captured - 1;
    bool same = d->n_parts == n_state;

    for (int i = 0; same && i < n_state; i++)
        same = d->types[i] == d->args[1 + i].dtype;
    return same ? MF_OK
                : MF_FAIL(MF_INVALID_ARGUMENT,
                          "what is reduced must have the types of the initial state");
}

static mf_status dataset_whole_reduce_begin(mf_cursor *c, mf_walk *w)
{
    reducing *r = (reducing *)c;

    (void)w;
    r->n_state = c->set->n_parts;
    r->n_args = r->n_state + c->input->set->n_parts;
    r->args = mf_row_new(r->n_args);
    r->results = mf_row_new(r->n_state);
    if (!r->args || !r->results)
        return MF_NOMEM("an iterator");
    for (int i = 0; i < r->n_state; i++)
        mf_tensor_set(&r->args[i], &c->set->args[1 + i]);
    return MF_OK;
}

static mf_status reduce_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    reducing *r = (reducing *)c;
    bool over = false;

    for (;;) {
        MF_TRY(mf_cursor_next(c->input, w, r->args + r->n_state, &over));
        if (over)
            break;
        MF_TRY(mf_cursor_call(c, w, r->args, r->n_args, c->set->types, r->n_state, r->results));
        mf_row_clear(r->args, r->n_args);
        mf_row_move(r->args, r->results, r->n_state);
    }
    *end = false;
    mf_row_move(row, r->args, r->n_state);
    return MF_OK;
}

static void reduce_end(mf_cursor *c)
{
    reducing *r = (reducing *)c;

    mf_row_free(r->args, r->n_args);
    mf_row_free(r->results, r->n_state);
}

static const mf_dataset_op_kind reduce = { .name = "Reduce",
                                           .cursor_bytes = sizeof(reducing),
                                           .on_input = true,
                                           .check = reduce_check,
                                           .begin = dataset_whole_reduce_begin,
                                           .next = reduce_next,
                                           .end = reduce_end };

static mf_status dataset_whole_reduce_run(mf_kernel *k)
{
    mf_dataset_op *d;
    mf_status st;

    MF_TRY(mf_dataset_op_make(k, &reduce, &d));
    st = put_first(k, d, false);
    mf_object_unref(&d->object);
    return st;
}

/* ---- the others ---- */

static mf_status dataset_whole_single_run(mf_kernel *k)
{
    mf_dataset_op *d;

    MF_TRY(mf_dataset_op_of(k->in[0], &d));
    return put_first(k, d, true);
}

static mf_status dataset_whole_size_run(mf_kernel *k)
{
    mf_dataset_op *d;
    mf_tensor *out;

    MF_TRY(mf_dataset_op_of(k->in[0], &d));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(int64_t *)out->data = mf_dataset_op_size(d);
    return MF_OK;
}

/* Hints are not stored: returns an empty message. */
static mf_status options_run(mf_kernel *k)
{
    mf_dataset_op *d;
    mf_tensor *out;

    MF_TRY(mf_dataset_op_of(k->in[0], &d));
    return mf_kernel_out(k, 0, &MF_SCALAR, &out);
}

static mf_status parts_infer(mf_infer *in)
{
    const mf_attr *shapes = mf_node_list(in->node, "output_shapes", MF_ATTR_SHAPE);

    for (int i = 0; shapes && i < shapes->n && i < in->n_out; i++)
        in->out[i] = shapes->shapes[i];
    return MF_OK;
}

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)

const mf_op mf_ops_dataset_whole[] = {
    { .name = "ReduceDataset",
      .def = "(input_dataset:variant, initial_state:*Tstate, other_arguments:*Targuments) -> "
             "(components:*output_types) {f:func, Tstate:list(type)>=1, "
             "Targuments:list(type)>=0, " MF_DATASET_OP_TYPES
             ", use_inter_op_parallelism:bool=true" MF_DATASET_OP_META " is_stateful",
      .flags = FLAGS,
      .infer = parts_infer,
      .grad = mf_grad_none,
      .prepare = mf_dataset_op_prepare,
      .release = mf_dataset_op_release,
      .run = dataset_whole_reduce_run },
    { .name = "DatasetToSingleElement",
      .def =
          "(dataset:variant) -> (components:*output_types) {" MF_DATASET_OP_TYPES MF_DATASET_OP_META
          " is_stateful",
      .flags = FLAGS,
      .infer = parts_infer,
      .grad = mf_grad_none,
      .run = dataset_whole_single_run },
    { .name = "DatasetCardinality",
      .def = "(input_dataset:variant) -> (cardinality:int64) {cardinality_options:string=''}",
      .flags = FLAGS,
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .run = dataset_whole_size_run },
    { .name = "GetOptions",
      .def = "(input_dataset:variant) -> (serialized_options:string) {}",
      .flags = FLAGS,
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .run = options_run },
    { 0 },
};
