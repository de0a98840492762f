/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - random streams continue from run to run of a session, with TensorFlow 2.21's numbers.
 */
#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

enum { RUNS = 2, MOST = 5 };

typedef struct expected {
    const char *op, *inputs; /* the second input, when there is one, is made by make_graph() */
    int n;
    double tolerance;
    double values[RUNS][MOST];
} expected;

static const expected streams[] = {
    { "RandomUniform",
      "dtype=float",
      3,
      0,
      { { 0.023186326026916504, 0.0994875431060791, 0.5691264867782593 },
        { 0.7791547775268555, 0.6328438520431519, 0.9757682085037231 } } },
    { "RandomStandardNormal",
      "dtype=float",
      3,
      1e-6,
      { { 1.6056036949157715, 2.22495436668396, -0.5360344648361206 },
        { -0.5235486030578613, -0.4743289351463318, -0.16273586452007294 } } },
    { "TruncatedNormal",
      "dtype=float",
      5,
      1e-6,
      { { 1.6056036949157715, -0.5360344648361206, -0.9164999127388, 1.2182596921920776,
          1.0531543493270874 },
        { -0.5412737131118774, 0.14356590807437897, -0.9128979444503784, 0.17185212671756744,
          -0.493997186422348 } } },
    { "RandomShuffle", "", 5, 0, { { 3, 0, 2, 4, 1 }, { 2, 3, 1, 0, 4 } } },
};

static mf_graph *make_graph(void)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        const int64_t shape = streams[i].n, row[] = { 0, 1, 2, 3, 4 };
        const mf_output in = streams[i].op[6] == 'S' && streams[i].op[7] == 'h'
                                 ? mf_ints(g, row, streams[i].n)
                                 : mf_ints(g, &shape, 1);

        (void)mf_applyf(g, streams[i].op, MF_IN(in), "name='%s' seed=7 seed2=11 %s", streams[i].op,
                        streams[i].inputs);
    }
    T_OK(mf_graph_status(g));
    return g;
}

static void check_session(const mf_graph *g)
{
    mf_session *s;

    T_OK(mf_session_new(g, NULL, &s));
    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
            mf_tensor *out = NULL;

            T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &streams[i].op, 1, NULL, 0, &out));
            T_EQ(mf_tensor_count(out), streams[i].n);
            for (int j = 0; j < streams[i].n; j++)
                T_NEAR(mf_tensor_float_at(out, j), streams[i].values[run][j], streams[i].tolerance);
            mf_tensor_free(out);
        }
    }
    mf_session_free(s);
}

MF_TEST(random_streams_continue_across_runs)
{
    mf_graph *g = make_graph();

    check_session(g);
    mf_graph_free(g);
}

MF_TEST(random_streams_restart_in_a_new_session)
{
    mf_graph *g = make_graph();

    check_session(g);
    check_session(g);
    mf_graph_free(g);
}

MF_TEST(random_ops_without_a_seed_differ)
{
    static const char *const fetches[] = { "a", "b" };
    const int64_t n = 8;
    mf_tensor *out[2] = { NULL };
    mf_session *s;
    mf_graph *g;
    int same = 0;

    T_OK(mf_graph_new(&g));
    for (int i = 0; i < 2; i++)
        (void)mf_applyf(g, "RandomUniform", MF_IN(mf_ints(g, &n, 1)), "name='%s' dtype=float",
                        fetches[i]);
    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, NULL, &s));
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, fetches, 2, NULL, 0, out));
    for (int64_t i = 0; i < n; i++)
        same += mf_tensor_float_at(out[0], i) == mf_tensor_float_at(out[1], i);
    T_TRUE(same < n);
    for (int i = 0; i < 2; i++)
        mf_tensor_free(out[i]);
    mf_session_free(s);
    mf_graph_free(g);
}
