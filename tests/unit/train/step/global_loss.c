/* SPDX-License-Identifier: Apache-2.0 */
/* global_loss.c - losses over all samples of a step, for any assignment of shards; and rows that
 * persist from step to step. */
#include "compiler/compiler.h"
#include "train/step/trainer.h"
#include "unit/train/loop/everything.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const minings[] = { "all", "hard", "semi_hard" };

typedef struct setup {
    const char *loss, *disable, *strategy;
    int threads, shards, turns, batch;
    int64_t steps;
} setup;

typedef struct outcome {
    char sha[65];
    double first; /* loss */
} outcome;

static mf_status note_loss(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    if (mf_trainer_step(t) <= 1)
        ((outcome *)ctx)->first = report->results[0].value;
    return MF_OK;
}

static void fit(mf_model *m, mf_dataset *set, const setup *s, outcome *out)
{
    const mf_hook hook = { .ctx = out, .after_step = note_loss };
    mf_strategy *strategy = NULL;
    mf_trainer *t;

    if (s->strategy)
        T_OK(mf_strategy_open(s->strategy, NULL, &strategy));
    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "momentum learning_rate=0.05",
                                                 .loss = s->loss,
                                                 .shards = s->shards,
                                                 .micro_batches = s->turns,
                                                 .threads = s->threads,
                                                 .disable = s->disable,
                                                 .seed = 5,
                                                 .strategy = strategy },
                          &t));
    T_OK(mf_fit(
        t, set, NULL,
        &(mf_fit_options){ .steps = s->steps, .batch = s->batch, .hooks = &hook, .n_hooks = 1 }));
    T_OK(mf_trainer_sha256(t, out->sha));
    mf_trainer_free(t);
    mf_strategy_close(strategy);
}

/* The model of everything.h; its four scores are used as an embedding. */
static outcome train(setup s)
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    outcome out = { 0 };

    fit(m, set, &s, &out);
    mf_model_free(m);
    mf_dataset_unref(set);
    return out;
}

static setup usual(const char *loss)
{
    return (setup){ .loss = loss, .threads = 2, .shards = 5, .batch = 16, .steps = 7 };
}

/* ---- the same bits ---- */

static void same(const char *what, const outcome *a, const outcome *b)
{
    if (strcmp(a->sha, b->sha) != 0)
        T_FAIL("%s: other weights, %s and not %s", what, b->sha, a->sha);
}

MF_TEST(global_losses_give_the_same_bits_for_any_threads_and_micro_batches_and_without_exact_passes)
{
    const setup s = usual("triplet mining=semi_hard");
    const outcome want = train(s);
    int n;
    const mf_pass *passes = mf_passes(&n);
    outcome got;

    for (int threads = 1; threads <= 3; threads += 2) {
        setup other = s;

        other.threads = threads;
        got = train(other);
        same("threads", &want, &got);
    }
    for (int turns = 2; turns <= 4; turns += 2) {
        setup other = s;

        other.turns = turns;
        got = train(other);
        same("micro-batches", &want, &got);
    }
    for (int i = 0; i < n; i++) {
        setup other = s;

        if (!passes[i].exact || strcmp(passes[i].name, "inline") == 0)
            continue;
        other.disable = passes[i].name;
        got = train(other);
        same(passes[i].name, &want, &got);
    }
}

MF_TEST(global_losses_mine_over_all_replicas)
{
    for (int k = 0; k < 3; k++) {
        char loss[60];
        outcome want, got;

        (void)snprintf(loss, sizeof loss, "triplet mining=%s", minings[k]);
        want = train(usual(loss));
        for (int replicas = 2; replicas <= 6; replicas += 2) { /* six: one has no shard */
            char strategy[60];
            setup s = usual(loss);

            (void)snprintf(strategy, sizeof strategy, "mirrored replicas=%d", replicas);
            s.strategy = strategy;
            got = train(s);
            same(strategy, &want, &got);
        }
    }
}

/* ---- compared with the definition ---- */

enum { POINTS = 20, WIDTH = 3 };
static const double MARGIN = 0.3;

