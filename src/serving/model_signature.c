/* SPDX-License-Identifier: Apache-2.0 */
/* model_signature.c - inputs and output of a served model, and their metadata as JSON. */
#include "serving/model_signature.h"

#include <ctype.h>
#include <string.h>

/* The shape of a row: all dimensions but the first. */
static mf_status model_signature_row_of(const mf_shape *s, const char *name, mf_serve_input *t)
{
    mf_shape *row = &t->shape;

    if (s->rank < 1)
        return MF_FAIL(MF_UNIMPLEMENTED, "'%s' has no rows: a model is served row by row", name);
    *row = (mf_shape){ .rank = s->rank - 1 };
    for (int i = 0; i < row->rank; i++) {
        row->dims[i] = s->dims[i + 1];
        if (row->dims[i] < 0)
            return MF_FAIL(MF_UNIMPLEMENTED,
                           "the shape of '%s' is not known, so rows of several requests cannot "
                           "be batched",
                           name);
    }
    MF_TRY(mf_shape_count(row, &t->count));
    return t->count > 0 ? MF_OK : MF_FAIL(MF_UNIMPLEMENTED, "rows of '%s' have no elements", name);
}

mf_status mf_serve_signature_init(mf_serve_signature *s, mf_model *model, int64_t classes,
                                  const char *const *class_names)
{
    mf_shape shape = mf_model_shape(model, model->output);

    *s = (mf_serve_signature){ .n_inputs = (int)model->n_inputs };
    MF_TRY(mf_model_status(model));
    if (model->n_inputs > MF_SERVE_INPUTS)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "a model with %lld inputs cannot be served: at most %d "
                       "are possible",
                       (long long)model->n_inputs, MF_SERVE_INPUTS);
    MF_TRY(model_signature_row_of(&shape, "output", &s->output));
    s->output.dtype = model->output.node->out_types[model->output.port];
    if (classes > 1 && s->output.shape.rank == 1 && s->output.shape.dims[0] == classes) {
        s->classes = classes;
        s->class_names = class_names;
    }
    s->output.name = s->classes ? "scores" : "values";
    for (int i = 0; i < s->n_inputs; i++) {
        const mf_node *in = model->inputs[i].node;

        shape = mf_model_shape(model, model->inputs[i]);
        MF_TRY(mf_model_status(model));
        s->inputs[i] = (mf_serve_input){ .name = in->name, .dtype = in->out_types[0] };
        MF_TRY(model_signature_row_of(&shape, in->name, &s->inputs[i]));
    }
    return MF_OK;
}

/* "DT_FLOAT". */
static void add_type(mf_buf *out, mf_dtype dtype)
{
    mf_buf_str(out, "\"DT_");
    for (const char *c = mf_dtype_name(dtype); *c; c++)
        mf_buf_printf(out, "%c", toupper((unsigned char)*c));
    mf_buf_str(out, "\"");
}

static void model_signature_add_tensor(mf_buf *out, const mf_serve_input *t)
{
    mf_buf_json(out, t->name, strlen(t->name));
    mf_buf_str(out, ": {\"dtype\": ");
    add_type(out, t->dtype);
    mf_buf_str(out, ", \"tensor_shape\": {\"dim\": [{\"size\": \"-1\", \"name\": \"\"}");
    for (int i = 0; i < t->shape.rank; i++)
        mf_buf_printf(out, ", {\"size\": \"%lld\", \"name\": \"\"}", (long long)t->shape.dims[i]);
    mf_buf_str(out, "], \"unknown_rank\": false}, \"name\": ");
    mf_buf_json(out, t->name, strlen(t->name));
    mf_buf_str(out, "}");
}

void mf_serve_signature_metadata(const mf_serve_signature *s, const char *name, int64_t version,
                                 mf_buf *out)
{
    mf_buf_str(out, "{\"model_spec\": {\"name\": ");
    mf_buf_json(out, name, strlen(name));
    mf_buf_printf(out, ", \"signature_name\": \"\", \"version\": \"%lld\"}, \"metadata\": ",
                  (long long)version);
    mf_buf_str(out, "{\"signature_def\": {\"signature_def\": {\"serving_default\": {\"inputs\": {");
    for (int i = 0; i < s->n_inputs; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        model_signature_add_tensor(out, &s->inputs[i]);
    }
    mf_buf_str(out, "}, \"outputs\": {");
    model_signature_add_tensor(out, &s->output);
    mf_buf_str(out, "}, \"method_name\": \"tensorflow/serving/predict\"}}}}}\n");
}
