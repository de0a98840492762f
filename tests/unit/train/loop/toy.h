/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h - problems that train in milliseconds: a line through points, and a table of numbers. */
#ifndef MF_TESTS_TOY_H
#define MF_TESTS_TOY_H

#include "mf_test.h"
#include "train/step/trainer.h"

#include <meshflow/meshflow.h>

#include <string.h>

enum { TOY_SAMPLES = 64, TOY_INPUTS = 6, TOY_ROWS = 8 };

typedef struct toy {
    mf_dataset *data;
    mf_model *model;
    mf_trainer *trainer;
} toy;

static inline float toy_noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / (float)(1 << 23) - 1.0f;
}

static inline mf_tensor *toy_tensor(mf_dtype dtype, int64_t rows, int64_t columns)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(dtype, (int64_t[]){ rows, columns }, columns > 0 ? 2 : 1, &t));
    return t;
}

static inline void toy_data(toy *p, const char *column, mf_tensor *x, mf_tensor *label)
{
    T_OK(mf_dataset_of((const char *const[]){ column, "label" },
                       (const mf_tensor *const[]){ x, label }, 2, &p->data));
    mf_tensor_free(x);
    mf_tensor_free(label);
}

/* label = 2 + sum of (i - 2.5) * x[i]; a Dense layer finds it. */
static inline void toy_line(toy *p)
{
    mf_tensor *x = toy_tensor(MF_DTYPE_F32, TOY_SAMPLES, TOY_INPUTS);
    mf_tensor *label = toy_tensor(MF_DTYPE_F32, TOY_SAMPLES, 0);
    uint64_t seed = 1;
    mf_output in;

    *p = (toy){ 0 };
    for (int i = 0; i < TOY_SAMPLES; i++) {
        float y = 2.0f;

        for (int k = 0; k < TOY_INPUTS; k++) {
            const float v = toy_noise(&seed);

            ((float *)x->data)[i * TOY_INPUTS + k] = v;
            y += ((float)k - 2.5f) * v;
        }
        ((float *)label->data)[i] = y;
    }
    toy_data(p, "x", x, label);
    T_OK(mf_model_new(&p->model));
    in = mf_model_input(p->model, "x", MF_DTYPE_F32, (int64_t[]){ TOY_INPUTS }, 1);
    mf_model_output(p->model, mf_layer(p->model, "Dense", MF_IN(in), "units=1"));
}

/* label = the number of the row, found in an embedding table of width 1. */
static inline void toy_table(toy *p)
{
    mf_tensor *x = toy_tensor(MF_DTYPE_I32, TOY_SAMPLES, 1);
    mf_tensor *label = toy_tensor(MF_DTYPE_F32, TOY_SAMPLES, 0);
    mf_output y;

    *p = (toy){ 0 };
    for (int i = 0; i < TOY_SAMPLES; i++) {
        ((int32_t *)x->data)[i] = i * 5 % TOY_ROWS;
        ((float *)label->data)[i] = (float)(i * 5 % TOY_ROWS) + 1.0f;
    }
    toy_data(p, "id", x, label);
    T_OK(mf_model_new(&p->model));
    y = mf_model_input(p->model, "id", MF_DTYPE_I32, (int64_t[]){ 1 }, 1);
    y = mf_layer(p->model, "Embedding", MF_IN(y), "input_dim=%d output_dim=1", TOY_ROWS);
    mf_model_output(p->model, mf_layer(p->model, "Flatten", MF_IN(y), "name='flat'"));
}

static inline void toy_compile(toy *p, mf_compile_options options)
{
    options.loss = "mean_squared_error";
    options.threads = 2;
    T_OK(mf_model_compile(p->model, &options, &p->trainer));
}

static inline void toy_end(toy *p)
{
    mf_trainer_free(p->trainer);
    mf_model_free(p->model);
    mf_dataset_unref(p->data);
}

static inline void toy_fit(toy *p, int64_t steps)
{
    T_OK(mf_fit(p->trainer, p->data, NULL,
                &(mf_fit_options){ .steps = mf_trainer_step(p->trainer) + steps, .batch = 16 }));
}

static inline double toy_loss(toy *p)
{
    mf_result results[MF_MAX_RESULTS];
    int n;

    T_OK(mf_evaluate(p->trainer, p->data, results, &n));
    return results[0].value;
}

/* Element i of a variable. */
static inline double toy_value(const toy *p, const char *name, int64_t i)
{
    const mf_train_var *v = mf_trainer_find(p->trainer, name);
    mf_tensor value = { 0 };
    double x;

    if (!v)
        T_FAIL("there is no variable %s", name);
    T_OK(mf_variable_read(v->variable, &value));
    x = mf_tensor_float_at(&value, i);
    mf_tensor_clear(&value);
    return x;
}

#endif
