/* SPDX-License-Identifier: Apache-2.0 */
/* compiler.h - compiles a graph and a signature (feeds, fetches, targets) to a program.
 * The required part of the graph is copied; feeds become _Arg nodes, fetches _Retval nodes; passes
 * rewrite the copy, one per file; the result is converted to items, regions and plans (program.h).
 */
#ifndef MF_COMPILER_COMPILER_H
#define MF_COMPILER_COMPILER_H

#include "compiler/program.h"
#include "graph/op.h"

typedef struct mf_signature {
    const mf_output *feeds, *fetches; /* outputs of the source graph */
    const mf_shape *feed_shapes; /* may be unknown */
    mf_node *const *targets;
    int n_feeds, n_fetches, n_targets;
} mf_signature;

/* The same by name: "node" or "node:1", and "node" for targets. */
typedef struct mf_run_names {
    const char *const *feeds, *const *fetches, *const *targets;
    int n_feeds, n_fetches, n_targets;
} mf_run_names;

/* Owns: *out refers to memory of the arena. Fails: NOT_FOUND, INVALID_ARGUMENT with TensorFlow's
 * messages. */
MF_MUST mf_status mf_signature_find(const mf_graph *graph, const mf_run_names *names,
                                    mf_arena *arena, mf_signature *out);

/* Inferred facts about a node's outputs. */
typedef struct mf_facts {
    mf_shape *shapes;
    mf_tensor **values; /* NULL for unknown values; owned by the graph */
    bool refused; /* invalid inputs: the node fails if it runs (shape_inference.c) */
} mf_facts;

/* The state of a compilation. */
typedef struct mf_compile {
    mf_graph *graph; /* working copy */
    mf_node **feeds, **fetches; /* the _Arg and _Retval nodes, by index */
    mf_node **targets;
    int n_feeds, n_fetches, n_targets;
    mf_facts *facts; /* by node id, valid after mf_infer_graph() */
    int64_t n_facts, cap_facts;
    uint64_t disabled; /* bit set over mf_passes() */
    struct mf_inliner *inliner; /* owned by inline.c during the pass */
    mf_resources *session; /* for stateful kernels */
    mf_pool *pool;
    const struct mf_exchange *exchange; /* NULL: all shards are computed here */
    bool settle_micro_batches; /* complete the sum of a micro-batch's gradients before micro-batches
                           are added */
    bool separate_micro_batches; /* micro-batches of a _ShardMap do not wait for each other; their
                         nodes are marked */
} mf_compile;

/* ---- passes ---- */

typedef struct mf_pass {
    const char *name;
    const char *about;
    bool exact; /* disabling it changes no bit of results; otherwise rounding may differ */
    mf_status (*run)(
        mf_compile *c); /* NULL: done while the program is built, see mf_pass_is_on() */
} mf_pass;

/* All passes in the order they run; `n` is their number. */
const mf_pass *mf_passes(int *n);
/* "fuse,cse" -> bit set. Fails: INVALID_ARGUMENT naming the unknown pass and the known ones. */
MF_MUST mf_status mf_passes_parse(const char *names, uint64_t *disabled);

bool mf_pass_is_on(const mf_compile *c, const char *name);

/* The passes, one per file. */
MF_MUST mf_status mf_pass_inline(mf_compile *c);
MF_MUST mf_status mf_pass_fold(mf_compile *c);
MF_MUST mf_status mf_pass_simplify(mf_compile *c);
MF_MUST mf_status mf_pass_cse(mf_compile *c);
MF_MUST mf_status mf_pass_pooling(mf_compile *c);
MF_MUST mf_status mf_pass_fuse(mf_compile *c);
MF_MUST mf_status mf_pass_updates(mf_compile *c);

/* ---- steps that always run ---- */

/* Copy the nodes that the signature requires, with feeds and fetches in place (prune_graph.c). */
MF_MUST mf_status mf_compile_begin(mf_compile *c, const mf_graph *graph, const mf_signature *sig);
void mf_compile_end(mf_compile *c);
/* Users of a value read from a reference use the reference instead (late_reads.c). */
MF_MUST mf_status mf_compile_late_reads(mf_compile *c);
/* Run all enabled passes. In debug builds the verifier runs after each. */
MF_MUST mf_status mf_compile_passes(mf_compile *c);
/* Infer shapes and small values of every node (shape_inference.c). Fails naming the node, if every
 * run reaches it; see mf_facts.refused. */
MF_MUST mf_status mf_infer_graph(mf_compile *c);
/* The same for nodes added since the last call; inputs must precede their users. For graphs under
 * construction: every error fails. */
MF_MUST mf_status mf_infer_more(mf_compile *c);
/* Facts of one node; never NULL after mf_infer_graph(). */
const mf_facts *mf_compile_facts(const mf_compile *c, const mf_node *node);
/* Bytes of an output; -1: unknown shape. A double, because a known shape may exceed any memory, and
 * sums must not overflow. */
double mf_compile_bytes(const mf_compile *c, const mf_node *node, int port);
/* The complete compilation, from graph and signature to a program. `with` has the other inputs:
 * disabled, session, pool, exchange. */
MF_MUST mf_status mf_compile_program(const mf_graph *graph, const mf_signature *sig,
                                     const mf_compile *with, mf_program **out);
/* Convert the rewritten graph to items, frames, regions and plans (build_program.c). Takes
 * ownership of c->graph. */
MF_MUST mf_status mf_program_build(mf_compile *c, mf_program **out);

/* ---- helpers of passes ---- */

/* Nodes in execution order without removed ones. The caller frees it with mf_free(). */
MF_MUST mf_status mf_compile_order(const mf_compile *c, mf_node ***order, int64_t *n);
/* Replacements collected during a pass and applied together. */
typedef struct mf_subst {
    mf_output **to; /* by node id: NULL, or one output per port (empty: not replaced) */
    int64_t n;
} mf_subst;
MF_MUST mf_status mf_subst_init(mf_subst *s, const mf_compile *c);
MF_MUST mf_status mf_subst_add(mf_subst *s, mf_compile *c, mf_output from, mf_output to);
/* The current replacement of `o`, followed transitively. */
mf_output mf_subst_resolve(const mf_subst *s, mf_output o);
/* Redirect all uses, then remove unused nodes. */
MF_MUST mf_status mf_subst_apply(mf_subst *s, mf_compile *c);
void mf_subst_deinit(mf_subst *s);
/* Remove nodes that no fetch, target or required side effect depends on. */
MF_MUST mf_status mf_compile_sweep(mf_compile *c);
/* Reads and writes no state, not random: equal inputs give equal outputs. */
bool mf_node_is_pure(const mf_node *node);
/* It changes state, waits, or may end the step deliberately. Reading a variable is not an effect;
 * control flow is handled by contexts. */
bool mf_node_has_effect(const mf_node *node);
/* Evaluate a pure synchronous op on these inputs now. Outputs are empty slots. */
MF_MUST mf_status mf_node_evaluate(const mf_node *node, const mf_tensor *const *in, mf_tensor *out,
                                   mf_pool *pool);

#endif
