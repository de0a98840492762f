/* SPDX-License-Identifier: Apache-2.0 */
/* rewritten_graph.h - the result of the passes as a runnable graph. */
#ifndef MF_COMPILER_REWRITTEN_GRAPH_H
#define MF_COMPILER_REWRITTEN_GRAPH_H

#include "compiler/compiler.h"

/* Feeds, fetches and targets, and their new names: "node:port", and "node" of targets. All in the
 * graph's arena. */
typedef struct mf_rewritten {
    mf_graph *graph;
    const char **feeds; /* by feed; NULL: unused */
    const char **fetches, **targets;
} mf_rewritten;

/* A copy in which fed outputs are placeholders and fetched ones are identities, under their
 * original names if these are free. Owns: the caller frees out->graph. */
MF_MUST mf_status mf_rewritten_graph(const mf_compile *c, const mf_signature *sig,
                                     mf_rewritten *out);

/* The part of a graph that a run requires, in TensorFlow's ops: calls and branches are inlined, and
 * every shard of a batch is separate, its nodes named "MAP/shard_N/...". If there are shards, the
 * shapes of feeds must be known. Random numbers for samples become TensorFlow's (portable_graph.c).
 * Fails: UNIMPLEMENTED naming an op that cannot be expressed. */
MF_MUST mf_status mf_portable_graph(const mf_graph *graph, const mf_signature *sig,
                                    mf_rewritten *out);

#endif
