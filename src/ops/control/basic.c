/* SPDX-License-Identifier: Apache-2.0 */
/* basic.c - constants, placeholders, identities and other ops that pass values on. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- constants ---- */

static mf_status const_value(const mf_node *node, const mf_tensor **out)
{
    const mf_attr *value = mf_node_attr(node, "value");

    *out = value && value->kind == MF_ATTR_TENSOR && !value->is_list ? value->tensor : NULL;
    if (!*out)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the constant has no value");
    if ((*out)->dtype != mf_out_type(node, 0))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Inconsistent value and type of a constant: value is %s, type is %s",
                       mf_dtype_name((*out)->dtype), mf_dtype_name(mf_out_type(node, 0)));
    return MF_OK;
}

static mf_status const_infer(mf_infer *in)
{
    const mf_tensor *value;

    MF_TRY(const_value(in->node, &value));
    in->out[0] = value->shape;
    mf_infer_value(in, 0, value);
    return MF_OK;
}

static mf_status const_prepare(mf_prepare *p)
{
    const mf_tensor *value;
    mf_tensor *kept = MF_ARENA_NEW(p->arena, mf_tensor);

    MF_TRY(const_value(p->node, &value));
    if (!kept)
        return MF_NOMEM("a constant");
    mf_tensor_set(kept, value);
    p->state = kept;
    return MF_OK;
}

static void const_release(void *state)
{
    if (state)
        mf_tensor_clear(state);
}

static mf_status const_run(mf_kernel *k)
{
    mf_kernel_set(k, 0, k->state);
    return MF_OK;
}

/* ---- placeholders ---- */

static mf_status placeholder_infer(mf_infer *in)
{
    in->out[0] = *mf_node_shape(in->node, "shape");
    return MF_OK;
}

static mf_status placeholder_run(mf_kernel *k)
{
    const mf_shape *shape = mf_node_shape(k->node, "shape");
    char text[MF_SHAPE_TEXT];

    if (shape->rank > 0)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "You must feed a value for placeholder tensor '%s' with dtype %s and shape %s",
            k->node->name, mf_dtype_name(mf_out_type(k->node, 0)), mf_shape_text(shape, text));
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "You must feed a value for placeholder tensor '%s' with dtype %s", k->node->name,
                   mf_dtype_name(mf_out_type(k->node, 0)));
}

/* A fed value may differ from the default, so only the attribute counts. */
static mf_status placeholder_with_default_infer(mf_infer *in)
{
    mf_shape merged;

    MF_TRY(mf_shape_merge(&in->in[0], mf_node_shape(in->node, "shape"), &merged));
    return placeholder_infer(in);
}

/* ---- identities ---- */

static mf_status identity_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++) {
        in->out[i] = in->in[i];
        if (in->in_value[i])
            mf_infer_value(in, i, in->in_value[i]);
    }
    return MF_OK;
}

static mf_status identity_run(mf_kernel *k)
{
    mf_kernel_view(k, 0, 0, &k->in[0]->shape);
    return MF_OK;
}

static mf_status identity_n_run(mf_kernel *k)
{
    for (int i = 0; i < k->n_in; i++)
        mf_kernel_set(k, i, k->in[i]);
    return MF_OK;
}

static mf_status identity_grad(mf_grad *g)
{
    for (int i = 0; i < g->n_in; i++)
        g->dx[i] = g->dy[i];
    return MF_OK;
}

static mf_status prevent_grad(mf_grad *g)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "Gradient explicitly disabled at '%s'. Reason: %s",
                   g->node->name, mf_node_string(g->node, "message"));
}

/* ---- EnsureShape ---- */

static mf_status ensure_shape_infer(mf_infer *in)
{
    MF_TRY(mf_shape_merge(&in->in[0], mf_node_shape(in->node, "shape"), &in->out[0]));
    if (in->in_value[0])
        mf_infer_value(in, 0, in->in_value[0]);
    return MF_OK;
}

static mf_status ensure_shape_prepare(mf_prepare *p)
{
    p->state = (void *)(uintptr_t)mf_node_shape(p->node, "shape");
    return MF_OK;
}

static mf_status ensure_shape_run(mf_kernel *k)
{
    const mf_shape *expected = k->state;
    char actual_text[MF_SHAPE_TEXT], expected_text[MF_SHAPE_TEXT];

    if (!mf_shape_compatible(&k->in[0]->shape, expected))
        return MF_FAIL(
            MF_INVALID_ARGUMENT, "Shape of tensor %s %s is not compatible with expected shape %s.",
            k->node->inputs ? k->node->inputs[0].node->name : "",
            mf_shape_text(&k->in[0]->shape, actual_text), mf_shape_text(expected, expected_text));
    return identity_run(k);
}

static mf_status ensure_shape_grad(mf_grad *g)
{
    char text[MF_SHAPE_TEXT];
    const mf_shape *shape = mf_node_shape(g->node, "shape");

    if (shape->rank < 0)
        g->dx[0] = g->dy[0];
    else
        g->dx[0] = mf_applyf(g->graph, "EnsureShape", MF_IN(g->dy[0]), "shape=shape%s",
                             mf_shape_text(shape, text));
    return MF_OK;
}

static mf_status noop_run(mf_kernel *k)
{
    (void)k;
    return MF_OK;
}

