/* SPDX-License-Identifier: Apache-2.0 */
/* guards.c - steps with NaN or Inf, and workers whose weights differ. Workers are threads. */
#include "data/ledger.h"
#include "train/loop/dist.h"
#include "train/loop/roll_back.h"
#include "unit/dist/dist_test.h"
#include "unit/train/loop/folder.h"
#include "unit/train/loop/toy.h"

#include <math.h>

enum { SAMPLES = 64, BATCH = 4, STEPS = SAMPLES / BATCH };

/* A training of one epoch in order, with four samples per step. */
typedef struct plan {
    int bad_from, bad_to; /* samples with NaN */
    int gone_from, gone_to; /* samples that the data set does not contain */
    const char *optimizer, *guard, *precision;
    int64_t save_steps; /* 0: nothing is saved */
    int64_t check_steps;
    int flips[2]; /* after which steps a bit of worker 1's weights changes; 0: never */
    const char *flipped; /* of this variable */
    int flips_again; /* as often */
    const char *frozen; /* this one is not trained */
    int rolls_back_again, rolls_back_alone; /* after this step; 0: never */
    char dir[32];
    int64_t skipped[JOB_MOST]; /* by rank: the last report */
} plan;

static void make_data(const plan *p, toy *out)
{
    const int n = SAMPLES - (p->gone_to - p->gone_from);
    mf_tensor *x = toy_tensor(MF_DTYPE_F32, n, TOY_INPUTS);
    mf_tensor *label = toy_tensor(MF_DTYPE_F32, n, 0);
    uint64_t seed = 1;
    int at = 0;

    for (int i = 0; i < SAMPLES; i++) {
        const bool gone = i >= p->gone_from && i < p->gone_to;
        const bool bad = i >= p->bad_from && i < p->bad_to;

        for (int k = 0; k < TOY_INPUTS; k++) {
            const float v = toy_noise(&seed);

            if (!gone)
                ((float *)x->data)[at * TOY_INPUTS + k] = bad && k == 2 ? NAN : v;
        }
        if (!gone)
            ((float *)label->data)[at++] = (float)(i % 5);
    }
    toy_data(out, "x", x, label);
}

static void make_model(toy *p)
{
    mf_output x;

    T_OK(mf_model_new(&p->model));
    x = mf_model_input(p->model, "x", MF_DTYPE_F32, (int64_t[]){ TOY_INPUTS }, 1);
    x = mf_layer(p->model, "Dense", MF_IN(x), "units=4");
    x = mf_layer(p->model, "BatchNormalization", MF_IN(x), "momentum=0.9");
    mf_model_output(p->model, mf_layer(p->model, "Dense", MF_IN(x), "units=1"));
}

/* A bit flip in place, as in faulty memory: other holders of the buffer see it too. */
static void flip(const mf_trainer *t, const char *name)
{
    ((unsigned char *)mf_trainer_find(t, name)->variable->value.data)[1] ^= 4;
}

static mf_status roll_back_again(mf_trainer *t)
{
    T_EQ(t->progress.rolled_back, t->step);
    return mf_roll_back_if_due(t, NULL, NULL); /* fails if it looks for a checkpoint */
}

/* Worker 1 has other weights, as after a roll-back; then all align. */
static mf_status roll_back_alone(const job_worker *w, mf_trainer *t)
{
    mf_variable *bias = mf_trainer_find(t, "dense/bias")->variable;
    mf_tensor value = { 0 };

    if (w->rank == 1) {
        T_OK(mf_tensor_alloc(&value, MF_DTYPE_F32, &bias->declared));
        for (int64_t i = 0; i < value.count; i++)
            ((float *)value.data)[i] = 7.0f;
        T_OK(mf_variable_assign(bias, &value, true));
        mf_tensor_clear(&value);
        t->progress.rolled_back = t->step;
    }
    MF_TRY(mf_dist_align_state(t->dist, t));
    T_EQ(t->progress.rolled_back, t->step);
    MF_TRY(mf_variable_read(bias, &value));
    T_EQ_F(mf_tensor_float_at(&value, 0), 7.0f);
    mf_tensor_clear(&value);
    return MF_OK;
}

static mf_status after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    job_worker *w = ctx;
    plan *p = w->arg;

    p->skipped[w->rank] = r->skipped_steps;
    if (r->step == p->rolls_back_again)
        return roll_back_again(t);
    if (r->step == p->rolls_back_alone)
        return roll_back_alone(w, t);
    if (w->rank != 1 || !p->flipped || p->flips_again == 0 ||
        (r->step != p->flips[0] && r->step != p->flips[1]))
        return MF_OK;
    p->flips_again--;
    flip(t, p->flipped);
    return MF_OK;
}

