/* SPDX-License-Identifier: Apache-2.0 */
/* function_call.h - functions of a graph that a kernel calls, for example map and filter.
 *
 * A callee is the function that an op names. It holds a reference to its library, so datasets may
 * outlive the graph that created them. It is compiled once per mf_function_calls, which also owns
 * the state of the kernels inside: two iterators do not share a random stream. */
#ifndef MF_OPS_DATASET_FUNCTION_CALL_H
#define MF_OPS_DATASET_FUNCTION_CALL_H

#include "graph/op.h"

typedef struct mf_callee mf_callee;

/* The function that attribute `attr` of the node names. One reference for the caller. */
MF_MUST mf_status mf_callee_new(const mf_prepare *p, const char *attr, mf_callee **out);
mf_callee *mf_callee_ref(mf_callee *f); /* f may be NULL */
void mf_callee_unref(mf_callee *f);

/* A cache of compiled functions. All zero: empty. Thread: one at a time. */
typedef struct mf_function_calls {
    struct mf_function_call *first;
} mf_function_calls;
void mf_function_calls_deinit(mf_function_calls *calls);

/* The arguments of a function, in two rows: an element, and captured values. */
typedef struct mf_call_args {
    const mf_tensor *element, *captured;
    int n_element, n_captured;
} mf_call_args;

/* Runs on the calling thread; loops inside kernels use the pool. `results` are empty slots of these
 * types. Fails: INVALID_ARGUMENT (arguments or results do not match the function's signature), or
 * with the function's error; results are then empty. */
MF_MUST mf_status mf_function_calls_run(mf_function_calls *calls, mf_callee *f, const mf_step *step,
                                        const mf_call_args *args, const mf_dtype *types,
                                        int n_results, mf_tensor *results);

#endif