const mf_op mf_ops_basic[] = {
    { .name = "Const",
      .def = "() -> (output:dtype) {value:tensor, dtype:type}",
      .flags = MF_OP_HEAP,
      .infer = const_infer,
      .grad = mf_grad_none,
      .prepare = const_prepare,
      .release = const_release,
      .run = const_run },
    { .name = "Placeholder",
      .def = "() -> (output:dtype) {dtype:type, shape:shape=shape?}",
      .flags = MF_OP_HEAP,
      .infer = placeholder_infer,
      .grad = mf_grad_none,
      .run = placeholder_run,
      .samples = MF_SAMPLES("; dtype=float shape=shape[2,3] !fails", "; dtype=int32 !fails") },
    { .name = "PlaceholderV2",
      .def = "() -> (output:dtype) {dtype:type, shape:shape}",
      .flags = MF_OP_HEAP,
      .infer = placeholder_infer,
      .grad = mf_grad_none,
      .run = placeholder_run,
      .samples = MF_SAMPLES("; dtype=float shape=shape[] !fails !notf") },
    { .name = "PlaceholderWithDefault",
      .def = "(input:dtype) -> (output:dtype) {dtype:type, shape:shape}",
      .flags = MF_OP_VIEW,
      .infer = placeholder_with_default_infer,
      .grad = identity_grad,
      .run = identity_run,
      .samples = MF_SAMPLES("f32[2,3] ; shape=shape[?,3]", "i32[] ; shape=shape?",
                            "f32[2,3] ; shape=shape[3,3] !fails") },
    { .name = "Identity",
      .rows = mf_rows_first,
      .def = "(input:T) -> (output:T) {T:type}",
      .flags = MF_OP_VIEW,
      .infer = identity_infer,
      .grad = identity_grad,
      .run = identity_run,
      .split = mf_split_identity,
      .samples = MF_SAMPLES("f32[2,3]", "f64[]", "f32[0,4]", "str[3]", "bool[2,2]") },
    { .name = "IdentityN",
      .def = "(input:*T) -> (output:*T) {T:list(type)>=1}",
      .flags = MF_OP_HEAP | MF_OP_UNPLANNED, /* several views: a plan cannot express them */
      .infer = identity_infer,
      .grad = identity_grad,
      .run = identity_n_run,
      .samples = MF_SAMPLES("f32[2,3] f64[4] ; T=[float,double]", "i32[] ; T=[int32]") },
    { .name = "StopGradient",
      .rows = mf_rows_first,
      .def = "(input:T) -> (output:T) {T:type}",
      .flags = MF_OP_VIEW,
      .infer = identity_infer,
      .grad = mf_grad_none,
      .run = identity_run,
      .split = mf_split_identity,
      .samples = MF_SAMPLES("f32[2,3] !nograd", "i64[]") },
    { .name = "PreventGradient",
      .rows = mf_rows_first,
      .def = "(input:T) -> (output:T) {T:type, message:string=''}",
      .flags = MF_OP_VIEW,
      .infer = identity_infer,
      .grad = prevent_grad,
      .run = identity_run,
      .split = mf_split_identity,
      .samples = MF_SAMPLES("f32[2,3] ; message='because' !nograd") },
    { .name = "Snapshot",
      .def = "(input:T) -> (output:T) {T:type}",
      .flags = MF_OP_VIEW,
      .infer = identity_infer,
      .grad = mf_grad_missing,
      .run = identity_run,
      .split = mf_split_identity,
      .samples = MF_SAMPLES("f32[2,3] !nograd", "f32[0] !nograd") },
    { .name = "EnsureShape",
      .def = "(input:T) -> (output:T) {shape:shape, T:type}",
      .flags = MF_OP_VIEW,
      .infer = ensure_shape_infer,
      .grad = ensure_shape_grad,
      .prepare = ensure_shape_prepare,
      .run = ensure_shape_run,
      .samples =
          MF_SAMPLES("f32[2,3] ; shape=shape[?,3]", "f32[4] ; shape=shape? !notf",
                     "f32[2,3] ; shape=shape[2,4] !fails", "f32[2] ; shape=shape[] !fails") },
    { .name = "NoOp",
      .def = "() -> () {}",
      .infer = mf_infer_none,
      .grad = mf_grad_none,
      .run = noop_run,
      .samples = MF_SAMPLES("") },
    { .name = "RefIdentity",
      .def = "(input:ref T) -> (output:ref T) {T:type} allows_uninitialized_input",
      .flags = MF_OP_HEAP,
      .infer = mf_infer_same,
      .grad = identity_grad,
      .run = identity_n_run,
      .samples = MF_SAMPLES("var:f32[3] !nograd !notf") },
    /* In function bodies only: inlining removes both. */
    { .name = "_Arg",
      .def = "() -> (output:T) {T:type, index:int>=0} is_stateful",
      .control = MF_CONTROL_ARG,
      .infer = mf_infer_unknown,
      .grad = mf_grad_none },
    { .name = "_Retval",
      .def = "(input:T) -> () {T:type, index:int>=0} is_stateful",
      .control = MF_CONTROL_ARG,
      .infer = mf_infer_none,
      .grad = mf_grad_none },
    { 0 },
};