static void fit(job_worker *w)
{
    plan *p = w->arg;
    const mf_hook hook = { .ctx = w, .after_step = after_step };
    const mf_fit_options o = { .batch = BATCH,
                               .in_order = true,
                               .hooks = &hook,
                               .n_hooks = 1,
                               .out = p->save_steps > 0 ? p->dir : NULL,
                               .save_steps = p->save_steps,
                               .keep = 100,
                               .check_steps = p->check_steps };
    const mf_compile_options c = { .optimizer = p->optimizer ? p->optimizer : "sgd",
                                   .loss = "mean_squared_error",
                                   .guard = p->guard,
                                   .precision = p->precision,
                                   .strategy = w->s,
                                   .shards = 4,
                                   .threads = 1 };
    toy t = { 0 };

    make_data(p, &t);
    make_model(&t);
    if (p->frozen)
        T_OK(mf_model_freeze(t.model, p->frozen, true));
    job_note(w, mf_model_compile(t.model, &c, &t.trainer));
    if (w->st == MF_OK)
        job_note(w, mf_fit(t.trainer, t.data, NULL, &o));
    if (w->st == MF_OK)
        T_OK(mf_trainer_sha256(t.trainer, w->sha));
    toy_end(&t);
}

/* Each sample is used once, despite repeated and skipped steps. */
static void audit(const char *dir)
{
    mf_audit a;

    T_OK(mf_ledger_audit(dir, &a));
    T_EQ(a.n_problems, 0);
    T_EQ(a.epochs, 1);
    T_EQ(a.last_step, STEPS);
    mf_audit_deinit(&a);
}

/* All workers end with these weights. */
static void train(plan *p, const char *strategy, int n, char sha[65])
{
    job_worker w[JOB_MOST];

    if (p->save_steps > 0)
        folder_new(p->dir);
    job_run(w, n, strategy, fit, p);
    if (p->save_steps > 0) {
        audit(p->dir);
        folder_remove(p->dir);
    }
    for (int i = 0; i < n; i++) {
        if (w[i].st != MF_OK)
            T_FAIL("worker %d of %d: %s", i, n, w[i].message);
        T_STREQ(w[i].sha, w[0].sha);
    }
    memcpy(sha, w[0].sha, sizeof w[0].sha);
}

static void fails(plan *p, int n, mf_status status, const char *message)
{
    job_worker w[JOB_MOST];

    if (p->save_steps > 0)
        folder_new(p->dir);
    job_run(w, n, "multi_worker_mirrored", fit, p);
    if (p->save_steps > 0)
        folder_remove(p->dir);
    for (int i = 0; i < n; i++) {
        T_EQ(w[i].st, status);
        if (!strstr(w[i].message, message))
            T_FAIL("worker %d says '%s', not '%s'", i, w[i].message, message);
    }
}

static const char sums[] = "multi_worker_mirrored";

/* ---- NaN and Inf ---- */

/* After a skipped step the state is as if its batch did not exist. This includes Adam's powers and
 * the statistics of batch normalisation. */
MF_TEST(guard_skip_excludes_only_steps_with_nan_or_inf)
{
    static const char *const optimizers[] = { "sgd", "momentum", "adam" };
    static const char *const kinds[] = { sums, "reduce_to_one", "mirrored replicas=2",
                                         "central_storage replicas=2" };
    char without[65], sha[65];

    for (int i = 0; i < MF_COUNT(optimizers); i++) {
        train(&(plan){ .gone_from = 24, .gone_to = 28, .optimizer = optimizers[i] }, sums, 1,
              without);
        for (int k = 0; k < MF_COUNT(kinds); k++) {
            for (int n = 1; n <= (k < 2 ? 3 : 1); n++) {
                plan p = {
                    .bad_from = 25, .bad_to = 26, .optimizer = optimizers[i], .guard = "skip"
                };

                train(&p, kinds[k], n, sha);
                T_STREQ(sha, without);
                for (int r = 0; r < n; r++)
                    T_EQ(p.skipped[r], 1);
            }
        }
    }
}

MF_TEST(guard_skip_changes_nothing_without_nan_or_inf)
{
    plan p = { .optimizer = "adam", .guard = "skip" };
    char without[65], sha[65];

    train(&(plan){ .optimizer = "adam" }, sums, 2, without);
    train(&p, sums, 2, sha);
    T_STREQ(sha, without);
    T_EQ(p.skipped[1], 0);
    train(&(plan){ .optimizer = "adam", .guard = "off" }, sums, 2, sha);
    T_STREQ(sha, without);
}

/* Steps 6 to 9 have NaN. After the third skip, the weights are those of step 4 again: a checkpoint
 * of step 5 would contain the same weights. */
MF_TEST(guard_skip_rolls_back_after_consecutive_skips_and_data_advances)
{
    char without[65], sha[65];

    train(&(plan){ .gone_from = 16, .gone_to = 36, .optimizer = "adam" }, sums, 1, without);
    for (int n = 1; n <= 3; n++) {
        plan p = { .bad_from = 20,
                   .bad_to = 36,
                   .optimizer = "adam",
                   .guard = "skip in_row=3",
                   .save_steps = 2 };

        train(&p, sums, n, sha);
        T_STREQ(sha, without);
        T_EQ(p.skipped[n - 1], 4);
    }
}

