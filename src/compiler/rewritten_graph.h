/* SPDX-License-Identifier: Apache-2.0 */
/* rewritten_graph.h - the graph that passes leave, as one that can be run again. */
#ifndef MF_COMPILER_REWRITTEN_GRAPH_H
#define MF_COMPILER_REWRITTEN_GRAPH_H

#include "compiler/compiler.h"

/* What was fed, fetched and run, and what it is called now: "node:port", and "node" of targets. All
 * of it lives in the graph's arena. */
typedef struct mf_rewritten {
    mf_graph *graph;
    const char **feeds; /* by feed; NULL: nothing needs it any more */
    const char **fetches, **targets;
} mf_rewritten;

/* A copy in which fed outputs are placeholders and fetched ones are identities, under their old
 * names wherever these are free. Owns: the caller frees out->graph. */
MF_MUST mf_status mf_rewritten_graph(const mf_compile *c, const mf_signature *sig,
                                     mf_rewritten *out);

/* What of a graph a run needs, in ops that TensorFlow has, too: calls and branches are laid out,
 * and every shard of a batch stands there for itself, its nodes named "MAP/shard_N/...". The shapes
 * of feeds must be known where there are shards. Random numbers for samples become TensorFlow's
 * (portable_graph.c). Fails: UNIMPLEMENTED naming an op of ours that nothing else stands for. */
MF_MUST mf_status mf_portable_graph(const mf_graph *graph, const mf_signature *sig,
                                    mf_rewritten *out);

#endif
