/* SPDX-License-Identifier: Apache-2.0 */
/* fit_events.c - event files of mf_fit() and its hooks; neither changes the weights. */
#include "unit/train/loop/folder.h"

#include <meshflow/meshflow.h>

enum { SAMPLES = 40, SIDE = 6 };

static mf_dataset *squares(void)
{
    mf_tensor *image, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, SIDE, SIDE, 1 }, 4, &image));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES; i++) {
        ((int32_t *)mf_tensor_data(label))[i] = i % 3;
        for (int p = 0; p < SIDE * SIDE; p++)
            ((float *)mf_tensor_data(image))[i * SIDE * SIDE + p] =
                (float)((i * 13 + p * 7) % 29) * 0.05f + (p % 3 == i % 3 ? 0.5f : -0.5f);
    }
    T_OK(mf_dataset_of((const char *[]){ "image", "label" }, (const mf_tensor *[]){ image, label },
                       2, &set));
    mf_tensor_free(image);
    mf_tensor_free(label);
    return set;
}

typedef struct job {
    mf_dataset *set;
    mf_model *model;
    mf_trainer *trainer;
} job;

static job job_new(double rate)
{
    job j = { .set = squares() };
    mf_output x;

    T_OK(mf_model_new(&j.model));
    x = mf_model_input(j.model, "image", MF_DTYPE_F32, (int64_t[]){ SIDE, SIDE, 1 }, 3);
    x = mf_layer(j.model, "Flatten", MF_IN(x), NULL);
    x = mf_layer(j.model, "Dense", MF_IN(x), "units=8 activation=relu");
    mf_model_output(j.model, mf_layer(j.model, "Dense", MF_IN(x), "units=3"));
    T_OK(mf_model_compile(j.model,
                          &(mf_compile_options){ .optimizer = "sgd",
                                                 .learning_rate = rate,
                                                 .metrics = "accuracy",
                                                 .seed = 3,
                                                 .threads = 2 },
                          &j.trainer));
    return j;
}

static void job_free(job *j)
{
    mf_trainer_free(j->trainer);
    mf_model_free(j->model);
    mf_dataset_unref(j->set);
}

MF_TEST(fit_writes_events_and_continues_in_a_second_file)
{
    mf_fit_options o = { .steps = 25, .batch = 8, .summary_steps = 5 };
    char dir[32], validation[64];
    folder_tag loss;
    job j;

    folder_new(dir);
    (void)snprintf(validation, sizeof validation, "%s/validation", dir);
    o.out = dir;
    j = job_new(0.1);
    T_OK(mf_fit(j.trainer, j.set, j.set, &o));
    job_free(&j);
    loss = folder_events(dir, "loss");
    T_EQ(loss.files, 1);
    T_EQ(loss.graphs, 1);
    T_EQ(loss.start, 1);
    T_EQ(loss.n, 5);
    T_EQ(loss.steps[4], 21);
    T_EQ(folder_events(dir, "accuracy").n, 5);
    T_EQ_F(folder_events(dir, "learning_rate").last, 0.1f);
    T_EQ(folder_events(dir, "global_step/sec").n, 4);
    T_EQ(folder_events(dir, "dense/kernel").n, 5); /* epochs of 5 steps */
    T_EQ(folder_events(validation, "accuracy").n, 5);
    T_EQ(folder_events(validation, "accuracy").steps[4], 25);
    j = job_new(0.1);
    o.steps = 35;
    o.resume = true;
    T_OK(mf_fit(j.trainer, j.set, j.set, &o));
    job_free(&j);
    loss = folder_events(dir, "loss");
    T_EQ(loss.files, 2);
    T_EQ(loss.graphs, 1);
    T_EQ(loss.start, 26); /* readers forget later steps of the first file */
    T_EQ(loss.n, 7);
    T_EQ(loss.steps[5], 26);
    T_EQ(folder_events(validation, "loss").files, 2);
    folder_remove(dir);
}

static void sha_with(const mf_hook *hooks, int n, char sha[65])
{
    job j = job_new(0.1);

    T_OK(mf_fit(j.trainer, j.set, NULL,
                &(mf_fit_options){ .steps = 20, .batch = 8, .hooks = hooks, .n_hooks = n }));
    T_OK(mf_trainer_sha256(j.trainer, sha));
    job_free(&j);
}

