/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_multi_worker.c - data-parallel workers. They are threads of the test;
 * tests/train/strategies.py runs processes. */
#include "unit/dist/dist_test.h"
#include "unit/train/loop/toy.h"

#include <math.h>

enum { STEPS = 12 };

static float reached[JOB_MOST][TOY_INPUTS]; /* by rank: the final weights */
static char after[JOB_MOST][STEPS][65]; /* by rank and step: the SHA-256 of all weights */

static mf_status note_weights(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    const job_worker *w = ctx;

    return mf_trainer_sha256(t, after[w->rank][report->step - 1]);
}

static void fit(job_worker *w)
{
    const char *optimizer = w->arg;
    const mf_hook hook = { .ctx = w, .after_step = note_weights };
    const mf_fit_options o = { .steps = STEPS, .batch = 13, .hooks = &hook, .n_hooks = 1 };
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = optimizer, .strategy = w->s });
    job_note(w, mf_fit(p.trainer, p.data, NULL, &o));
    if (w->st == MF_OK)
        T_OK(mf_trainer_sha256(p.trainer, w->sha));
    for (int i = 0; i < TOY_INPUTS; i++)
        reached[w->rank][i] = (float)toy_value(&p, "dense/kernel", i);
    toy_end(&p);
}

/* All workers end with these weights. */
static void train(const char *strategy, int n, const char *optimizer, char sha[65])
{
    job_worker w[JOB_MOST];

    job_run(w, n, strategy, fit, (void *)(uintptr_t)optimizer);
    for (int i = 0; i < n; i++) {
        if (w[i].st != MF_OK)
            T_FAIL("worker %d of %d: %s", i, n, w[i].message);
        T_STREQ(w[i].sha, w[0].sha);
    }
    memcpy(sha, w[0].sha, sizeof w[0].sha);
}

static void expect_equal_after_every_step(int n)
{
    for (int rank = 1; rank < n; rank++) {
        for (int step = 0; step < STEPS; step++)
            T_STREQ(after[rank][step], after[0][step]);
    }
}

MF_TEST(workers_give_the_same_weights_for_any_number_and_any_all_reduce)
{
    static const int sizes[] = { 2, 3, 5, 7 };
    static const char *const kinds[] = { "multi_worker_mirrored", "reduce_to_one",
                                         "reduce_to_one collective=net",
                                         "multi_worker_mirrored collective=ring" };
    char first[65], sha[65];

    train("multi_worker_mirrored", 1, "adam", first);
    for (int k = 0; k < MF_COUNT(kinds); k++) {
        for (int i = 0; i < MF_COUNT(sizes); i++) {
            train(kinds[k], sizes[i], "adam", sha);
            T_STREQ(sha, first);
            expect_equal_after_every_step(sizes[i]);
        }
    }
}

MF_TEST(workers_trimmed_mean_does_not_depend_on_the_number_of_workers)
{
    const char *kind = "multi_worker_mirrored aggregation=trimmed_mean trim=0.2";
    char first[65], sha[65];

    train(kind, 1, "sgd", first);
    for (int n = 2; n <= 4; n++) {
        train(kind, n, "sgd", sha);
        T_STREQ(sha, first);
    }
}

/* ---- averaging weights ---- */

MF_TEST(workers_that_average_end_with_the_same_bits_every_time)
{
    char first[65], sha[65];

    for (int slots = 0; slots < 3; slots++) {
        static const char *const kinds[] = { "local_sgd period=5", "local_sgd period=5 slots=keep",
                                             "local_sgd period=5 slots=reset" };

        train(kinds[slots], 2, "adam", first);
        for (int again = 0; again < 3; again++) {
            train(kinds[slots], 2, "adam", sha);
            T_STREQ(sha, first);
        }
    }
}

/* One process trains all groups in turn; with more workers than groups, several share a group. */
MF_TEST(workers_of_groups_end_with_the_bits_of_one_process)
{
    static const char *const kinds[] = { "local_sgd groups=3 period=5",
                                         "local_sgd groups=3 period=5 slots=keep",
                                         "local_sgd groups=3 period=5 slots=reset" };
    char first[65], sha[65];

    for (int slots = 0; slots < MF_COUNT(kinds); slots++) {
        train(kinds[slots], 1, "adam", first);
        for (int n = 2; n <= 5; n++) {
            train(kinds[slots], n, "adam", sha);
            T_STREQ(sha, first);
        }
    }
    train("local_sgd groups=4 period=5", 3, "adam", first);
    train("local_sgd groups=2 period=5", 3, "adam", sha);
    T_TRUE(strcmp(sha, first) != 0);
}

