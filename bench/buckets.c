/* SPDX-License-Identifier: Apache-2.0 */
/* buckets.c - all-reduce of many small tensors against one tensor of the same size, between two
 * workers.
 *
 * Workers are threads that share memory; a step is a single exchange (_ExchangeBegin and
 * _ExchangeEnd)
 * of a bucket. Estimate: 10,000 tensors of 100 floats are 4 MB; packing them copies 4 MB in pieces
 * of
 * 400 bytes, with an overhead of about 20 ns each. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "dist/data_parallel/gradient_allreduce.h"
#include "runtime/session.h"

#include <meshflow/meshflow.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 2, FLOATS = 1 << 20, STEPS = 60, WARM = 5, ROUNDS = 5 };

typedef struct worker {
    mf_segment *segment;
    int rank, tensors;
    pthread_t thread;
    double seconds; /* per step */
} worker;

/* The sum of `tensors` tensors with FLOATS / tensors floats each; "end" is the result of the
 * exchange. */
static void build(mf_graph *g, const worker *w)
{
    const int64_t size = FLOATS / w->tensors;
    mf_output *values = mf_calloc(w->tensors + 1, sizeof *values);
    mf_buf types = { 0 }, shapes = { 0 };
    mf_tensor *one;

    must(mf_tensor_new(MF_DTYPE_F32, &size, 1, &one));
    for (int64_t i = 0; i < size; i++)
        ((float *)mf_tensor_data(one))[i] = 1.0f;
    for (int i = 0; i < w->tensors; i++) {
        values[i] = mf_constant(g, one, NULL);
        mf_buf_printf(&types, "%sfloat", i ? "," : "");
        mf_buf_printf(&shapes, "%sshape[%lld]", i ? "," : "", (long long)size);
    }
    values[w->tensors] = (mf_output)MF_END;
    must(mf_buf_finish(&types));
    must(mf_buf_finish(&shapes));
    mf_output begin = mf_applyf(g, "_ExchangeBegin", values,
                                "T=[%s] bucket=0 parts=[%d,%d] types=[%s] shapes=[%s]", types.data,
                                w->rank, w->rank + 1, types.data, shapes.data);

    mf_applyf(g, "_ExchangeEnd", MF_IN(begin), "types=[%s] bucket=0 shapes=[%s] name='end'",
              types.data, shapes.data);
    must(mf_graph_status(g));
    mf_tensor_free(one);
    mf_buf_deinit(&types);
    mf_buf_deinit(&shapes);
    mf_free(values);
}

static void *work(void *arg)
{
    static const char *const names[] = { "worker 0", "worker 1" };
    static const mf_share of[] = { { 0, 1 }, { 1, 1 } };
    static const char *const end[] = { "end" };
    worker *w = arg;
    mf_graph *g;
    mf_session *s;
    mf_group *group;
    mf_gradient_allreduce *sums;
    int64_t begin = 0;

    must(mf_graph_new(&g));
    build(g, w);
    must(mf_group_shared(w->segment,
                         &(mf_group){ .rank = w->rank, .size = WORKERS, .names = names }, &group));
    must(mf_gradient_allreduce_new(&(mf_gradient_allreduce_options){ .group = group,
                                                                     .shards = WORKERS,
                                                                     .of = of,
                                                                     .n_buckets = 1,
                                                                     .timeout_ns = 60000000000 },
                                   &sums));
    must(mf_session_new(g, &(mf_session_options){ .threads = 1 }, &s));
    mf_session_set_exchange(s, mf_gradient_allreduce_exchange(sums));
    for (int i = -WARM; i < STEPS; i++) {
        if (i == 0)
            begin = mf_clock_ns();
        must(mf_gradient_allreduce_begin_step(sums, i + WARM, WORKERS, false));
        must(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, end, 1, NULL));
    }
    w->seconds = (double)(mf_clock_ns() - begin) * 1e-9 / STEPS;
    mf_session_free(s);
    mf_gradient_allreduce_free(sums);
    mf_group_free(group);
    mf_graph_free(g);
    return NULL;
}

static double measure(int tensors)
{
    worker w[WORKERS];
    mf_segment *segment;

    must(mf_segment_new(WORKERS, 8 << 20, &segment));
    for (int i = 0; i < WORKERS; i++) {
        w[i] = (worker){ .segment = segment, .rank = i, .tensors = tensors };
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(w[i].thread, NULL);
    mf_segment_free(segment);
    return w[0].seconds;
}

int main(void)
{
    static const int counts[] = { 100, 10000 };

    for (int k = 0; k < MF_COUNT(counts); k++) {
        double one[ROUNDS], many[ROUNDS];

        for (int r = 0; r < ROUNDS; r++) {
            one[r] = measure(1);
            many[r] = measure(counts[k]);
        }
        sort(one, ROUNDS);
        sort(many, ROUNDS);
        printf("4 MB as %5d tensors %10.1f us, as one %10.1f us, %.2f times as long\n", counts[k],
               many[ROUNDS / 2] * 1e6, one[ROUNDS / 2] * 1e6, many[ROUNDS / 2] / one[ROUNDS / 2]);
        (void)fflush(stdout);
    }
    return 0;
}
