/* SPDX-License-Identifier: Apache-2.0 */
/* label_format.c - shared by losses and metrics: converts labels to the form of the output. */
#include "models/losses.h"

mf_status mf_scores_begin(mf_model *model, const char *kind, const char *name,
                          const char *signature, const char *settings, const mf_output *in,
                          mf_layer_call *l)
{
    *l =
        (mf_layer_call){ .model = model, .graph = model->graph, .in = in, .n_in = 2, .name = name };
    MF_TRY(mf_options_parse(name, signature, settings, model->graph->arena, &l->o));
    l->shape = mf_model_shape(model, in[0]);
    MF_TRY(mf_graph_status(model->graph));
    if (!in[0].node || !in[1].node)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s '%s' needs an output and a label", kind, name);
    if (l->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s '%s': the shape of the output is unknown", kind,
                       name);
    return MF_OK;
}

static mf_output label_format_cast(mf_layer_call *l, mf_output x, mf_dtype dtype)
{
    if (!x.node || x.node->out_types[x.port] == dtype)
        return x;
    return mf_applyf(l->graph, "Cast", MF_IN(x), "DstT=%s", mf_dtype_name(dtype));
}

static mf_output label_format_does_not_fit(mf_layer_call *l, const mf_shape *label, const char *fix)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    return mf_layer_fail(l, "a label of shape %s does not fit an output of shape %s; %s",
                         mf_shape_text(label, a), mf_shape_text(&l->shape, b), fix);
}

mf_output mf_label_like_output(mf_layer_call *l)
{
    const mf_shape label = mf_model_shape(l->model, l->in[1]);
    const mf_output x = label_format_cast(l, l->in[1], MF_DTYPE_F32);
    mf_shape to = l->shape;

    if (label.rank == to.rank && mf_shape_compatible(&label, &to))
        return x;
    to.dims[0] = -1;
    if (label.rank == to.rank - 1 && to.dims[to.rank - 1] == 1)
        return mf_layer_reshape(l, x, to.dims, to.rank);
    return label_format_does_not_fit(l, &label,
                                     "they must be equal; a class number needs a sparse loss");
}

mf_output mf_label_classes(mf_layer_call *l)
{
    const mf_shape label = mf_model_shape(l->model, l->in[1]);
    mf_shape to = l->shape;
    mf_output x = l->in[1];

    to.rank--;
    if (x.node->out_types[x.port] != MF_DTYPE_I64)
        x = label_format_cast(l, x, MF_DTYPE_I32);
    if (label.rank == to.rank && mf_shape_compatible(&label, &to))
        return x;
    to.dims[0] = -1;
    if (label.rank == l->shape.rank && label.dims[to.rank] == 1)
        return mf_layer_reshape(l, x, to.dims, to.rank);
    return label_format_does_not_fit(l, &label, "a class number for each row of scores is needed");
}

mf_output mf_mean_of_samples(mf_layer_call *l, mf_output x)
{
    const mf_shape s = mf_model_shape(l->model, x);
    int64_t axes[MF_MAX_RANK];

    for (int i = 1; i < s.rank; i++)
        axes[i - 1] = i;
    return s.rank <= 1 ? x : mf_layer_reduce(l, "Mean", x, axes, s.rank - 1, false);
}
