/* SPDX-License-Identifier: Apache-2.0 */
/* variables.c - startup time of a graph with many variables: built with its gradients, variables
 * initialized, a first step on all of them, a second one. Usage: variables [N [GRAPH.pb]]: one size
 * only,
 * and writes the graph for variables.py.
 *
 * Estimate: a variable is about ten nodes of 0.5 KB. 10,000 of them are 100,000 nodes and 50 MB; at
 * 1 us
 * per node in each of twenty passes that is 2 s in total, so passes must be linear. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"

#include <meshflow/meshflow.h>

#include <string.h>

enum { ROUNDS = 3, WIDTH = 16 };

static const char *const INIT = "init", *const TRAIN = "train";

/* Minimizes the sum of all squares. */
static mf_graph *make(int n)
{
    mf_output *v = mf_calloc(n, sizeof *v), *w = mf_calloc(n, sizeof *w);
    mf_output *squares = mf_calloc(n + 1, sizeof *squares), *d = mf_calloc(n, sizeof *d), loss,
              rate;
    mf_node *init, *train;
    mf_tensor *ones;
    mf_graph *g;

    must(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1, &ones));
    for (int i = 0; i < WIDTH; i++)
        ((float *)mf_tensor_data(ones))[i] = 1;
    must(mf_graph_new(&g));
    init = mf_applyf(g, "NoOp", MF_NO_IN, "name='%s'", INIT).node;
    train = mf_applyf(g, "NoOp", MF_NO_IN, "name='%s'", TRAIN).node;
    rate = mf_scalar(g, MF_DTYPE_F32, 0.1);
    for (int i = 0; i < n; i++) {
        v[i] = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                         "dtype=float shape=shape[%d] shared_name='v%d' name='v%d'", WIDTH, i, i);
        mf_control(g, init,
                   mf_apply(g, "AssignVariableOp", MF_IN(v[i], mf_constant(g, ones, NULL))).node);
        w[i] = mf_applyf(g, "ReadVariableOp", MF_IN(v[i]), "dtype=float");
        squares[i] = mf_apply(
            g, "Sum", MF_IN(mf_apply(g, "Square", MF_IN(w[i])), mf_ints(g, (int64_t[]){ 0 }, 1)));
    }
    squares[n] = (mf_output)MF_END;
    loss = mf_applyf(g, "AddN", squares, "name='loss'");
    must(mf_gradients(g, &loss, 1, w, n, NULL, d));
    for (int i = 0; i < n; i++)
        mf_control(g, train,
                   mf_apply(g, "ResourceApplyGradientDescent", MF_IN(v[i], rate, d[i])).node);
    must(mf_graph_status(g));
    mf_tensor_free(ones);
    mf_free(v);
    mf_free(w);
    mf_free(squares);
    mf_free(d);
    return g;
}

static double since(int64_t *start)
{
    const int64_t now = mf_clock_ns(), ns = now - *start;

    *start = now;
    return (double)ns / 1e6;
}

enum { MAKE, SET, FIRST, NEXT, PARTS };

static void measure(int n, double ms[PARTS], const char *path)
{
    int64_t start = mf_clock_ns();
    mf_graph *g = make(n);
    mf_session *s;

    ms[MAKE] = since(&start);
    if (path)
        must(mf_graph_save(g, path));
    start = mf_clock_ns();
    must(mf_session_new(g, NULL, &s));
    must(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &INIT, 1, NULL));
    ms[SET] = since(&start);
    must(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &TRAIN, 1, NULL));
    ms[FIRST] = since(&start);
    must(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &TRAIN, 1, NULL));
    ms[NEXT] = since(&start);
    mf_session_free(s);
    mf_graph_free(g);
}

static void report(int n, const char *path)
{
    double ms[PARTS][ROUNDS], begin[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double once[PARTS];

        measure(n, once, r == 0 ? path : NULL);
        for (int i = 0; i < PARTS; i++)
            ms[i][r] = once[i];
        begin[r] = once[SET] + once[FIRST];
    }
    for (int i = 0; i < PARTS; i++)
        sort(ms[i], ROUNDS);
    sort(begin, ROUNDS);
    printf("variables %6d   made %8.1f   set %8.1f   first step %8.1f   next step %8.2f   set and "
           "first step %8.1f ms\n",
           n, ms[MAKE][ROUNDS / 2], ms[SET][ROUNDS / 2], ms[FIRST][ROUNDS / 2],
           ms[NEXT][ROUNDS / 2], begin[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        report(atoi(argv[1]), argc > 2 ? argv[2] : NULL);
        return 0;
    }
    for (int n = 100; n <= 10000; n *= 10)
        report(n, NULL);
    return 0;
}