/* A recovery repeats what follows a step. A worker that has rolled back continues; it would not
 * answer another worker that rolls back again. */
MF_TEST(guard_skip_rolls_back_once_for_a_step)
{
    plan p = { .bad_from = 20,
               .bad_to = 36,
               .guard = "skip in_row=3",
               .save_steps = 2,
               .rolls_back_again = 8 };
    char sha[65];

    for (int n = 1; n <= 2; n++)
        train(&p, sums, n, sha);
}

/* As if another worker was lost between the roll-backs of worker 1 and worker 0. */
MF_TEST(guard_skip_gives_the_weights_of_a_roll_back_to_workers_that_have_not_rolled_back)
{
    plan p = { .guard = "skip", .rolls_back_alone = 3 };
    char sha[65];

    train(&p, sums, 2, sha);
}

/* Steps 6 to 11 have NaN: after three skips, back to step 4; after three more, back to step 2. */
MF_TEST(guard_skip_rolls_back_further_while_steps_are_skipped)
{
    plan p = { .bad_from = 20, .bad_to = 44, .guard = "skip in_row=3", .save_steps = 2 };
    char without[65], sha[65];

    train(&(plan){ .gone_from = 8, .gone_to = 44 }, sums, 1, without);
    train(&p, sums, 2, sha);
    T_STREQ(sha, without);
}

MF_TEST(guard_skip_fails_without_an_earlier_checkpoint)
{
    plan p = { .bad_from = 20, .bad_to = 36, .guard = "skip in_row=3" };

    fails(&p, 1, MF_INVALID_ARGUMENT, "3 consecutive steps (6 to 8)");
    fails(&p, 2, MF_INVALID_ARGUMENT, "no earlier checkpoint");
    p.save_steps = 5; /* the checkpoint has the current weights */
    fails(&p, 2, MF_INVALID_ARGUMENT, "no earlier checkpoint");
}

/* A loss scale that is too large for fp16 is halved. Its steps do not count as consecutive skips.
 */
MF_TEST(guard_skip_does_not_count_steps_of_loss_scaling)
{
    plan p = { .guard = "skip in_row=2", .precision = "fp16 loss_scale=1e9" };
    char sha[65];

    train(&p, sums, 2, sha);
    T_TRUE(p.skipped[0] > 2);
}

MF_TEST(guard_rejects_invalid_settings)
{
    plan p = { .guard = "skp" };

    fails(&p, 1, MF_NOT_FOUND, "skip");
    p.guard = "skip in_row=0";
    fails(&p, 1, MF_INVALID_ARGUMENT, "in_row");
}

/* ---- weights that differ ---- */

MF_TEST(weights_that_differ_are_repaired_to_the_bits_of_a_run_without_the_fault)
{
    static const char *const names[] = { "dense/kernel", "dense/kernel/Momentum",
                                         "batch_normalization/moving_mean" };
    char without[65], sha[65];

    train(&(plan){ .optimizer = "momentum" }, sums, 1, without);
    for (int i = 0; i < MF_COUNT(names); i++) {
        for (int n = 2; n <= 3; n++) {
            plan p = { .optimizer = "momentum",
                       .check_steps = 5,
                       .flips = { 7, 12 },
                       .flipped = names[i],
                       .flips_again = 2,
                       .save_steps = i == 0 ? 3 : 0 };

            train(&p, sums, n, sha);
            T_STREQ(sha, without);
        }
    }
}

/* A snapshot shares its memory with the variable until the next update, or permanently if the
 * variable is not trained. A flipped bit then damages both: the value is copied from another
 * worker. */
MF_TEST(weights_with_a_damaged_snapshot_are_copied_from_another_worker)
{
    char without[65], sha[65];

    for (int frozen = 0; frozen <= 1; frozen++) {
        const char *name = frozen ? "dense/bias" : NULL;

        train(&(plan){ .optimizer = "adam", .frozen = name }, sums, 1, without);
        for (int n = 2; n <= 3; n++) {
            plan p = { .optimizer = "adam",
                       .check_steps = 5,
                       .flips = { frozen ? 8 : 5, 10 },
                       .flipped = frozen ? name : "dense/kernel",
                       .frozen = name,
                       .flips_again = 2 };

            train(&p, sums, n, sha);
            T_STREQ(sha, without);
        }
    }
}

MF_TEST(weights_that_differ_repeatedly_are_an_error)
{
    plan p = { .check_steps = 5, .flips = { 7, 0 }, .flipped = "dense/bias", .flips_again = 99 };

    fails(&p, 3, MF_DATA_LOSS,
          "worker 1's weights differ from those of 2 others after step 10, first in dense/bias");
    fails(&p, 2, MF_DATA_LOSS, "worker 1's weights differ from worker 0's after step 10");
}
