/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - control flow. The executor implements these ops (mf_op.control); this file has their
 * signatures, shapes and gradients. Function calls do not exist in a compiled graph: bodies are
 * inlined. */
#include "graph/gradients.h"
#include "ops/control/grad_util.h"

#include <string.h>

/* ---- shapes ---- */

/* Keeps the dimensions on which all inputs agree: any of them may become the output. */
static mf_status merge_infer(mf_infer *in)
{
    mf_shape s = in->in[0];

    for (int i = 1; i < in->n_in; i++) {
        if (s.rank != in->in[i].rank)
            s = MF_SHAPE_UNKNOWN;
        for (int d = 0; d < s.rank; d++) {
            if (s.dims[d] != in->in[i].dims[d])
                s.dims[d] = MF_UNKNOWN_DIM;
        }
    }
    in->out[0] = s;
    in->out[1] = MF_SCALAR;
    return MF_OK;
}

/* Calls: the attribute output_shapes, if it has the right length. */
static mf_status call_infer(mf_infer *in)
{
    const mf_attr *a = mf_node_list(in->node, "output_shapes", MF_ATTR_SHAPE);

    if (a && a->n == in->n_out) {
        for (int i = 0; i < in->n_out; i++)
            in->out[i] = a->shapes[i];
    }
    return MF_OK;
}

/* ---- gradients: of Switch and Merge as conditionals have them; calls see graph/gradients.h ----
 */

static bool control_is_op(mf_output x, const char *name)
{
    return x.node && strcmp(x.node->op_name, name) == 0;
}

static mf_output zeros_where_missing(mf_grad *g, int i)
{
    return g->dy[i].node ? g->dy[i] : MF_G1("ZerosLike", g->y[i]);
}

/* The gradient of the branch that was taken; the other one is dead. The Switch makes it dead even
 * if it was computed from constants. */
static mf_status switch_grad(mf_grad *g)
{
    const mf_output pred = g->x[1];
    mf_output no, yes;

    if (control_is_op(pred, "LoopCond"))
        return mf_grad_missing(g);
    no = MF_G2("Switch", zeros_where_missing(g, 0), pred);
    yes = MF_G2("Switch", zeros_where_missing(g, 1), pred);
    g->dx[0] = MF_G2("Merge", no, ((mf_output){ yes.node, 1 }));
    return MF_OK;
}

static mf_status merge_grad(mf_grad *g)
{
    for (int i = 0; i < g->n_in; i++) {
        if (control_is_op(g->x[i], "NextIteration") || control_is_op(g->x[i], "Enter"))
            return mf_grad_missing(g);
    }
    if (!g->dy[0].node)
        return MF_OK;
    for (int i = 0; i < g->n_in; i++) {
        const mf_output chosen =
            MF_G2("Equal", g->y[1], mf_scalar(g->graph, MF_DTYPE_I32, (double)i));
        const mf_output both = MF_G2("Switch", g->dy[0], chosen);

        g->dx[i] = (mf_output){ both.node, 1 };
    }
    return MF_OK;
}

static mf_status loop_cond_run(mf_kernel *k)
{
    mf_kernel_view(k, 0, 0, &k->in[0]->shape);
    return MF_OK;
}

#define CONTROL(NAME, DEF, CONTROL, FLAGS, INFER, GRAD)                                            \
    {                                                                                              \
        .name = NAME, .def = DEF, .control = CONTROL, .flags = FLAGS, .infer = INFER, .grad = GRAD \
    }
#define CALL(NAME, DEF, GRAD) CONTROL(NAME, DEF, MF_CONTROL_CALL, 0, call_infer, GRAD)

#define ENTER_ATTRS                                                                                \
    "{T:type, frame_name:string, is_constant:bool=false, parallel_iterations:int=10}"
#define PARTITIONED                                                                                \
    "(args:*Tin) -> (output:*Tout) {Tin:list(type)>=0, Tout:list(type)>=0, f:func, "               \
    "config:string='', config_proto:string='', executor_type:string=''}"