/* After one step from the same w, worker r has w - rate * g[r], where g[r] is the mean gradient of
 * its n[r] samples; the mean weighted by n[r] is w - rate * (sum of n[r] * g[r]) / n: what a step
 * on the mean of all gradients gives. Only rounding differs: once for each worker's weight and
 * once for the mean, each half a unit in the last place of a weight (2^-24 of it), and the rounding
 * of g itself, of the same relative size, times the rate. Errors of earlier steps are carried on
 * and shrink here, as the problem is convex and the rate small. Weights and gradients are below 8,
 * the rate is 0.01: STEPS * (2 * 8 + 8 * 0.01 * 8) * 2^-24 = 1.2e-5 is never exceeded. */
MF_TEST(workers_that_average_after_each_step_equal_averaged_gradients)
{
    float gradients[TOY_INPUTS];
    char sha[65];

    train("multi_worker_mirrored", 2, "sgd", sha);
    memcpy(gradients, reached[0], sizeof gradients);
    for (int n = 1; n <= 4; n++) {
        train("local_sgd period=1", n, "sgd", sha);
        for (int i = 0; i < TOY_INPUTS; i++)
            T_NEAR(reached[0][i], gradients[i], 1.2e-5);
    }
    train("local_sgd period=6", 2, "sgd", sha); /* averaging every sixth step differs */
    double apart = 0.0;

    for (int i = 0; i < TOY_INPUTS; i++)
        apart += fabs((double)reached[0][i] - (double)gradients[i]);
    T_TRUE(apart > 1e-4);
}

MF_TEST(workers_that_average_need_a_shard_each_and_known_settings)
{
    mf_strategy *s;

    T_FAILS(MF_INVALID_ARGUMENT, "average, keep or reset",
            mf_strategy_open("local_sgd slots=drop", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "period", mf_strategy_open("local_sgd period=0", NULL, &s));
}

/* ---- barriers, stop, abort ---- */

static void meet(job_worker *w)
{
    job_note(w, mf_strategy_barrier(w->s, "one"));
    if (w->st == MF_OK)
        job_note(w, mf_strategy_barrier(w->s, w->rank == 2 ? "three" : "two"));
}

MF_TEST(workers_wait_at_barriers_and_report_different_ones)
{
    job_worker w[3];

    job_run(w, 3, "multi_worker_mirrored", meet, NULL);
    T_EQ(w[2].st, MF_INVALID_ARGUMENT);
    T_STREQ(w[2].message, "worker 2 is at the barrier 'three', worker 0 at 'two'");
    T_EQ(w[0].st, MF_INVALID_ARGUMENT);
    T_STREQ(w[0].message, "worker 0 is at the barrier 'two', worker 2 at 'three'");
}

static void give_up(job_worker *w)
{
    if (w->rank == 1)
        mf_strategy_abort(w->s, MF_FAIL(MF_DATA_LOSS, "the disk has melted"));
    else
        job_note(w, mf_strategy_barrier(w->s, "one"));
}

MF_TEST(workers_report_the_error_of_the_worker_that_failed)
{
    job_worker w[3];

    job_run(w, 3, "multi_worker_mirrored", give_up, NULL);
    for (int i = 0; i < 3; i += 2) {
        T_EQ(w[i].st, MF_ABORTED);
        T_TRUE(strstr(w[i].message, "worker 1") && strstr(w[i].message, "the disk has melted"));
    }
}

static mf_status stop_after(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    job_worker *w = ctx;

    (void)t;
    if (w->rank == 1 && report->step == 4)
        mf_strategy_stop(w->s);
    return MF_OK;
}

static void stop(job_worker *w)
{
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .strategy = w->s });
    job_note(w, mf_fit(p.trainer, p.data, NULL,
                       &(mf_fit_options){ .steps = 500,
                                          .batch = 16,
                                          .hooks = &(mf_hook){ .ctx = w, .after_step = stop_after },
                                          .n_hooks = 1 }));
    (void)snprintf(w->sha, sizeof w->sha, "%lld", (long long)mf_trainer_step(p.trainer));
    toy_end(&p);
}

MF_TEST(workers_stop_at_the_same_step_when_one_requests_it)
{
    static const char *const kinds[] = { "multi_worker_mirrored", "reduce_to_one",
                                         "local_sgd period=3" };
    static const char *const at[] = { "5", "5", "6" };
    job_worker w[3];

    for (int k = 0; k < MF_COUNT(kinds); k++) {
        job_run(w, 3, kinds[k], stop, NULL);
        for (int i = 0; i < 3; i++) {
            T_EQ(w[i].st, MF_OK);
            T_STREQ(w[i].sha, at[k]);
        }
    }
}

MF_TEST(workers_without_a_strategy_pass_barriers_at_once)
{
    T_OK(mf_strategy_barrier(NULL, "one"));
    mf_strategy_stop(NULL);
    mf_strategy_abort(NULL, MF_INTERNAL);
}
