/* SPDX-License-Identifier: Apache-2.0 */
/* hogwild.c - several threads train one model concurrently, with and without locks. */
#include "train/checkpoint/checkpoint.h"
#include "unit/train/loop/folder.h"
#include "unit/train/loop/toy.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, STEPS = 200 };

typedef struct worker {
    mf_session *session;
    const mf_dataset *data;
    float rate;
    uint64_t seed;
    mf_status st;
} worker;

/* One step on one sample. */
static mf_status one_step(const worker *w, int64_t sample, int64_t step, mf_tensor **in)
{
    static const char *const feeds[] = { "x:0", "label:0", "clock:0", "learning_rate:0",
                                         "one_by_samples:0" };
    static const char *const target = "train";

    MF_TRY(mf_dataset_read(w->data, 0, sample, (void *const[]){ in[0]->data, in[1]->data }));
    ((int64_t *)in[2]->data)[1] = step;
    ((float *)in[3]->data)[0] = w->rate;
    ((float *)in[4]->data)[0] = 1.0f;
    return mf_session_run(w->session, NULL, feeds, (const mf_tensor *const *)in, 5, NULL, 0,
                          &target, 1, NULL);
}

static void *work(void *arg)
{
    worker *w = arg;
    mf_tensor *in[5] = { toy_tensor(MF_DTYPE_F32, 1, TOY_INPUTS), toy_tensor(MF_DTYPE_F32, 1, 0),
                         toy_tensor(MF_DTYPE_I64, 2, 0), NULL, NULL };

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &in[3]));
    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &in[4]));
    for (int i = 0; i < STEPS && w->st == MF_OK; i++) {
        const int64_t sample = (int64_t)(w->seed * 17 + (uint64_t)i * 5) % TOY_SAMPLES;

        w->st = one_step(w, sample, i, in);
    }
    for (int i = 0; i < 5; i++)
        mf_tensor_free(in[i]);
    return NULL;
}

static void train_at_once(toy *p, float rate)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){ .session = mf_trainer_session(p->trainer),
                               .data = p->data,
                               .rate = rate,
                               .seed = (uint64_t)i };
        T_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        T_EQ(pthread_join(threads[i], NULL), 0);
        T_OK(workers[i].st);
    }
}

/* Far below every answer, so the gradient of |answer - label| is x; x is 1, 2, 3...: integers add
 * up exactly in any order, and no update may be lost. */
static void counting_toy(toy *p)
{
    mf_tensor *x = toy_tensor(MF_DTYPE_F32, TOY_SAMPLES, TOY_INPUTS);
    mf_tensor *label = toy_tensor(MF_DTYPE_F32, TOY_SAMPLES, 0);

    toy_line(p);
    mf_dataset_unref(p->data);
    for (int i = 0; i < TOY_SAMPLES; i++) {
        ((float *)label->data)[i] = -1e9f;
        for (int k = 0; k < TOY_INPUTS; k++)
            ((float *)x->data)[i * TOY_INPUTS + k] = (float)(k + 1);
    }
    toy_data(p, "x", x, label);
}

MF_TEST_TIMEOUT(train_locked_updates_of_many_threads_are_all_applied, 120)
{
    toy p;
    double start[TOY_INPUTS];

    counting_toy(&p);
    T_OK(mf_model_compile(
        p.model, &(mf_compile_options){ .loss = "mean_absolute_error", .threads = 2 }, &p.trainer));
    T_OK(mf_fit(p.trainer, p.data, NULL, &(mf_fit_options){ .steps = 1, .batch = TOY_SAMPLES }));
    for (int k = 0; k < TOY_INPUTS; k++)
        start[k] = toy_value(&p, "dense/kernel", k);
    train_at_once(&p, 1.0f);
    for (int k = 0; k < TOY_INPUTS; k++)
        T_NEAR(toy_value(&p, "dense/kernel", k), start[k] - THREADS * STEPS * (k + 1.0), 0.01);
    T_EQ_F(toy_value(&p, "global_step", 0), 1 + THREADS * STEPS);
    toy_end(&p);
}

MF_TEST_TIMEOUT(train_updates_without_locks_find_the_solution, 120)
{
    static const char *const optimizers[] = { "sgd", "momentum momentum=0.5", "adagrad" };

    for (int i = 0; i < MF_COUNT(optimizers); i++) {
        const bool slow = strcmp(optimizers[i], "adagrad") == 0;
        double before, after;
        toy p;

        toy_line(&p);
        toy_compile(&p, (mf_compile_options){ .optimizer = optimizers[i], .hogwild = true });
        before = toy_loss(&p);
        train_at_once(&p, slow ? 0.5f : 0.05f);
        after = toy_loss(&p);
        if (!(after < 0.02 * before))
            T_FAIL("%s: the loss is %g, and was %g", optimizers[i], after, before);
        toy_end(&p);
    }
}

/* A checkpoint is written in the background while training writes to the weights. */
MF_TEST(train_a_snapshot_keeps_its_values_during_unlocked_updates)
{
    char dir[32], prefix[64];
    mf_snapshot *s;
    double then;
    toy p;

    folder_new(dir);
    (void)snprintf(prefix, sizeof prefix, "%s/model.ckpt-1", dir);
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .hogwild = true });
    toy_fit(&p, 1);
    then = toy_value(&p, "dense/kernel", 0);
    T_OK(mf_snapshot_take(p.trainer, &s));
    toy_fit(&p, 1);
    T_TRUE(toy_value(&p, "dense/kernel", 0) != then);
    T_OK(mf_snapshot_write(s, prefix));
    mf_snapshot_free(s);
    T_OK(mf_trainer_restore(p.trainer, prefix));
    T_EQ_F(toy_value(&p, "dense/kernel", 0), then);
    toy_end(&p);
    folder_remove(dir);
}
