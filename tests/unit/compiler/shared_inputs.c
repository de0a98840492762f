/* SPDX-License-Identifier: Apache-2.0 */
/* shared_inputs.c - edge cases of the compiler: a tensor that is used several times, inconsistent
 * counts, shapes larger than memory, and function arguments outside of functions. */
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

enum { COPIES = 20 };

static mf_status run_graph(mf_graph *g, const char *fetch, mf_tensor **out)
{
    const float values[2] = { 1, 2 };
    const char *feed = "x";
    mf_tensor *x = NULL;
    mf_session *s = NULL;
    mf_status st = mf_graph_status(g);

    *out = NULL;
    T_OK(mf_tensor_new(MF_DTYPE_F32, &(int64_t){ 2 }, 1, &x));
    memcpy(mf_tensor_data(x), values, sizeof values);
    if (st == MF_OK)
        st = mf_session_new(g, NULL, &s);
    if (st == MF_OK)
        st = mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x,
                            mf_graph_find(g, "x") ? 1 : 0, &fetch, 1, NULL, 0, out);
    mf_session_free(s);
    mf_tensor_free(x);
    mf_graph_free(g);
    return st;
}

static mf_graph *graph_with_x(mf_output *x)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    *x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[2] name='x'");
    return g;
}

MF_TEST(a_stack_of_one_tensor_twenty_times_runs)
{
    mf_output x, in[COPIES + 1];
    mf_graph *g = graph_with_x(&x);
    mf_tensor *y;

    for (int i = 0; i < COPIES; i++)
        in[i] = x;
    in[COPIES] = (mf_output)MF_END;
    (void)mf_applyf(g, "Pack", in, "name='y'");
    T_OK(run_graph(g, "y:0", &y));
    T_EQ(y->count, 2 * COPIES);
    for (int i = 0; i < 2 * COPIES; i++)
        T_EQ_F(((const float *)y->data)[i], 1 + i % 2);
    mf_tensor_free(y);
}

MF_TEST(variables_read_into_fewer_values_are_refused)
{
    mf_graph *g;
    mf_output in[COPIES + 1];
    mf_tensor *y;

    T_OK(mf_graph_new(&g));
    for (int i = 0; i < COPIES; i++)
        in[i] = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[2]");
    in[COPIES] = (mf_output)MF_END;
    (void)mf_applyf(g, "_ReadVariablesOp", in, "dtypes=[float] name='y'");
    T_FAILS(MF_INVALID_ARGUMENT, "20 variables cannot be read into 1 values",
            run_graph(g, "y:0", &y));
}

/* 2^62 elements: their bytes do not fit 64 bits. */
MF_TEST(a_value_larger_than_memory_is_an_error_that_names_its_node)
{
    mf_output x, big;
    mf_graph *g = graph_with_x(&x);
    mf_tensor *y, *dims;

    T_OK(mf_tensor_new(MF_DTYPE_I64, &(int64_t){ 3 }, 1, &dims));
    memcpy(mf_tensor_data(dims), (int64_t[]){ INT64_C(1) << 30, INT64_C(1) << 31, 2 }, 24);
    big = mf_applyf(g, "BroadcastTo", MF_IN(x, mf_constant(g, dims, NULL)), "name='big'");
    big = mf_apply(g, "AddV2", MF_IN(big, mf_apply(g, "Neg", MF_IN(big))));
    (void)mf_applyf(g, "Sum", MF_IN(big, mf_ints(g, (int64_t[]){ 0, 1, 2 }, 3)), "name='y'");
    T_FAILS(MF_RESOURCE_EXHAUSTED, "big", run_graph(g, "y:0", &y));
    mf_tensor_free(dims);
}

MF_TEST(an_arg_or_retval_node_outside_a_function_is_refused)
{
    mf_graph *g;
    mf_output arg;
    mf_tensor *y;

    T_OK(mf_graph_new(&g));
    arg = mf_applyf(g, "_Arg", MF_NO_IN, "T=float index=100000 name='arg'");
    (void)mf_applyf(g, "Neg", MF_IN(arg), "name='y'");
    T_FAILS(MF_INVALID_ARGUMENT, "{{node arg}} (op _Arg) is valid only in a function's body",
            run_graph(g, "y:0", &y));
}
