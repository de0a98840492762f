/* SPDX-License-Identifier: Apache-2.0 */
/* served_model.c - loads a checkpoint and runs inference on batches of requests. */
#include "serving/served_model.h"

#include "base/mem.h"
#include "dist/strategy_settings.h"
#include "models/zoo.h"
#include "train/step/trainer.h"

#include <string.h>

enum { RUN_ROWS = 256 }; /* rows of one run; larger batches are split, which bounds the memory */

struct mf_served {
    mf_model *model;
    mf_strategy *strategy; /* NULL: one device */
    mf_trainer *trainer;
    mf_serve_signature signature;
};

mf_status mf_serve_model_build(const mf_serve_model *what, mf_model **out)
{
    const char *head, *rest;
    const mf_zoo_kind *kind;

    MF_TRY(mf_zoo_build(what->model, what->columns, what->n_columns, what->classes, out));
    MF_TRY(mf_options_head(what->model, (*out)->graph->arena, &head, &rest));
    kind = mf_zoo_find(head);
    (*out)->loss = kind->loss;
    (*out)->metrics = kind->metrics;
    return MF_OK;
}

/* ---- running ---- */

/* Rows [from, from + n) of a tensor, without a copy. */
static void view_rows(const mf_tensor *t, int64_t from, int64_t n, mf_tensor *view)
{
    const int64_t row = mf_shape_span(&t->shape, 1, t->shape.rank);
    const size_t size = t->dtype == MF_DTYPE_STRING ? sizeof(mf_string) : mf_dtype_size(t->dtype);

    mf_tensor_set(view, t);
    view->shape.dims[0] = n;
    view->count = n * row;
    view->data = (char *)t->data + (size_t)(from * row) * size;
}

static mf_status served_model_join_rows(const mf_serve_input *in,
                                        const mf_serve_request *const *requests, int n, int input,
                                        int64_t rows, mf_tensor *out)
{
    mf_shape shape = { .rank = in->shape.rank + 1, .dims = { rows } };
    int64_t at = 0;

    if (n == 1) {
        mf_tensor_set(out, &requests[0]->inputs[input]);
        return MF_OK;
    }
    memcpy(shape.dims + 1, in->shape.dims, (size_t)in->shape.rank * sizeof *shape.dims);
    MF_TRY(mf_tensor_alloc(out, in->dtype, &shape));
    for (int i = 0; i < n; i++) {
        const mf_tensor *from = &requests[i]->inputs[input];

        MF_TRY(mf_cells_copy(in->dtype, out->data, at, from->data, 0, from->count));
        at += from->count;
    }
    return MF_OK;
}

/* Runs the model on rows [from, from + n). */
static mf_status run_some(mf_served *s, const mf_tensor *inputs, int64_t from, int64_t n,
                          int64_t rows, mf_tensor *output)
{
    mf_tensor views[MF_SERVE_INPUTS] = { 0 };
    const mf_tensor *values[MF_SERVE_INPUTS], *result;
    mf_status st;

    for (int i = 0; i < s->signature.n_inputs; i++) {
        view_rows(&inputs[i], from, n, &views[i]);
        values[i] = &views[i];
    }
    st = mf_trainer_infer(s->trainer, values, &result);
    if (st == MF_OK && (result->shape.rank < 1 || result->shape.dims[0] != n))
        st = MF_FAIL(MF_INTERNAL, "the model's output does not have one row for each input row");
    if (st == MF_OK && n == rows) {
        mf_tensor_set(output, result);
    } else if (st == MF_OK) {
        mf_shape shape = result->shape;

        shape.dims[0] = rows;
        if (from == 0)
            st = mf_tensor_alloc(output, result->dtype, &shape);
        if (st == MF_OK)
            st = mf_cells_copy(result->dtype, output->data, from * s->signature.output.count,
                               result->data, 0, result->count);
    }
    for (int i = 0; i < s->signature.n_inputs; i++)
        mf_tensor_clear(&views[i]);
    return st;
}

mf_status mf_served_run(mf_served *s, const mf_serve_request *const *requests, int n,
                        mf_tensor *output)
{
    mf_tensor inputs[MF_SERVE_INPUTS] = { 0 };
    mf_status st = MF_OK;
    int64_t rows = 0;

    *output = (mf_tensor){ 0 };
    for (int i = 0; i < n; i++)
        rows += requests[i]->rows;
    for (int i = 0; st == MF_OK && i < s->signature.n_inputs; i++)
        st = served_model_join_rows(&s->signature.inputs[i], requests, n, i, rows, &inputs[i]);
    for (int64_t from = 0; st == MF_OK && from < rows; from += RUN_ROWS)
        st = run_some(s, inputs, from, rows - from < RUN_ROWS ? rows - from : RUN_ROWS, rows,
                      output);
    for (int i = 0; i < s->signature.n_inputs; i++)
        mf_tensor_clear(&inputs[i]);
    if (st != MF_OK)
        mf_tensor_clear(output);
    return st;
}

/* ---- building ---- */

/* Runs one row of zeros. */
static mf_status warm_up(mf_served *s)
{
    mf_serve_request r = { .rows = 1 };
    const mf_serve_request *one = &r;
    mf_tensor output = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < s->signature.n_inputs; i++) {
        const mf_serve_input *in = &s->signature.inputs[i];
        mf_shape shape = { .rank = in->shape.rank + 1, .dims = { 1 } };

        memcpy(shape.dims + 1, in->shape.dims, (size_t)in->shape.rank * sizeof *shape.dims);
        st = mf_tensor_alloc(&r.inputs[i], in->dtype, &shape);
        if (st == MF_OK && in->dtype != MF_DTYPE_STRING)
            memset(r.inputs[i].data, 0, (size_t)in->count * mf_dtype_size(in->dtype));
    }
    if (st == MF_OK)
        st = mf_served_run(s, &one, 1, &output);
    mf_tensor_clear(&output);
    mf_serve_request_deinit(&r);
    return st;
}

static mf_status served_model_start(mf_served *s, const mf_serve_model *what,
                                    const char *checkpoint)
{
    mf_compile_options o = what->compile;

    MF_TRY(mf_serve_model_build(what, &s->model));
    MF_TRY(mf_serve_signature_init(&s->signature, s->model, what->classes, what->class_names));
    if (what->mesh)
        MF_TRY(mf_strategy_open_with(what->mesh, NULL, &s->strategy));
    o.strategy = s->strategy;
    o.optimizer = "sgd"; /* an optimizer without slots */
    mf_model_defaults(s->model, &o.loss, &o.metrics);
    MF_TRY(mf_model_compile(s->model, &o, &s->trainer));
    MF_TRY(mf_trainer_use(s->trainer, checkpoint));
    return warm_up(s);
}

mf_status mf_served_new(const mf_serve_model *what, const char *checkpoint, mf_served **out)
{
    mf_served *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a model");
    st = served_model_start(s, what, checkpoint);
    if (st != MF_OK)
        mf_served_free(s);
    else
        *out = s;
    return st;
}

void mf_served_free(mf_served *s)
{
    if (!s)
        return;
    mf_trainer_free(s->trainer);
    mf_strategy_close(s->strategy);
    mf_model_free(s->model);
    mf_free(s);
}

const mf_serve_signature *mf_served_signature(const mf_served *s)
{
    return &s->signature;
}
