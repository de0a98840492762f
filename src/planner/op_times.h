/* SPDX-License-Identifier: Apache-2.0 */
/* op_times.h - the run times of kernels on this machine. Each kernel runs once for every op,
 * attributes and shapes, on synthetic values. When the time budget is spent, times are scaled from
 * measured kernels of the same op. */
#ifndef MF_PLANNER_OP_TIMES_H
#define MF_PLANNER_OP_TIMES_H

#include "compiler/compiler.h"

typedef struct mf_op_times mf_op_times;

/* threads: of each device, and in all. budget_ns: of all measurements together. */
MF_MUST mf_status mf_op_times_new(int threads, int all_threads, int64_t budget_ns,
                                  mf_op_times **out);
/* Measures nothing: a unit of work takes this long, whatever the op. For tests. */
MF_MUST mf_status mf_op_times_fixed(double unit_ns, mf_op_times **out);
void mf_op_times_free(mf_op_times *t);

/* Nanoseconds of one run of this node. c: with inferred shapes; state: for the kernel. 0 where a
 * shape is not known before the step runs, or the kernel needs data that does not exist. */
double mf_op_time(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state);
/* Bytes of scratch memory during the run. */
int64_t mf_op_scratch(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state);
/* Multiplications of a matrix product, or of a convolution up to a factor that depends on its
 * window; else elements read and written. */
double mf_op_work(const mf_compile *c, const mf_node *n);
/* The shape of an input; of a variable's handle the shape of its value. */
mf_shape mf_op_input_shape(const mf_compile *c, const mf_node *n, int i);

/* Number of measured kernels, and the time spent on measuring. */
int64_t mf_op_times_count(const mf_op_times *t);
int64_t mf_op_times_spent_ns(const mf_op_times *t);

#endif