/* Points in three classes, and a layer that returns its input. */
static void points(mf_model **m, mf_dataset **set, float *x, int32_t *label)
{
    mf_tensor *a, *b;
    uint64_t s = 9;
    mf_output in;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ POINTS, WIDTH }, 2, &a));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ POINTS }, 1, &b));
    for (int i = 0; i < POINTS * WIDTH; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(s >> 40) / (float)(1 << 24);
    }
    for (int i = 0; i < POINTS; i++)
        label[i] = i % 7 % 3;
    memcpy(mf_tensor_data(a), x, POINTS * WIDTH * sizeof *x);
    memcpy(mf_tensor_data(b), label, POINTS * sizeof *label);
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ a, b }, 2, set));
    mf_tensor_free(a);
    mf_tensor_free(b);
    T_OK(mf_model_new(m));
    in = mf_model_input(*m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    mf_model_output(*m, mf_layer(*m, "Dense", MF_IN(in),
                                 "units=3 use_bias=false "
                                 "kernel_initializer=identity"));
}

static double far(const float *x, int i, int j)
{
    double sum = 0;

    for (int k = 0; k < WIDTH; k++)
        sum += pow((double)x[i * WIDTH + k] - (double)x[j * WIDTH + k], 2);
    return sum;
}

/* Is n the negative that is mined for a and p? */
static bool is_chosen(const char *mining, const float *x, const int32_t *l, int a, int p, int n)
{
    const double here = far(x, a, n), near = far(x, a, p);
    bool any_outside = false;

    if (strcmp(mining, "all") == 0)
        return near - here + MARGIN > 0;
    for (int q = 0; q < POINTS; q++)
        any_outside |= l[q] != l[a] && far(x, a, q) > near;
    for (int q = 0; q < POINTS; q++) {
        const double there = far(x, a, q);

        if (strcmp(mining, "hard") == 0 &&
            ((l[q] == l[a] && q != a && there > near) || (l[q] != l[a] && there < here)))
            return false;
        if (strcmp(mining, "semi_hard") == 0 && l[q] != l[a] &&
            (any_outside ? here <= near || (there > near && there < here) : there > here))
            return false;
    }
    return true;
}

static double by_definition(const char *mining, const float *x, const int32_t *l)
{
    double sum = 0;
    int n_triplets = 0;

    for (int i = 0; i < POINTS * POINTS * POINTS; i++) {
        const int a = i % POINTS, p = i / POINTS % POINTS, n = i / POINTS / POINTS;

        if (a == p || l[a] != l[p] || l[a] == l[n] || !is_chosen(mining, x, l, a, p, n))
            continue;
        sum += fmax(0.0, far(x, a, p) - far(x, a, n) + MARGIN);
        n_triplets++;
    }
    return sum / n_triplets;
}

MF_TEST(global_losses_match_their_definition_for_any_number_of_shards)
{
    float x[POINTS * WIDTH];
    int32_t label[POINTS];

    for (int k = 0; k < 3; k++) {
        for (int shards = 1; shards <= 9; shards += 4) {
            char loss[60];
            setup s = { .loss = loss, .threads = 2, .shards = shards, .batch = POINTS, .steps = 1 };
            outcome got = { 0 };
            mf_dataset *set;
            mf_model *m;

            (void)snprintf(loss, sizeof loss, "triplet margin=%g mining=%s", MARGIN, minings[k]);
            points(&m, &set, x, label);
            fit(m, set, &s, &got);
            T_NEAR(got.first, by_definition(minings[k], x, label), 1e-6);
            mf_model_free(m);
            mf_dataset_unref(set);
        }
    }
}

MF_TEST(global_losses_are_refused_where_workers_see_only_their_own_samples)
{
    mf_model *m = everything();
    mf_strategy *strategy;
    mf_trainer *t;

    T_OK(mf_strategy_open("local_sgd groups=2", NULL, &strategy));
    T_FAILS(
        MF_UNIMPLEMENTED, "use the strategy multi_worker_mirrored",
        mf_model_compile(m, &(mf_compile_options){ .loss = "triplet", .strategy = strategy }, &t));
    mf_strategy_close(strategy);
    mf_model_free(m);
}

MF_TEST(global_losses_reject_invalid_settings)
{
    mf_model *m = everything();
    mf_trainer *t;

    T_FAILS(MF_INVALID_ARGUMENT, "mining must be all, hard or semi_hard, not 'soft'",
            mf_model_compile(m, &(mf_compile_options){ .loss = "triplet mining=soft" }, &t));
    mf_model_free(m);
}

