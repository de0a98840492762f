/* SPDX-License-Identifier: Apache-2.0 */
/* function_call.h - functions of a graph that a kernel calls: what map and filter do to an element.
 *
 * A callee is the function as the op names it. It brings its library along, so that data sets may
 * outlive the graph that made them. Where it runs it is compiled once for each mf_function_calls,
 * which also owns what the kernels inside keep: two iterators do not share a stream of random
 * numbers. */
#ifndef MF_OPS_DATASET_FUNCTION_CALL_H
#define MF_OPS_DATASET_FUNCTION_CALL_H

#include "graph/op.h"

typedef struct mf_callee mf_callee;

/* The function that attribute `attr` of the node names. One reference for the caller. */
MF_MUST mf_status mf_callee_new(const mf_prepare *p, const char *attr, mf_callee **out);
mf_callee *mf_callee_ref(mf_callee *f); /* NULL is fine */
void mf_callee_unref(mf_callee *f);

/* Compiled functions. All zero: none yet. Thread: one at a time. */
typedef struct mf_function_calls {
    struct mf_function_call *first;
} mf_function_calls;
void mf_function_calls_deinit(mf_function_calls *calls);

/* A function's arguments, in two rows: an element, and what the function has captured. */
typedef struct mf_call_args {
    const mf_tensor *element, *captured;
    int n_element, n_captured;
} mf_call_args;

/* Runs on the calling thread, with the pool for the loops inside of kernels. `results` are empty
 * slots, of these types. Fails: INVALID_ARGUMENT when arguments or results are not what the
 * function takes and gives; as the function does, results are then empty. */
MF_MUST mf_status mf_function_calls_run(mf_function_calls *calls, mf_callee *f, const mf_step *step,
                                        const mf_call_args *args, const mf_dtype *types,
                                        int n_results, mf_tensor *results);

#endif
