/* SPDX-License-Identifier: Apache-2.0 */
/* ps_bytes.c - traffic with parameter servers is proportional to touched rows, not to tables. */
#include "unit/dist/dist_test.h"
#include "unit/train/loop/toy.h"

#include <stdlib.h>

enum { STEPS = 3, BATCH = 16, WIDTH = 5, ROW = 8 + 4 * WIDTH }; /* ROW: an id and its floats */

/* A table of `rows`; every batch touches the first `touched` of them, at least. */
typedef struct table_case {
    int rows, touched;
    mf_traffic traffic;
} table_case;

/* BATCH samples with one id each, repeated in order. */
static void make(toy *p, const table_case *c)
{
    mf_tensor *x = toy_tensor(MF_DTYPE_I32, BATCH, 1);
    mf_tensor *label = toy_tensor(MF_DTYPE_F32, BATCH, 0);
    mf_output y;

    *p = (toy){ 0 };
    for (int i = 0; i < BATCH; i++) {
        ((int32_t *)x->data)[i] = i % c->touched;
        ((float *)label->data)[i] = (float)i;
    }
    toy_data(p, "id", x, label);
    T_OK(mf_model_new(&p->model));
    y = mf_model_input(p->model, "id", MF_DTYPE_I32, (int64_t[]){ 1 }, 1);
    y = mf_layer(p->model, "Embedding", MF_IN(y), "input_dim=%d output_dim=%d", c->rows, WIDTH);
    y = mf_layer(p->model, "Flatten", MF_IN(y), "name='flat'");
    mf_model_output(p->model, mf_layer(p->model, "Dense", MF_IN(y), "units=1"));
}

static void fit(job_worker *w)
{
    table_case *c = w->arg;
    toy p;

    make(&p, c);
    toy_compile(&p, (mf_compile_options){ .optimizer = "adagrad", .strategy = w->s });
    job_note(w, mf_fit(p.trainer, p.data, NULL,
                       &(mf_fit_options){ .steps = STEPS, .batch = BATCH, .in_order = true }));
    if (w->st == MF_OK && w->rank == 0)
        mf_strategy_traffic(w->s, &c->traffic);
    toy_end(&p);
}

static mf_traffic bytes_of(const char *strategy, int rows, int touched)
{
    table_case c = { .rows = rows, .touched = touched };
    job_worker w[JOB_MOST];

    job_run_served(w, 1, 1, strategy, fit, &c);
    for (int i = 0; i < 2; i++) {
        if (w[i].st != MF_OK)
            T_FAIL("%s: task %d: %s", strategy, i, w[i].message);
    }
    T_TRUE(c.traffic.pushed_bytes > 0 && c.traffic.pulled_bytes > 0);
    return c.traffic;
}

static void compare(const char *strategy)
{
    const mf_traffic small = bytes_of(strategy, BATCH, 4), large = bytes_of(strategy, 50000, 4);
    const mf_traffic more = bytes_of(strategy, 50000, 12);

    printf("%s: pushed %lld bytes, pulled %lld; of 12 rows instead of 4 pulled %lld\n", strategy,
           (long long)large.pushed_bytes, (long long)large.pulled_bytes,
           (long long)more.pulled_bytes);
    /* A table of 50,000 rows takes as many bytes as one of 16 */
    T_EQ(large.pushed_bytes, small.pushed_bytes);
    T_EQ(large.pulled_bytes, small.pulled_bytes);
    /* and eight rows more in each step are so many bytes back; as many lookups are pushed. */
    T_EQ(more.pulled_bytes - large.pulled_bytes, STEPS * 8 * ROW);
    T_EQ(more.pushed_bytes, large.pushed_bytes);
}

MF_TEST(servers_transfer_only_bytes_of_touched_rows)
{
    compare("parameter_server");
    compare("parameter_server mode=async");
}

MF_TEST(servers_transfer_only_bytes_of_touched_rows_in_messages)
{
    T_EQ(setenv("MESHFLOW_PS_SHARED_MEMORY", "0", 1), 0);
    compare("parameter_server");
}
