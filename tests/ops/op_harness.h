/* SPDX-License-Identifier: Apache-2.0 */
/* op_harness.h - builds an op with a sample into a graph, and runs it. */
#ifndef MF_TESTS_OPS_HARNESS_H
#define MF_TESTS_OPS_HARNESS_H

#include "sample.h"

#include <meshflow/session.h>

enum { MF_CASE_OUTPUTS = 16 };

/* in0, in1, ... are placeholders (or variables, set by the target "init"); "op" is the node. */
typedef struct mf_case {
    mf_graph *graph;
    mf_output in[MF_SAMPLE_INPUTS];
    mf_node *node;
    const char *feed_names[MF_SAMPLE_INPUTS];
    const mf_tensor *feeds[MF_SAMPLE_INPUTS];
    int n_feeds;
    int64_t timeout_ms; /* of a run; 0: none */
    bool has_init;
} mf_case;

MF_MUST mf_status mf_case_build(const mf_op *op, const mf_sample *sample, mf_case *out);
void mf_case_deinit(mf_case *c);

/* Run all plain outputs of "op". Without outputs: run the op as a target, then read its variables.
 */
typedef struct mf_answer {
    mf_tensor *out[MF_CASE_OUTPUTS];
    int n;
} mf_answer;
MF_MUST mf_status mf_case_run(const mf_case *c, const mf_graph *graph, int threads,
                              const char *disable, mf_answer *out);
void mf_answer_deinit(mf_answer *a);
/* True: equal types, shapes and bits. */
bool mf_answer_equal(const mf_answer *a, const mf_answer *b);

/* Calls fn in a forked process for every op with samples, so that a crash names its op. Returns the
 * number of failed ops, whose errors have been printed. */
int mf_each_op(const char *what, bool (*fn)(const mf_op *op));
/* "op [sample]: message" on stderr. */
void mf_complain(const mf_op *op, const char *sample, const char *fmt, ...) MF_PRINTF(3, 4);

#endif
