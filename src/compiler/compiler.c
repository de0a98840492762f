/* SPDX-License-Identifier: Apache-2.0 */
/* compiler.c - the list of passes, and the compilation from graph to program. A pass whose `run` is
 * NULL is executed elsewhere: "shards" by sharding/shard_map.c, "region" and "schedule" by
 * build_program.c, "place" by plan.c, with the assignment of memory_plan.c. */
#include "compiler/compiler.h"

#include <string.h>

static const mf_pass passes[] = {
    { "inline", "replace function calls and functional control flow by nodes", true,
      mf_pass_inline },
    { "shards", "compute shards of a batch together where samples are independent", true, NULL },
    { "fold", "fold ops on constants", true, mf_pass_fold },
    { "simplify", "remove ops without effect on their value", true, mf_pass_simplify },
    { "cse", "merge equal ops on equal inputs", true, mf_pass_cse },
    { "pooling", "keep the place of each maximum for the gradient of a pooling", true,
      mf_pass_pooling },
    { "fuse", "fuse trees of elementwise ops, computed tile by tile in cache", true, mf_pass_fuse },
    { "updates", "merge updates of many variables by the same rule into one op", true,
      mf_pass_updates },
    { "region", "group nodes into regions with static plans", true, NULL },
    { "schedule", "order a plan's nodes: memory is freed early, variables are written last", true,
      NULL },
    { "place", "share one block of memory between values with disjoint lifetimes", true, NULL },
};

const mf_pass *mf_passes(int *n)
{
    *n = MF_COUNT(passes);
    return passes;
}

static int pass_find(const char *name, size_t len)
{
    for (int i = 0; i < MF_COUNT(passes); i++) {
        if (strlen(passes[i].name) == len && memcmp(passes[i].name, name, len) == 0)
            return i;
    }
    return -1;
}

mf_status mf_passes_parse(const char *names, uint64_t *disabled)
{
    *disabled = 0;
    while (names && *names) {
        const size_t n = strcspn(names, ",");
        const int i = pass_find(names, n);

        if (i < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "unknown pass '%.*s'; `meshflow graph optimize --list` lists the "
                           "passes",
                           (int)n, names);
        if (strcmp(passes[i].name, "inline") == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "the pass 'inline' cannot be disabled");
        *disabled |= (uint64_t)1 << i;
        names += n + (names[n] == ',');
    }
    return MF_OK;
}

bool mf_pass_is_on(const mf_compile *c, const char *name)
{
    return !(c->disabled >> pass_find(name, strlen(name)) & 1);
}

mf_status mf_compile_passes(mf_compile *c)
{
    for (int i = 0; i < MF_COUNT(passes); i++) {
        if (c->disabled >> i & 1 || !passes[i].run)
            continue;
        MF_TRY(passes[i].run(c));
#ifdef MF_DEBUG
        MF_TRY(mf_graph_verify(c->graph));
#endif
    }
    return MF_OK;
}

void mf_compile_end(mf_compile *c)
{
    mf_graph_free(c->graph);
    c->graph = NULL;
}

mf_status mf_compile_program(const mf_graph *graph, const mf_signature *sig, const mf_compile *with,
                             mf_program **out)
{
    mf_compile c = *with;
    mf_status st;

    *out = NULL;
    st = mf_compile_begin(&c, graph, sig);
    if (st == MF_OK)
        st = mf_compile_late_reads(&c);
    if (st == MF_OK)
        st = mf_compile_passes(&c);
    if (st == MF_OK)
        st = mf_program_build(&c, out);
    mf_compile_end(&c);
    return st;
}
