/* SPDX-License-Identifier: Apache-2.0 */
/* window_grad.c - builds the gradient nodes of convolutions and poolings. */
#include "ops/nn/window_grad.h"

#include "base/buf.h"

mf_output mf_window_apply(mf_grad *g, const char *op, const mf_output *inputs)
{
    static const char *const lists[] = { "strides", "dilations", "ksize", "explicit_paddings" };
    static const char *const strings[] = { "padding", "data_format" };
    mf_output out = { 0 };
    mf_buf text = { 0 };

    for (int i = 0; i < MF_COUNT(lists); i++) {
        int64_t n;
        const int64_t *values = mf_node_ints(g->node, lists[i], &n);

        if (!mf_node_attr(g->node, lists[i]) || n == 0)
            continue;
        mf_buf_printf(&text, "%s=[", lists[i]);
        for (int64_t j = 0; j < n; j++)
            mf_buf_printf(&text, j ? ",%lld" : "%lld", (long long)values[j]);
        mf_buf_str(&text, "] ");
    }
    for (int i = 0; i < MF_COUNT(strings); i++) {
        if (mf_node_attr(g->node, strings[i]))
            mf_buf_printf(&text, "%s='%s' ", strings[i], mf_node_string(g->node, strings[i]));
    }
    if (text.failed)
        mf_graph_fail(g->graph, MF_RESOURCE_EXHAUSTED);
    else
        out = mf_applyf(g->graph, op, inputs, "%s", text.data);
    mf_buf_deinit(&text);
    return out;
}
