/* SPDX-License-Identifier: Apache-2.0 */
/* offload.c - optimizer slots in files: the same weights, and the slots do not return to memory. */
#include "train/step/offload.h"

#include "mf_test.h"
#include "train/loop/dist.h"
#include "unit/train/loop/folder.h"

#include <meshflow/meshflow.h>

enum { SAMPLES = 32, WIDTH = 128, UNITS = 256 };

static mf_dataset *numbers(void)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, WIDTH }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDTH; k++)
            ((float *)x->data)[i * WIDTH + k] = (float)((i * 7 + k * 3) % 11) * 0.1f;
        ((int32_t *)label->data)[i] = i % 3;
    }
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static mf_model *wide(void)
{
    mf_model *m;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    x = mf_layer(m, "Dense", MF_IN(x), "units=%d activation=tanh", UNITS);
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=3"));
    return m;
}

/* Are exactly the two slots of the large weight in files? */
static void check_place(const mf_trainer *t, bool in_files)
{
    int found = 0;

    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *v = &t->trained[i];
        const bool large = strncmp(v->name, "dense/kernel/Adam", 17) == 0;
        mf_tensor value = { 0 };

        T_OK(mf_variable_read(v->variable, &value));
        T_EQ(mf_offload_has(&value), in_files && large);
        found += large;
        mf_tensor_clear(&value);
    }
    T_EQ(found, 2);
}

static mf_status count_mapped(void *ctx, mf_variable *slice)
{
    mf_tensor value = { 0 };

    T_OK(mf_variable_read(slice, &value));
    if (mf_offload_has(&value))
        *(int64_t *)ctx += (int64_t)mf_tensor_bytes(&value);
    mf_tensor_clear(&value);
    return MF_OK;
}

/* Bytes of slots in files of the devices of a mesh. */
static int64_t mapped_slices(const mf_trainer *t)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < t->n_trained; i++)
        T_OK(t->dist->ops.state->each_slice(t->dist, t, i, count_mapped, &bytes));
    return bytes;
}

/* Up to step `steps`, with a checkpoint after every other one. */
static void train(const char *offload, const char *out, int64_t steps, char sha[65])
{
    mf_dataset *set = numbers();
    mf_model *m = wide();
    mf_trainer *t;

    T_OK(mf_model_compile(
        m,
        &(mf_compile_options){ .optimizer = "adam", .seed = 4, .threads = 2, .offload = offload },
        &t));
    check_place(t, offload != NULL);
    T_OK(mf_fit(t, set, NULL,
                &(mf_fit_options){
                    .steps = steps, .batch = 8, .out = out, .save_steps = 2, .resume = true }));
    check_place(t, offload != NULL);
    T_OK(mf_trainer_sha256(t, sha));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(train_offloaded_slots_stay_in_their_files_and_change_no_bit)
{
    char dir[32], in_memory[FOLDER_PATH], in_files[FOLDER_PATH], want[65], got[65];

    folder_new(dir);
    (void)snprintf(in_memory, sizeof in_memory, "%s/memory", dir);
    (void)snprintf(in_files, sizeof in_files, "%s/files", dir);
    train(NULL, in_memory, 9, want);
    train(dir, in_files, 5, got);
    train(dir, in_files, 9, got); /* continues */
    T_STREQ(got, want);
    folder_remove(dir);
}

typedef struct seen {
    int64_t bytes; /* in files, after the third step */
} seen;

static mf_status look(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    if (r->step == 3)
        ((seen *)ctx)->bytes = mapped_slices(t);
    return MF_OK;
}

/* Trains nine steps on a mesh. Returns the bytes of slots in files during the run. */
static int64_t train_on_mesh(const char *offload, const char *layout, char sha[65])
{
    seen found = { 0 };
    const mf_hook hook = { .ctx = &found, .after_step = look };
    mf_dataset *set = numbers();
    mf_model *m = wide();
    mf_strategy *s;
    mf_trainer *t;

    T_OK(mf_strategy_open(layout, NULL, &s));
    T_OK(mf_model_compile(
        m,
        &(mf_compile_options){
            .optimizer = "adam", .seed = 4, .threads = 2, .offload = offload, .strategy = s },
        &t));
    T_OK(mf_fit(t, set, NULL,
                &(mf_fit_options){ .steps = 9, .batch = 8, .hooks = &hook, .n_hooks = 1 }));
    T_OK(mf_trainer_sha256(t, sha));
    mf_trainer_free(t);
    mf_strategy_close(s);
    mf_model_free(m);
    mf_dataset_unref(set);
    return found.bytes;
}

/* Each of two devices has both slots of the large weight: all of them, or a half. */
MF_TEST(train_offloaded_slots_of_a_mesh_are_the_slices_of_its_devices)
{
    const char *whole = "mesh axes='all:2' layout='batch:all'",
               *cut = "mesh axes='all:2' layout='batch:all;slots:all'";
    const int64_t bytes = 2 * 4 * WIDTH * UNITS;
    char dir[32], want[65], got[65];

    folder_new(dir);
    T_EQ(train_on_mesh(NULL, whole, want), 0);
    T_EQ(train_on_mesh(dir, whole, got), 2 * bytes);
    T_STREQ(got, want);
    T_EQ(train_on_mesh(NULL, cut, want), 0);
    T_EQ(train_on_mesh(dir, cut, got), bytes);
    T_STREQ(got, want);
    folder_remove(dir);
}

MF_TEST(train_offloading_refuses_unsupported_settings)
{
    mf_model *m = wide();
    mf_strategy *s;
    mf_trainer *t;

    T_FAILS(MF_INVALID_ARGUMENT, "there is no folder '/nowhere/at/all'",
            mf_model_compile(m, &(mf_compile_options){ .offload = "/nowhere/at/all" }, &t));
    mf_model_free(m);
    m = wide();
    T_OK(mf_strategy_open("mirrored replicas=2", NULL, &s));
    T_FAILS(MF_UNIMPLEMENTED, "use it with one process, with multi_worker_mirrored or on a mesh",
            mf_model_compile(m, &(mf_compile_options){ .offload = "/tmp", .strategy = s }, &t));
    mf_model_free(m);
    mf_strategy_close(s);
}
