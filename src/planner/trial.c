/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - runs a training step on synthetic values on a mesh of threads. */
#include "planner/trial.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 256 };

typedef struct running {
    const mf_trial *trial;
    int n_feeds;
    mf_tensor **feeds;
    mf_session *session;
} running;

/* Small values; classes and indices are 0. */
static mf_status make_feeds(running *x)
{
    const mf_names *n = &x->trial->t->step_names;

    x->n_feeds = n->n_feeds;
    x->feeds = mf_calloc(n->n_feeds + 1, sizeof *x->feeds);
    if (!x->feeds)
        return MF_NOMEM("a step");
    for (int i = 0; i < n->n_feeds; i++) {
        const mf_shape *s = &x->trial->step->feed_shapes[i];
        char name[256];
        const mf_node *node;

        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(n->feeds[i], ":"), n->feeds[i]);
        node = mf_graph_find(x->trial->step->graph, name);
        if (!node)
            return MF_FAIL(MF_INTERNAL, "there is no '%s'", name);
        MF_TRY(mf_tensor_new(node->out_types[0], s->dims, s->rank, &x->feeds[i]));
        for (int64_t k = 0; k < x->feeds[i]->count; k++)
            mf_tensor_put(x->feeds[i], k,
                          mf_dtype_is_float(x->feeds[i]->dtype) ? 0.01 * (double)(k % 11) : 0);
    }
    return MF_OK;
}

static mf_status trial_initialise(const running *x)
{
    const char *feed = "seed:0", *target = mf_node_name(x->trial->t->graph.init);
    mf_tensor seed = { 0 };
    const mf_tensor *value = &seed;
    mf_status st;

    MF_TRY(mf_tensor_alloc(&seed, MF_DTYPE_I64, &MF_SCALAR));
    ((int64_t *)seed.data)[0] = 1;
    st = mf_session_run(x->session, NULL, &feed, &value, 1, NULL, 0, &target, 1, NULL);
    mf_tensor_clear(&seed);
    return st;
}

static mf_status trial_run_once(const running *x, mf_tensor **results)
{
    const mf_run_names *n = &x->trial->step->names;

    MF_TRY(mf_session_run(x->session, NULL, n->feeds, (const mf_tensor *const *)x->feeds,
                          n->n_feeds, n->fetches, n->n_fetches, n->targets, n->n_targets, results));
    for (int k = 0; k < n->n_fetches; k++) {
        mf_tensor_free(results[k]);
        results[k] = NULL;
    }
    return MF_OK;
}

static double own_time(void)
{
    struct timespec cpu = { 0 };

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (double)cpu.tv_sec * 1e9 + (double)cpu.tv_nsec;
}

static int trial_ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* The first run compiles; it is not measured. */
static mf_status trial_run(const running *x, mf_trial_result *out)
{
    const int most = x->trial->runs < MAX_RUNS ? x->trial->runs : MAX_RUNS;
    mf_tensor **results = mf_calloc(x->trial->step->names.n_fetches + 1, sizeof *results);
    mf_status st = results ? trial_run_once(x, results) : MF_NOMEM("a step");
    const int64_t end = mf_clock_ns() + (int64_t)(x->trial->seconds * 1e9);
    double took[MAX_RUNS] = { 0 };
    int n = 0;

    out->own_ns = INFINITY;
    while (st == MF_OK && (n == 0 || (n < most && mf_clock_ns() < end))) {
        const int64_t begin = mf_clock_ns();
        const double own = own_time();

        st = trial_run_once(x, results);
        out->own_ns = fmin(out->own_ns, own_time() - own);
        took[n++] = (double)(mf_clock_ns() - begin);
    }
    mf_free(results);
    if (n > 0)
        qsort(took, (size_t)n, sizeof *took, trial_ascending);
    out->least_ns = took[0];
    out->middle_ns = took[n / 2];
    return st;
}

static mf_status trial_count(const running *x, const mf_mesh_setup *setup, mf_trial_result *out)
{
    for (int i = 0; i < setup->n; i++) {
        mf_mesh_counts c;
        int64_t both;

        MF_TRY(mf_mesh_session_counts(x->session, setup->first + i, &c));
        both = c.variable_bytes + c.step_bytes;
        out->step_bytes = c.step_bytes > out->step_bytes ? c.step_bytes : out->step_bytes;
        out->memory_bytes = both > out->memory_bytes ? both : out->memory_bytes;
    }
    return MF_OK;
}

mf_status mf_trial_run(const mf_trial *trial, const mf_mesh_setup *setup, mf_trial_result *out)
{
    mf_mesh_setup here = *setup;
    running x = { .trial = trial };
    mf_status st = make_feeds(&x);

    *out = (mf_trial_result){ 0 };
    here.first = 0;
    here.n = setup->meshes.devices;
    here.session =
        (mf_session_options){ .threads = trial->threads, .disable = trial->t->options.disable };
    if (st == MF_OK)
        st = mf_mesh_session_make(trial->step->graph, &here, &x.session);
    if (st == MF_OK)
        st = trial_initialise(&x);
    if (st == MF_OK)
        mf_mesh_session_forget_runs(x.session);
    if (st == MF_OK)
        st = trial_run(&x, out);
    if (st == MF_OK)
        st = trial_count(&x, &here, out);
    mf_session_free(x.session);
    for (int i = 0; x.feeds && i < x.n_feeds; i++)
        mf_tensor_free(x.feeds[i]);
    mf_free(x.feeds);
    return st;
}
