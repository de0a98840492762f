/* SPDX-License-Identifier: Apache-2.0 */
/* math_util.c - selects the loop of an elementwise op by data type, and infers its shape. */
#include "ops/math/math_util.h"

mf_status mf_loop_run_hidden(mf_kernel *k, const mf_loop *loop)
{
    mf_kernel_def def = *k->def;
    mf_kernel inner = *k;

    def.loop = loop;
    inner.def = &def;
    return mf_loop_run(&inner);
}

mf_status mf_same_shape_infer(mf_infer *in)
{
    mf_shape shape = in->in[0];

    for (int i = 1; i < in->n_in; i++)
        MF_TRY(mf_shape_merge(&shape, &in->in[i], &shape));
    in->out[0] = shape;
    return MF_OK;
}

mf_status mf_same_shape_run(mf_kernel *k)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    for (int i = 1; i < k->n_in; i++) {
        if (!mf_shape_equal(&k->in[0]->shape, &k->in[i]->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s: inputs must be of the same shape: %s vs. %s",
                           k->node->op_name, mf_shape_text(&k->in[0]->shape, a),
                           mf_shape_text(&k->in[i]->shape, b));
    }
    return mf_loop_run(k);
}
