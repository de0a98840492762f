/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_graph.c - a GraphDef up to a program: nodes are checked against their signatures,
 * attributes,
 * inlining of functions, shape inference (which computes small constant ops), passes, plans.
 * Nothing is
 * run. The graph is encoded again and must be readable. */
#include "base/log.h"
#include "base/quota.h"
#include "compiler/compiler.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compile_all(const mf_graph *g)
{
    mf_signature sig = { .targets = (mf_node *const *)g->nodes, .n_targets = (int)g->n_nodes };
    mf_resources *session = NULL;
    mf_program *program = NULL;

    if (mf_resources_new(&session) == MF_OK &&
        mf_compile_program(g, &sig, &(mf_compile){ .session = session }, &program) == MF_OK)
        mf_program_free(program);
    mf_resources_free(session);
}

static void write_and_read(const mf_graph *g)
{
    mf_graph *again = NULL;
    char *bytes = NULL;
    size_t len;

    if (mf_graph_encode(g, &bytes, &len) == MF_OK && mf_graph_new(&again) == MF_OK)
        MF_ASSERT(mf_graph_decode(again, bytes, len) == MF_OK);
    mf_graph_free(again);
    mf_bytes_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_graph *g;

    mf_quota_set((int64_t)32 << 20);
    if (mf_graph_new(&g) != MF_OK)
        return 0;
    if (mf_graph_decode(g, data, size) == MF_OK && g->n_nodes < 2000) {
        write_and_read(g);
        compile_all(g);
    }
    mf_graph_free(g);
    return 0;
}
