/* SPDX-License-Identifier: Apache-2.0 */
/* flow_context.h - the conditions under which an output exists: its loop frame and the branches
 * taken. Outputs of one context are always alive or dead together, in the same iterations, so ops
 * of one context can run as one region. */
#ifndef MF_COMPILER_FLOW_CONTEXT_H
#define MF_COMPILER_FLOW_CONTEXT_H

#include "compiler/compiler.h"

typedef struct mf_contexts mf_contexts;

enum { MF_CONTEXT_ROOT = 0 }; /* always alive, in no loop */

/* `order` is the graph's. Fails: INVALID_ARGUMENT when an op has inputs from different frames. */
MF_MUST mf_status mf_contexts_new(const mf_compile *c, mf_node *const *order, int64_t n,
                                  mf_contexts **out);
void mf_contexts_free(mf_contexts *contexts);
/* Context of an output; of a node (the union over its inputs). */
int mf_context_of(const mf_contexts *contexts, mf_output o);
int mf_context_of_node(const mf_contexts *contexts, const mf_node *n);
/* The frame of a context (0 is the root), and the frames. */
int mf_context_frame(const mf_contexts *contexts, int context);

typedef struct mf_frame_info {
    const char *name;
    int parent;
    int parallel_iterations;
} mf_frame_info;
const mf_frame_info *mf_contexts_frames(const mf_contexts *contexts, int *n);
/* Constants without control inputs belong to every context. */
bool mf_node_is_constant(const mf_node *n);

#endif