/* ---- persistent rows ---- */

static mf_model *machine(const char *settings)
{
    mf_model *m;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "image", MF_DTYPE_U8, (int64_t[]){ SIDE, SIDE, 1 }, 3);
    x = mf_layer(m, "Rescaling", MF_IN(x), "scale=0.004");
    x = mf_layer(m, "Flatten", MF_IN(x), " ");
    mf_model_output(m, mf_layer(m, "RBM", MF_IN(x), "units=6 name=rbm %s", settings));
    T_OK(mf_model_status(m));
    return m;
}

static outcome train_machine(const char *settings, setup s)
{
    mf_dataset *set = corners();
    mf_model *m = machine(settings);
    outcome out = { 0 };

    s.loss = "layers";
    fit(m, set, &s, &out);
    mf_model_free(m);
    mf_dataset_unref(set);
    return out;
}

/* The last batch of an epoch has two samples, and there are more chains than samples. */
MF_TEST(persistent_rows_give_the_same_bits_in_shards_and_replicas)
{
    static const char *const settings[] = { "k=2", "k=1 chains=20" };

    for (int i = 0; i < 2; i++) {
        const outcome want = train_machine(settings[i], usual(NULL));
        setup s = usual(NULL);
        outcome got;

        s.disable = "shards,cse";
        got = train_machine(settings[i], s);
        same("without passes", &want, &got);
        s = usual(NULL);
        s.turns = 3;
        got = train_machine(settings[i], s);
        same("micro-batches", &want, &got);
        s.turns = 1;
        s.strategy = "mirrored replicas=3";
        got = train_machine(settings[i], s);
        same("replicas", &want, &got);
    }
}

MF_TEST(persistent_rows_must_cover_the_batch)
{
    mf_dataset *set = corners();
    mf_model *m = machine("chains=10");
    mf_trainer *t;

    T_OK(mf_model_compile(m, &(mf_compile_options){ .loss = "layers", .shards = 4 }, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "need a row each, but there are 10 rows",
            mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 2, .batch = 16 }));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(persistent_rows_beyond_a_small_batch_do_not_change)
{
    mf_dataset *set = corners();
    mf_model *m = machine("chains=16");
    mf_tensor *before, *after;
    mf_trainer *t;

    T_OK(mf_model_compile(m, &(mf_compile_options){ .loss = "layers", .shards = 4 }, &t));
    T_OK(mf_trainer_get(t, "rbm/chains", &before));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 1, .batch = 5 }));
    T_OK(mf_trainer_get(t, "rbm/chains", &after));
    for (int64_t i = 0; i < 16; i++) {
        const size_t row = SIDE * SIDE * sizeof(float);
        const int differs = memcmp((char *)mf_tensor_data(before) + (size_t)i * row,
                                   (char *)mf_tensor_data(after) + (size_t)i * row, row);

        T_TRUE((differs != 0) == (i < 5));
    }
    mf_tensor_free(before);
    mf_tensor_free(after);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(global_losses_of_nan_are_nan)
{
    for (int k = 0; k < 3; k++) {
        mf_tensor *x, *label, *loss = NULL;
        const char *const feeds[] = { "x", "label" }, *fetch = "loss";
        mf_session *s;
        mf_graph *g;
        double sum = 0;

        T_OK(mf_graph_new(&g));
        (void)mf_applyf(g, "_TripletLoss",
                        MF_IN(mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'"),
                              mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=int32 name='label'")),
                        "margin=0.5 mining='%s' name='loss'", minings[k]);
        T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 4, 2 }, 2, &x));
        T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ 4 }, 1, &label));
        for (int i = 0; i < 8; i++)
            ((float *)x->data)[i] = NAN;
        for (int i = 0; i < 4; i++)
            ((int32_t *)label->data)[i] = i % 2;
        T_OK(mf_session_new(g, NULL, &s));
        T_OK(mf_session_run(s, NULL, feeds, (const mf_tensor *const[]){ x, label }, 2, &fetch, 1,
                            NULL, 0, &loss));
        for (int64_t i = 0; i < loss->count; i++)
            sum += (double)((const float *)loss->data)[i];
        T_TRUE(isnan(sum));
        mf_tensor_free(x);
        mf_tensor_free(label);
        mf_tensor_free(loss);
        mf_session_free(s);
        mf_graph_free(g);
    }
}
