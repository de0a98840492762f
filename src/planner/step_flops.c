/* SPDX-License-Identifier: Apache-2.0 */
/* step_flops.c - counts the operations of matrix products and convolutions. */
#include "planner/step_flops.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* 0: the shape is unknown. */
static double step_flops_elements(const mf_shape *s)
{
    int64_t n = 0;

    return mf_shape_is_static(s) && mf_shape_count(s, &n) == MF_OK ? (double)n : 0;
}

static const mf_shape *output_shape(const mf_compile *c, mf_output o)
{
    return &mf_compile_facts(c, o.node)->shapes[o.port];
}

/* (m k) (k n) (m n) is the square of m n k; a batch of products has one factor too many. */
static double product_flops(const mf_compile *c, const mf_node *n)
{
    const mf_shape *y = &mf_compile_facts(c, n)->shapes[0];
    const double a = step_flops_elements(output_shape(c, n->inputs[0])),
                 b = step_flops_elements(output_shape(c, n->inputs[1])),
                 all = step_flops_elements(y);
    const double batch = all > 0 ? all / (double)(y->dims[y->rank - 1] * y->dims[y->rank - 2]) : 1;

    return 2 * sqrt(a * b * all / batch);
}

/* Every element of the (forward) output is a sum over the part of the filter that it sees. */
static double conv_flops(const mf_compile *c, const mf_node *n)
{
    const mf_shape *own = &mf_compile_facts(c, n)->shapes[0];
    const bool of_filter = strstr(n->op_name, "BackpropFilter") != NULL,
               forward = !strstr(n->op_name, "Backprop");
    const mf_shape *filter = of_filter ? own : output_shape(c, n->inputs[1]),
                   *y = forward ? own : output_shape(c, n->inputs[2]);
    const double all = step_flops_elements(filter) * step_flops_elements(y);
    const int last = filter->rank - 1;

    if (all == 0 || filter->rank < 3)
        return 0;
    if (strstr(n->op_name, "Depthwise"))
        return 2 * all / (double)(filter->dims[last] * filter->dims[last - 1]);
    return 2 * all / (double)filter->dims[last];
}

static double step_flops_of(const mf_compile *c, const mf_node *n)
{
    if (strcmp(n->op_name, "MatMul") == 0 || strncmp(n->op_name, "BatchMatMul", 11) == 0)
        return product_flops(c, n);
    if (strncmp(n->op_name, "Conv", 4) == 0 || strncmp(n->op_name, "DepthwiseConv", 13) == 0)
        return conv_flops(c, n);
    return 0;
}

static mf_status step_flops_sum(mf_compile *c, double *out)
{
    mf_node **order;
    int64_t n;

    MF_TRY(mf_pass_inline(c));
    MF_TRY(mf_infer_graph(c));
    MF_TRY(mf_compile_order(c, &order, &n));
    for (int64_t i = 0; i < n; i++)
        *out += step_flops_of(c, order[i]);
    mf_free(order);
    return MF_OK;
}

mf_status mf_step_flops(const mf_planned_step *step, double *out)
{
    mf_arena *arena = mf_arena_new();
    mf_compile c = { 0 };
    mf_signature sig;
    mf_status st = arena ? MF_OK : MF_NOMEM("a count of operations");

    *out = 0;
    if (st == MF_OK)
        st = mf_signature_find(step->graph, &step->names, arena, &sig);
    if (st == MF_OK) {
        sig.feed_shapes = step->feed_shapes;
        st = mf_compile_begin(&c, step->graph, &sig);
    }
    if (st == MF_OK)
        st = step_flops_sum(&c, out);
    mf_compile_end(&c);
    mf_arena_free(arena);
    return st;
}
