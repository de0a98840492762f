/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_infer.c - single ops: attributes, and shape inference with partial knowledge of the inputs.
 *
 * Each line is a case, "KNOWN OP SAMPLE": a sample as in tests/ops/sample.h, and for each input a
 * letter for
 * what is known before the run: v its value, s its shape, d its rank, r nothing. */
#include "base/log.h"
#include "base/quota.h"
#include "compiler/compiler.h"
#include "ops/sample.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST_LINES = 8, MOST_ELEMENTS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mf_output input(mf_graph *g, const mf_op *op, int i, const mf_sample_input *in, char known)
{
    const mf_tensor *v = &in->value;
    const mf_opdef *def;
    mf_shape shape = v->shape;
    char text[MF_SHAPE_TEXT];
    const char *node = "Placeholder";

    if (in->is_variable)
        node = mf_op_def(op, &def) == MF_OK && i < def->n_in && def->in[i].is_ref ? "VariableV2"
                                                                                  : "VarHandleOp";
    else if (known == 'v')
        return mf_constant(g, v, NULL);
    for (int d = 0; d < shape.rank && known == 'd'; d++)
        shape.dims[d] = -1;
    return mf_applyf(g, node, MF_NO_IN, "dtype=%s shape=shape%s", mf_dtype_name(v->dtype),
                     known == 'r' ? "?" : mf_shape_text(&shape, text));
}

static void infer(const mf_graph *g, mf_node *node)
{
    const mf_signature sig = { .targets = &node, .n_targets = 1 };
    mf_compile c = { 0 };

    if (mf_compile_begin(&c, g, &sig) == MF_OK && mf_infer_graph(&c) == MF_OK)
        for (int64_t i = 0; i < c.n_facts; i++)
            for (int p = 0; p < c.graph->nodes[i]->n_outputs; p++)
                MF_ASSERT(c.facts[i].shapes[p].rank <= MF_MAX_RANK);
    mf_compile_end(&c);
}

static void try_case(const char *known, const char *op, const char *text)
{
    mf_output in[MF_SAMPLE_INPUTS + 1], node;
    mf_sample sample = { 0 };
    mf_graph *g = NULL;
    int64_t elements = 0;

    if (mf_op_find(op) && mf_sample_parse(text, 1, &sample) == MF_OK && mf_graph_new(&g) == MF_OK) {
        for (int i = 0; i < sample.n_in; i++)
            elements += sample.in[i].value.count;
        for (int i = 0; i < sample.n_in; i++) {
            in[i] = input(g, mf_op_find(op), i, &sample.in[i], *known ? *known : 's');
            known += *known != '\0';
        }
        in[sample.n_in] = (mf_output)MF_END;
        node = mf_applyf(g, op, in, "%s", sample.attrs);
        if (mf_graph_status(g) == MF_OK && elements <= MOST_ELEMENTS)
            infer(g, node.node);
    }
    mf_graph_free(g);
    mf_sample_deinit(&sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char line[1024];

    mf_quota_set((int64_t)16 << 20);
    for (int n = 0; n < MOST_LINES && size > 0; n++) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t len = end ? (size_t)(end - data) : size, used = len < 1023 ? len : 1023;
        char *op, *text;

        memcpy(line, data, used);
        line[used] = '\0';
        op = strchr(line, ' ');
        text = op ? strchr(op + 1, ' ') : NULL;
        if (op)
            *op++ = '\0';
        if (text)
            *text++ = '\0';
        if (op)
            try_case(line, op, text ? text : "");
        data += end ? len + 1 : len;
        size -= end ? len + 1 : len;
    }
    return 0;
}
