/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c - clipping by value, norm, global norm, with TensorFlow's formulas. */
#include "train/step/clip.h"

#include "graph/gradients.h"

static mf_output clip_op2(mf_graph *g, const char *op, mf_output x, mf_output y)
{
    return mf_apply(g, op, MF_IN(x, y));
}

static void clip_by_value(mf_graph *g, double limit, mf_update *updates, int n)
{
    const mf_output high = mf_scalar(g, MF_DTYPE_F32, limit);
    const mf_output low = mf_scalar(g, MF_DTYPE_F32, -limit);

    for (int i = 0; i < n; i++)
        updates[i].gradient =
            clip_op2(g, "Maximum", clip_op2(g, "Minimum", updates[i].gradient, high), low);
}

static mf_output sum_of_squares(mf_graph *g, mf_output x)
{
    const mf_output flat = mf_apply(g, "Reshape", MF_IN(x, mf_ints(g, (int64_t[]){ -1 }, 1)));

    return mf_apply(g, "Sum",
                    MF_IN(mf_apply(g, "Square", MF_IN(flat)), mf_ints(g, (int64_t[]){ 0 }, 1)));
}

/* limit / max(norm, limit). */
static mf_output clip_scale_of(mf_graph *g, mf_output squares, double limit)
{
    const mf_output most = mf_scalar(g, MF_DTYPE_F32, limit);

    return clip_op2(g, "RealDiv", most,
                    clip_op2(g, "Maximum", mf_apply(g, "Sqrt", MF_IN(squares)), most));
}

static void by_norm(mf_graph *g, double limit, mf_update *updates, int n)
{
    for (int i = 0; i < n; i++)
        updates[i].gradient =
            clip_op2(g, "Mul", updates[i].gradient,
                     clip_scale_of(g, sum_of_squares(g, updates[i].gradient), limit));
}

static mf_status by_global_norm(mf_graph *g, double limit, mf_update *updates, int n)
{
    const mf_output end = MF_END;
    mf_outputs squares = { 0 };
    mf_output scale;

    for (int i = 0; i < n; i++)
        MF_TRY(mf_outputs_add(g->arena, &squares, sum_of_squares(g, updates[i].gradient)));
    MF_TRY(mf_outputs_add(g->arena, &squares, end));
    scale = clip_scale_of(g, mf_apply(g, "AddN", squares.at), limit);
    for (int i = 0; i < n; i++)
        updates[i].gradient = clip_op2(g, "Mul", updates[i].gradient, scale);
    return MF_OK;
}

mf_status mf_clip(mf_graph *graph, const char *text, mf_update *updates, int n)
{
    mf_options o;
    double value, norm, global;

    MF_TRY(mf_options_parse("clip",
                            "{value: float = 0.0, norm: float = 0.0, global_norm: float = 0.0}",
                            text, graph->arena, &o));
    value = mf_options_float(&o, "value");
    norm = mf_options_float(&o, "norm");
    global = mf_options_float(&o, "global_norm");
    if ((value != 0.0) + (norm != 0.0) + (global != 0.0) != 1 || value < 0.0 || norm < 0.0 ||
        global < 0.0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "clip: give one of value=, norm= and global_norm=, above 0");
    if (value > 0.0)
        clip_by_value(graph, value, updates, n);
    else if (norm > 0.0)
        by_norm(graph, norm, updates, n);
    else
        MF_TRY(by_global_norm(graph, global, updates, n));
    return mf_graph_status(graph);
}
