/* SPDX-License-Identifier: Apache-2.0 */
/* bench_graph.h - a graph and a session in a few words, for tests of ops with state. */
#ifndef MF_TESTS_BENCH_GRAPH_H
#define MF_TESTS_BENCH_GRAPH_H

#include "mf_test.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

#include <stdio.h>
#include <string.h>

typedef struct bench {
    mf_graph *g;
    mf_session *s;
} bench;

static inline bench bench_new(void)
{
    bench b = { 0 };

    T_OK(mf_graph_new(&b.g));
    return b;
}

static inline void bench_start(bench *b)
{
    T_OK(mf_graph_status(b->g));
    T_OK(mf_session_new(b->g, &(mf_session_options){ .threads = 2 }, &b->s));
}

static inline void bench_end(bench *b)
{
    mf_session_free(b->s);
    mf_graph_free(b->g);
}

/* A vector (n >= 0) or scalar (n < 0) constant. */
static inline mf_output floats(bench *b, int64_t n, const float *v)
{
    mf_output out;
    mf_tensor *t = NULL;

    T_OK(mf_tensor_new(MF_DTYPE_F32, &n, n < 0 ? 0 : 1, &t));
    if (mf_tensor_bytes(t) > 0)
        memcpy(mf_tensor_data(t), v, mf_tensor_bytes(t));
    out = mf_constant(b->g, t, NULL);
    mf_tensor_free(t);
    return out;
}

#define VEC(b, ...)                                                                                \
    floats((b), (int64_t)(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float)),                       \
           (float[]){ __VA_ARGS__ })
#define INT(b, v) mf_scalar((b)->g, MF_DTYPE_I32, (v))
#define LONG(b, v) mf_scalar((b)->g, MF_DTYPE_I64, (v))
#define FLOAT(b, v) mf_scalar((b)->g, MF_DTYPE_F32, (v))

/* Run a node: its output `port` (or with port < 0 the node alone); timeout 0: none. */
static inline mf_status run_for(bench *b, mf_output x, int64_t timeout_ms, mf_tensor **result)
{
    const mf_run_options options = { .timeout_ms = timeout_ms };
    const char *name = mf_node_name(x.node);
    char fetch[300];
    const char *fetches[] = { fetch };

    (void)snprintf(fetch, sizeof fetch, "%s:%d", name, x.port);
    if (result)
        return mf_session_run(b->s, &options, NULL, NULL, 0, fetches, 1, NULL, 0, result);
    return mf_session_run(b->s, &options, NULL, NULL, 0, NULL, 0, &name, 1, NULL);
}

#define DO(b, x) T_OK(run_for((b), (x), 20000, NULL))
#define CANNOT(b, x, code, part) T_FAILS((code), (part), run_for((b), (x), 20000, NULL))

/* Element i of what x gives. */
static inline double value_at(bench *b, mf_output x, int64_t i)
{
    mf_tensor *t = NULL;
    double v;

    T_OK(run_for(b, x, 20000, &t));
    T_TRUE(i < mf_tensor_count(t));
    v = mf_tensor_float_at(t, i);
    mf_tensor_free(t);
    return v;
}
#define VALUE(b, x) value_at((b), (x), 0)

#endif
