/* SPDX-License-Identifier: Apache-2.0 */
/* late_reads.c - references are read where they are used.
 * In TensorFlow, Identity of a reference is the variable's own memory: its users see the current
 * value of the variable, and clients rely on it (SyncReplicasOptimizer emits tokens made from a
 * step that it increments after the "read"). Here a value never changes after it was read, so users
 * of such an Identity use the reference instead, unless the value leaves the step. */
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
