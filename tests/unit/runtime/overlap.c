/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c - what needs nothing of each other runs at the same time, and the trace shows it. */
#include "graph/graph.h"
#include "mf_test.h"
#include "observe/trace.h"
#include "runtime/session.h"

#include <string.h>

/* A loop that multiplies a matrix by itself n times; all its nodes have names that begin with
 * `name`. */
static void add_loop(mf_graph *g, const char *name, mf_output n, mf_output matrix)
{
    mf_output i, en, ei, em, mi, mm, cond, si, sm, i1, m1;

    i = mf_scalar(g, MF_DTYPE_F32, 0);
    en = mf_applyf(g, "Enter", MF_IN(n), "frame_name='%s' is_constant=true", name);
    ei = mf_applyf(g, "Enter", MF_IN(i), "frame_name='%s'", name);
    em = mf_applyf(g, "Enter", MF_IN(matrix), "frame_name='%s'", name);
    mi = mf_apply(g, "Merge", MF_IN(ei, ei));
    mm = mf_apply(g, "Merge", MF_IN(em, em));
    cond = mf_apply(g, "LoopCond", MF_IN(mf_apply(g, "Less", MF_IN(mi, en))));
    si = mf_apply(g, "Switch", MF_IN(mi, cond));
    sm = mf_apply(g, "Switch", MF_IN(mm, cond));
    si.port = sm.port = 1;
    i1 = mf_apply(g, "AddV2", MF_IN(si, mf_scalar(g, MF_DTYPE_F32, 1)));
    m1 = mf_applyf(g, "MatMul", MF_IN(sm, sm), "name='%s_product'", name);
    T_OK(mf_graph_status(g));
    mi.node->inputs[1] = mf_apply(g, "NextIteration", MF_IN(i1));
    mm.node->inputs[1] = mf_apply(g, "NextIteration", MF_IN(m1));
    sm.port = 0;
    (void)mf_applyf(g, "Exit", MF_IN(sm), "name='%s'", name);
}

enum { SPANS = 1000 };

typedef struct span {
    int64_t start, end;
    int thread;
} span;

typedef struct spans {
    span of[2][SPANS]; /* by loop */
    int n[2];
} spans;

static void note(void *ctx, const char *node, const char *op, int64_t start, int64_t end,
                 int thread)
{
    spans *s = ctx;
    const int loop = strcmp(node, "a_product") == 0 ? 0 : strcmp(node, "b_product") == 0 ? 1 : -1;

    (void)op;
    if (loop >= 0 && s->n[loop] < SPANS)
        s->of[loop][s->n[loop]++] = (span){ start, end, thread };
}

/* Pairs of one product each that were computed at the same time, by two threads. */
static int count_overlaps(const spans *s)
{
    int n = 0;

    for (int i = 0; i < s->n[0]; i++) {
        for (int k = 0; k < s->n[1]; k++) {
            const span a = s->of[0][i], b = s->of[1][k];

            n += a.thread != b.thread && a.start < b.end && b.start < a.end;
        }
    }
    return n;
}

MF_TEST(runtime_independent_loops_overlap_in_the_timeline)
{
    static const char *const fetches[] = { "a", "b" }, *const feed = "n";
    static spans found;
    mf_tensor *n, *results[2] = { NULL, NULL };
    mf_output to, matrix;
    mf_trace *trace;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    to = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[] name='n'");
    matrix =
        mf_apply(g, "Fill",
                 MF_IN(mf_ints(g, (const int64_t[]){ 96, 96 }, 2), mf_scalar(g, MF_DTYPE_F32, 0)));
    add_loop(g, "a", to, matrix);
    add_loop(g, "b", to, matrix);
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2 }, &s));
    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &n));
    *(float *)mf_tensor_data(n) = SPANS;
    T_OK(mf_trace_new(&trace));
    T_OK(mf_session_run_with(s, NULL, &(mf_run_with){ .trace = trace }, &feed,
                             (const mf_tensor *const *)&n, 1, fetches, 2, NULL, 0, results));
    mf_trace_each(trace, note, &found);
    T_EQ(found.n[0], SPANS);
    T_EQ(found.n[1], SPANS);
    T_TRUE(count_overlaps(&found) > 0);
    mf_trace_free(trace);
    mf_tensor_free(n);
    mf_tensor_free(results[0]);
    mf_tensor_free(results[1]);
    mf_session_free(s);
    mf_graph_free(g);
}
