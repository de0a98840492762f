/* SPDX-License-Identifier: Apache-2.0 */
/* late_reads.c - references are read when they are used.
 *
 * In TensorFlow, Identity of a reference is the variable's own memory: whoever uses it sees what
 * the variable holds by then, and clients rely on it (SyncReplicasOptimizer hands out tokens made
 * of a step that it has counted up after it was "read"). Here a value never changes once it was
 * read, so the users of such an Identity use the reference instead. Not where the value leaves the
 * step. */
#include "compiler/compiler.h"

#include <string.h>

static bool late_reads_is_ref(mf_output o)
{
    return mf_type_is_ref(o.node->out_types[o.port]);
}

static bool is_late(const mf_node *n)
{
    return n->op && strcmp(n->op->name, "Identity") == 0 && n->n_controls == 0 &&
           late_reads_is_ref(n->inputs[0]);
}

static bool leaves_the_step(const mf_node *n)
{
    static const char *const ops[] = { "_Retval", "_Send", "_HostSend" };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(n->op_name, ops[i]) == 0)
            return true;
    }
    return false;
}

mf_status mf_compile_late_reads(mf_compile *c)
{
    mf_node **order;
    int64_t n;

    MF_TRY(mf_compile_order(c, &order, &n));
    for (int64_t i = 0; i < n; i++) {
        mf_node *node = order[i];

        for (int k = 0; k < node->n_inputs && !leaves_the_step(node); k++) {
            if (is_late(node->inputs[k].node))
                node->inputs[k] = node->inputs[k].node->inputs[0];
        }
    }
    mf_free(order);
    return MF_OK;
}
