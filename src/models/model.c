/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - the parts of a model: inputs, weights, shapes, output. */
#include "models/model.h"

#include "base/host_state.h"

#include <meshflow/mesh.h>

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

mf_status mf_model_new(mf_model **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(out);

    mf_model *m = mf_calloc(1, sizeof *m);
    mf_status st;

    *out = NULL;
    if (!m)
        return MF_NOMEM("a model");
    st = mf_graph_new(&m->graph);
    if (st != MF_OK) {
        mf_free(m);
        return st;
    }
    atomic_init(&m->refs, 1);
    m->shapes.graph = m->graph;
    m->seed = mf_applyf(m->graph, "Placeholder", MF_NO_IN, "dtype=int64 shape=shape[] name='seed'");
    m->clock =
        mf_applyf(m->graph, "Placeholder", MF_NO_IN, "dtype=int64 shape=shape[3] name='clock'");
    st = mf_graph_status(m->graph);
    if (st != MF_OK)
        mf_model_free(m);
    else
        *out = m;
    return st;
}

void mf_model_ref(mf_model *model)
{
    atomic_fetch_add(&model->refs, 1);
}

void mf_model_free(mf_model *model)
{
    MF_ENTRY_OR();

    if (!model || atomic_fetch_sub(&model->refs, 1) > 1)
        return;
    mf_map_deinit(&model->layers);
    mf_free(model->weights);
    mf_free(model->moving);
    mf_free(model->left);
    mf_free(model->losses);
    mf_free(model->carried);
    mf_free(model->inputs);
    mf_free(model->made);
    mf_graph_free(model->graph);
    mf_free(model);
}

mf_graph *mf_model_graph(mf_model *model)
{
    return model ? model->graph : NULL;
}

mf_status mf_model_status(const mf_model *model)
{
    MF_ENTRY_SMALL;
    MF_NEED(model);

    return mf_graph_status(model->graph);
}

void mf_model_name_batch(mf_graph *g, mf_output in, int rank)
{
    char names[16 + MF_MAX_RANK];

    (void)snprintf(names, sizeof names, "batch%.*s", rank - 1, ",,,,,,,,");
    mf_name_dims(g, in, names);
}

bool mf_model_refuses(mf_model *model, mf_status status)
{
    if (status == MF_OK && model->compiled)
        status = MF_FAIL(MF_FAILED_PRECONDITION,
                         "the model is compiled: add layers, inputs and outputs before "
                         "mf_model_compile()");
    return mf_graph_refuses(model ? model->graph : NULL, status);
}

mf_output mf_model_input(mf_model *model, const char *name, mf_dtype dtype, const int64_t *dims,
                         int rank)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_model_refuses(model, MF_NEEDED(model, name)) ||
        mf_model_refuses(model, mf_host_need_array(__func__, "dims", dims, rank)))
        return (mf_output){ 0 };

    mf_shape shape = { .rank = rank + 1, .dims = { -1 } };
    char text[MF_SHAPE_TEXT];
    mf_output in;
    mf_status st = MF_OK;

    if (rank >= MF_MAX_RANK)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "input '%s' has rank %d, but the maximum is %d", name,
                     rank, MF_MAX_RANK - 1);
    for (int i = 0; st == MF_OK && i < rank; i++)
        shape.dims[i + 1] = dims[i];
    if (st == MF_OK)
        st = mf_grow(&model->inputs, &model->cap_inputs, model->n_inputs + 1, sizeof(mf_output));
    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return (mf_output){ 0 };
    }
    in = mf_applyf(model->graph, "Placeholder", MF_NO_IN, "dtype=%s shape=shape%s name='%s'",
                   mf_dtype_name(dtype), mf_shape_text(&shape, text), name);
    mf_model_name_batch(model->graph, in, shape.rank);
    model->inputs[model->n_inputs++] = in;
    return in;
}

void mf_model_output(mf_model *model, mf_output output)
{
    MF_ENTRY_OR();
    if (mf_model_refuses(model, MF_NEEDED(model)) ||
        mf_model_refuses(model, mf_graph_owns(model->graph, output, "mf_model_output()", 0)))
        return;

    model->output = output;
}

mf_shape mf_model_shape(mf_model *model, mf_output output)
{
    mf_status st = MF_OK;

    if (!output.node || model->graph->failed)
        return MF_SHAPE_UNKNOWN;
    if (output.node->id >= model->shapes.n_facts)
        st = mf_infer_more(&model->shapes);
    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return MF_SHAPE_UNKNOWN;
    }
    return mf_compile_facts(&model->shapes, output.node)->shapes[output.port];
}

mf_status mf_model_unknown(const char *what, const char *name, const char *closest,
                           const char *option)
{
    if (closest)
        return MF_FAIL(MF_NOT_FOUND, "there is no %s '%.60s'; did you mean '%s'?", what, name,
                       closest);
    return MF_FAIL(MF_NOT_FOUND, "there is no %s '%.60s'; `meshflow models%s` lists them", what,
                   name, option);
}

mf_weight *mf_model_weight(const mf_model *model, const char *name)
{
    for (int64_t i = 0; i < model->n_weights; i++) {
        if (strcmp(model->weights[i]->name, name) == 0)
            return model->weights[i];
    }
    return NULL;
}

void mf_model_name_output(mf_model *model, const char *name, mf_output output)
{
    const mf_status st =
        mf_grow(&model->left, &model->cap_left, model->n_left + 1, sizeof *model->left);

    if (st != MF_OK)
        mf_graph_fail(model->graph, st);
    else if (output.node)
        model->left[model->n_left++] = (mf_named_output){ name, output };
}

mf_output mf_model_named_output(const mf_model *model, const char *name)
{
    for (int64_t i = model->n_left - 1; i >= 0; i--) {
        if (strcmp(model->left[i].name, name) == 0)
            return model->left[i].output;
    }
    return (mf_output){ 0 };
}

mf_status mf_model_freeze(mf_model *model, const char *pattern, bool frozen)
{
    MF_ENTRY;
    MF_NEED(model, pattern);

    bool any = false;

    if (model->compiled)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "the model is compiled: call mf_model_freeze() before");
    for (int64_t i = 0; i < model->n_weights; i++) {
        mf_weight *w = model->weights[i];
        bool moves = false;

        if (fnmatch(pattern, w->name, 0) != 0)
            continue;
        any = true;
        for (int64_t k = 0; k < model->n_moving; k++)
            moves |= model->moving[k].weight == w;
        for (int64_t k = 0; k < model->n_kept; k++)
            moves |= model->carried[k].weight == w;
        if (!moves)
            w->trained = !frozen;
    }
    if (any)
        return MF_OK;
    return MF_FAIL(MF_NOT_FOUND, "there is no weight '%s'; the first one is '%s'", pattern,
                   model->n_weights > 0 ? model->weights[0]->name : "(none)");
}

int64_t mf_model_parameters(const mf_model *model, int64_t *trained)
{
    MF_ENTRY_OR(0);
    if (!model)
        return 0;

    int64_t all = 0, by_gradients = 0;

    for (int64_t i = 0; i < model->n_weights; i++) {
        int64_t n = 0;

        if (mf_shape_count(&model->weights[i]->shape, &n) != MF_OK)
            continue;
        all += n;
        by_gradients += model->weights[i]->trained ? n : 0;
    }
    if (trained)
        *trained = by_gradients;
    return all;
}
