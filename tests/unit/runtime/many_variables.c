/* SPDX-License-Identifier: Apache-2.0 */
/* many_variables.c - a graph with many variables. */
#include "base/mem.h"
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <stdbool.h>
#include <stdio.h>

enum { WIDTH = 4 };

/* All variables are set; a step updates all of them, by the gradient of the sum of their squares.
 */
static mf_graph *make(int n)
{
    mf_output *v = mf_calloc(n, sizeof *v), *w = mf_calloc(n, sizeof *w);
    mf_output *squares = mf_calloc(n + 1, sizeof *squares), *d = mf_calloc(n, sizeof *d), loss,
              rate;
    mf_node *init, *train;
    mf_tensor *ones;
    mf_graph *g;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1, &ones));
    for (int i = 0; i < WIDTH; i++)
        ((float *)mf_tensor_data(ones))[i] = 1;
    T_OK(mf_graph_new(&g));
    init = mf_applyf(g, "NoOp", MF_NO_IN, "name='init'").node;
    train = mf_applyf(g, "NoOp", MF_NO_IN, "name='train'").node;
    rate = mf_scalar(g, MF_DTYPE_F32, 0.25);
    for (int i = 0; i < n; i++) {
        v[i] = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                         "dtype=float shape=shape[%d] shared_name='v%d'", WIDTH, i);
        mf_control(g, init,
                   mf_apply(g, "AssignVariableOp", MF_IN(v[i], mf_constant(g, ones, NULL))).node);
        w[i] = mf_applyf(g, "ReadVariableOp", MF_IN(v[i]), "dtype=float name='w%d'", i);
        squares[i] = mf_apply(
            g, "Sum", MF_IN(mf_apply(g, "Square", MF_IN(w[i])), mf_ints(g, (int64_t[]){ 0 }, 1)));
    }
    squares[n] = (mf_output)MF_END;
    loss = mf_apply(g, "AddN", squares);
    T_OK(mf_gradients(g, &loss, 1, w, n, NULL, d));
    for (int i = 0; i < n; i++)
        mf_control(g, train,
                   mf_apply(g, "ResourceApplyGradientDescent", MF_IN(v[i], rate, d[i])).node);
    T_OK(mf_graph_status(g));
    mf_tensor_free(ones);
    mf_free(v);
    mf_free(w);
    mf_free(squares);
    mf_free(d);
    return g;
}

static bool is_halved(mf_session *s, int i)
{
    char name[16];
    const char *fetch = name;
    mf_tensor *value = NULL;
    bool is = true;

    (void)snprintf(name, sizeof name, "w%d", i);
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &value));
    for (int k = 0; k < WIDTH; k++)
        is = is && ((const float *)mf_tensor_data(value))[k] == 0.5f;
    mf_tensor_free(value);
    return is;
}

/* `make bench T=variables` measures the time. */
MF_TEST_TIMEOUT(a_graph_with_ten_thousand_variables_sets_and_steps_all_of_them, 120)
{
    static const char *const init = "init", *const train = "train";
    enum { N = 10000 };
    mf_graph *g = make(N);
    mf_session *s;

    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 1 }, &s));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &train, 1, NULL));
    for (int i = 0; i < N; i += 999)
        T_TRUE(is_halved(s, i));
    T_TRUE(is_halved(s, N - 1));
    mf_session_free(s);
    mf_graph_free(g);
}