#define IF                                                                                         \
    "(cond:Tcond, input:*Tin) -> (output:*Tout) {Tcond:type, Tin:list(type)>=0, "                  \
    "Tout:list(type)>=0, then_branch:func, else_branch:func, output_shapes:list(shape)=[]}"
#define WHILE                                                                                      \
    "(input:*T) -> (output:*T) {T:list(type)>=0, cond:func, body:func, "                           \
    "output_shapes:list(shape)=[], parallel_iterations:int=10}"
#define CASE                                                                                       \
    "(branch_index:int32, input:*Tin) -> (output:*Tout) {Tin:list(type)>=0, Tout:list(type)>=0, "  \
    "branches:list(func)>=1, output_shapes:list(shape)=[]}"

const mf_op mf_ops_control[] = {
    CONTROL("Switch", "(data:T, pred:bool) -> (output_false:T, output_true:T) {T:type}",
            MF_CONTROL_SWITCH, 0, mf_infer_same, switch_grad),
    CONTROL("RefSwitch",
            "(data:ref T, pred:bool) -> (output_false:ref T, output_true:ref T) {T:type} "
            "allows_uninitialized_input",
            MF_CONTROL_SWITCH, MF_OP_HEAP, mf_infer_same, switch_grad),
    CONTROL("Merge", "(inputs:N*T) -> (output:T, value_index:int32) {T:type, N:int>=1}",
            MF_CONTROL_MERGE, MF_OP_SEES_DEAD, merge_infer, merge_grad),
    CONTROL("RefMerge", "(inputs:ref N*T) -> (output:ref T, value_index:int32) {T:type, N:int>=1}",
            MF_CONTROL_MERGE, MF_OP_SEES_DEAD | MF_OP_HEAP, merge_infer, merge_grad),
    CONTROL("Enter", "(data:T) -> (output:T) " ENTER_ATTRS, MF_CONTROL_ENTER, 0, mf_infer_same,
            mf_grad_missing),
    CONTROL("RefEnter", "(data:ref T) -> (output:ref T) " ENTER_ATTRS, MF_CONTROL_ENTER, MF_OP_HEAP,
            mf_infer_same, mf_grad_missing),
    CONTROL("Exit", "(data:T) -> (output:T) {T:type}", MF_CONTROL_EXIT, 0, mf_infer_same,
            mf_grad_missing),
    CONTROL("RefExit", "(data:ref T) -> (output:ref T) {T:type}", MF_CONTROL_EXIT, MF_OP_HEAP,
            mf_infer_same, mf_grad_missing),
    CONTROL("NextIteration", "(data:T) -> (output:T) {T:type}", MF_CONTROL_NEXT, 0, mf_infer_same,
            mf_grad_missing),
    CONTROL("RefNextIteration", "(data:ref T) -> (output:ref T) {T:type}", MF_CONTROL_NEXT,
            MF_OP_HEAP, mf_infer_same, mf_grad_missing),
    CONTROL("ControlTrigger", "() -> () {}", MF_CONTROL_TRIGGER, MF_OP_SEES_DEAD, mf_infer_none,
            mf_grad_none),
    { .name = "LoopCond",
      .def = "(input:bool) -> (output:bool) {}",
      .flags = MF_OP_VIEW,
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .run = loop_cond_run,
      .samples = MF_SAMPLES("bool[]") },
    CALL("PartitionedCall", PARTITIONED, mf_grad_call),
    CALL("StatefulPartitionedCall", PARTITIONED " is_stateful is_distributed_communication",
         mf_grad_call),
    CALL("If", IF " is_stateful", mf_grad_branches),
    CALL("StatelessIf", IF, mf_grad_branches),
    CALL("While", WHILE " is_stateful", mf_grad_loop),
    CALL("StatelessWhile", WHILE, mf_grad_loop),
    CALL("Case", CASE " is_stateful", mf_grad_branches),
    CALL("StatelessCase", CASE, mf_grad_branches),
    CALL("SymbolicGradient",
         "(input:*Tin) -> (output:*Tout) {Tin:list(type)>=1, Tout:list(type)>=1, f:func}",
         mf_grad_missing),
    { 0 },
};
