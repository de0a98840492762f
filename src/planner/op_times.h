/* SPDX-License-Identifier: Apache-2.0 */
/* op_times.h - how long kernels take on this machine: each is run, once for every op, attributes
 * and shapes, on numbers that are made up. When the time for that is spent, what is known of the
 * same op is scaled by its work. */
#ifndef MF_PLANNER_OP_TIMES_H
#define MF_PLANNER_OP_TIMES_H

#include "compiler/compiler.h"

typedef struct mf_op_times mf_op_times;

/* threads: of each processor, and of all that share them. budget_ns: of all measurements together.
 */
MF_MUST mf_status mf_op_times_new(int threads, int all_threads, int64_t budget_ns,
                                  mf_op_times **out);
/* Nothing is measured: a unit of work takes so long, whatever the op. For tests. */
MF_MUST mf_status mf_op_times_fixed(double unit_ns, mf_op_times **out);
void mf_op_times_free(mf_op_times *t);

/* Nanoseconds of one run of this node, a plan's entry. c: its facts are known. Where a shape is not
 * known before the step runs, or the kernel needs what is not there: 0. */
double mf_op_time(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state);
/* Bytes that it takes for itself meanwhile. */
int64_t mf_op_scratch(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state);
/* Multiplications of a product or a convolution (up to the window), else elements that are read and
 * written. */
double mf_op_work(const mf_compile *c, const mf_node *n);
/* The shape of an input; of a variable's handle that of its value. */
mf_shape mf_op_input_shape(const mf_compile *c, const mf_node *n, int i);

/* Kernels that were run, and what that took. */
int64_t mf_op_times_count(const mf_op_times *t);
int64_t mf_op_times_spent_ns(const mf_op_times *t);

#endif