MF_TEST(fit_gives_the_same_weights_with_any_hooks)
{
    char dir[32], without[65], with[65];
    mf_hook hooks[3];

    folder_new(dir);
    sha_with(NULL, 0, without);
    T_OK(mf_hook_summary(&(mf_summary_options){ .dir = dir,
                                                .every = { .steps = 1 },
                                                .weight_steps = 4,
                                                .gradient_steps = 5,
                                                .image_steps = 10 },
                         &hooks[0]));
    T_OK(mf_hook_profiler(dir, (mf_every){ .steps = 10 }, &hooks[1]));
    T_OK(mf_hook_logging((const char *[]){ "label:0" }, 1, (mf_every){ .steps = 7 }, false,
                         &hooks[2]));
    sha_with(hooks, 3, with);
    T_STREQ(with, without);
    T_EQ(folder_events(dir, "gradients/dense/kernel").n, 4);
    T_EQ(folder_events(dir, "dense_1/bias").n, 5);
    T_EQ(folder_events(dir, "image/image/2").n, 2);
    T_EQ(folder_events(dir, "image/image/3").n, 0);
    T_TRUE(folder_has(dir, "timeline-11.json"));
    for (int i = 0; i < 3; i++)
        mf_hook_free(&hooks[i]);
    folder_remove(dir);
}

MF_TEST(fit_stops_at_a_step_or_at_a_nan_loss)
{
    char before[65], after[65];
    mf_hook hooks[1];
    job j = job_new(0.1);

    T_OK(mf_hook_stop_at_step(0, 7, &hooks[0]));
    T_OK(mf_fit(j.trainer, j.set, NULL,
                &(mf_fit_options){ .epochs = 100, .hooks = hooks, .n_hooks = 1 }));
    T_EQ(mf_trainer_step(j.trainer), 7);
    mf_hook_free(&hooks[0]);
    job_free(&j);
    for (int fail = 0; fail < 2; fail++) {
        mf_status st;

        j = job_new(1e30);
        T_OK(mf_hook_nan_guard(NULL, fail != 0, &hooks[0]));
        st = mf_fit(j.trainer, j.set, NULL,
                    &(mf_fit_options){ .steps = 50, .hooks = hooks, .n_hooks = 1 });
        T_EQ(st, fail ? MF_INVALID_ARGUMENT : MF_OK);
        T_TRUE(mf_trainer_step(j.trainer) < 50);
        T_OK(mf_trainer_sha256(j.trainer, before));
        T_FAILS(MF_INVALID_ARGUMENT, "nothing was updated",
                mf_fit(j.trainer, j.set, NULL, &(mf_fit_options){ .steps = 50 }));
        T_OK(mf_trainer_sha256(j.trainer, after));
        T_STREQ(after, before);
        mf_hook_free(&hooks[0]);
        job_free(&j);
    }
}

/* A signal handler is installed before the loop begins. */
MF_TEST(fit_ends_after_one_step_if_it_was_stopped_before)
{
    job j = job_new(0.1);

    mf_trainer_stop(j.trainer);
    T_OK(mf_fit(j.trainer, j.set, NULL, &(mf_fit_options){ .steps = 20 }));
    T_EQ(mf_trainer_step(j.trainer), 1);
    T_OK(mf_fit(j.trainer, j.set, NULL, &(mf_fit_options){ .steps = 20 }));
    T_EQ(mf_trainer_step(j.trainer), 20);
    job_free(&j);
}

MF_TEST(fit_continues_if_events_cannot_be_written)
{
    mf_hook hook;
    job j = job_new(0.1);

    T_OK(
        mf_hook_summary(&(mf_summary_options){ .dir = "/proc/nowhere", .weight_steps = 1 }, &hook));
    T_OK(mf_fit(j.trainer, j.set, NULL,
                &(mf_fit_options){ .steps = 3, .hooks = &hook, .n_hooks = 1 }));
    T_EQ(mf_trainer_step(j.trainer), 3);
    mf_hook_free(&hook);
    job_free(&j);
}
