/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue.c - an op followed by elementwise steps on its result: the op calls back with each
 * finished piece while it is still in the cache. See fused.h. */
#include "ops/math/fused.h"

#include <string.h>

enum { MAX_OPERANDS = MF_BROADCAST_INPUTS };

typedef struct then_state {
    const mf_kernel_def *first; /* the kernel of the first op */
    void *op_state;
    int n_in; /* its inputs */
    mf_fused *steps;
} then_state;

typedef struct steps_then {
    mf_epilogue base;
    mf_fused_run run;
} steps_then;

/* Of "_<Name>Then". */
static const mf_kernel_def *first_kernel(const mf_node *node)
{
    const size_t n = strlen(node->op_name), wrap = strlen("_Then");
    const mf_op *op;
    char name[64];

    if (n <= wrap || n - wrap >= sizeof name)
        return NULL;
    memcpy(name, node->op_name + 1, n - wrap);
    name[n - wrap] = '\0';
    op = mf_op_find(name);
    return op ? mf_kernel_of(op) : NULL;
}

mf_status mf_epilogue_prepare(mf_prepare *p)
{
    const mf_node *node = p->node;
    const int more = (int)mf_node_attr(node, "Tmore")->n;
    mf_dtype types[MAX_OPERANDS] = { node->out_types[0] };
    then_state *s = MF_ARENA_NEW(p->arena, then_state);

    if (!s)
        return MF_NOMEM("a fused op");
    if (more >= MAX_OPERANDS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a fused op of %d operands", more + 1);
    s->first = first_kernel(node);
    s->n_in = node->n_inputs - more;
    for (int i = 0; i < more; i++)
        types[i + 1] = node->in_types[s->n_in + i];
    MF_TRY(mf_fused_read(node, types, more + 1, p->arena, &s->steps));
    MF_TRY(s->first->prepare(p));
    s->op_state = p->state;
    p->state = s;
    return MF_OK;
}

void mf_epilogue_release(void *state)
{
    then_state *s = state;

    if (s && s->first->release)
        s->first->release(s->op_state);
}

/* Output 0, with the shape that the op will produce. */
static mf_status result(mf_kernel *k, mf_tensor **out)
{
    mf_shape in[MAX_OPERANDS + 2], shape = { .rank = MF_UNKNOWN_RANK };
    const mf_tensor *values[MAX_OPERANDS + 2] = { 0 };
    mf_tensor value = { 0 };
    mf_infer infer = { .node = k->node,
                       .n_in = k->n_in,
                       .n_out = 1,
                       .in = in,
                       .in_value = values,
                       .out = &shape,
                       .out_value = &value };

    *out = k->out[0];
    if ((*out)->data)
        return MF_OK;
    for (int i = 0; i < k->n_in; i++) {
        in[i] = k->in[i]->shape;
        values[i] = k->in[i]->count <= MF_MAX_RANK ? k->in[i] : NULL; /* sizes */
    }
    MF_TRY(k->node->op->infer(&infer));
    return mf_kernel_out(k, 0, &shape, out);
}

static void epilogue_run_steps(const mf_epilogue *then, int64_t from, int64_t to)
{
    mf_fused_range(&((const steps_then *)then)->run, from, to);
}

mf_status mf_epilogue_run(mf_kernel *k)
{
    const then_state *s = k->state;
    const mf_shape *shapes[MAX_OPERANDS];
    const void *data[MAX_OPERANDS];
    steps_then then = { .base = { epilogue_run_steps } };
    mf_kernel first = *k;
    mf_tensor *out;

    MF_TRY(result(k, &out));
    shapes[0] = &out->shape;
    data[0] = out->data;
    for (int i = s->n_in; i < k->n_in; i++) {
        shapes[i - s->n_in + 1] = &k->in[i]->shape;
        data[i - s->n_in + 1] = k->in[i]->data;
    }
    if (out->count > 0)
        MF_TRY(mf_fused_begin(&then.run, s->steps, &out->shape, shapes, data, out->data,
                              mf_dtype_cell(out->dtype)));
    first.state = s->op_state;
    first.n_in = s->n_in;
    first.then = &then.base;
    return s->first->run(&first);
}
