/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - a small training that shows in its weights which rounding and which subnormals the
 * library computed with. */
#ifndef HOST_COMMON_H
#define HOST_COMMON_H

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 96, FEATURES = 8, CLASSES = 3, STEPS = 30 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                     \
                    mf_error_message());                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == MF_OK)

/* Without rounding, and whatever flushes to zero: the first features are subnormal. */
static inline float feature(int i)
{
    const int n = (i * 7919) % 1009 - 504;
    const uint32_t bits = (uint32_t)(n < 0 ? -n : n) * 1000U | (n < 0 ? 0x80000000U : 0);
    float x = (float)n * 0.00390625F;

    if (i % FEATURES < 2)
        memcpy(&x, &bits, sizeof x);
    return x;
}

static inline mf_dataset *make_data(void)
{
    const char *names[] = { "x", "label" };
    mf_tensor *columns[2];
    mf_dataset *set;
    float *x;
    int32_t *label;

    OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, FEATURES }, 2, &columns[0]));
    OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &columns[1]));
    x = mf_tensor_data(columns[0]);
    label = mf_tensor_data(columns[1]);
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = feature(i);
    for (int i = 0; i < SAMPLES; i++)
        label[i] = i * 31 % CLASSES;
    OK(mf_dataset_of(names, (const mf_tensor *const *)columns, 2, &set));
    mf_tensor_free(columns[0]);
    mf_tensor_free(columns[1]);
    return set;
}

static inline mf_model *make_model(void)
{
    mf_model *m;
    mf_output x;

    OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ FEATURES }, 1);
    x = mf_layer(m, "Dense", MF_IN(x), "units=16 activation=tanh");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=%d", CLASSES));
    OK(mf_model_status(m));
    return m;
}

static inline mf_trainer *make_trainer(mf_model *m, mf_strategy *s)
{
    const mf_compile_options o = { .optimizer = "adam",
                                   .metrics = "accuracy",
                                   .learning_rate = 0.01,
                                   .seed = 3,
                                   .threads = 3,
                                   .strategy = s };
    mf_trainer *t;

    OK(mf_model_compile(m, &o, &t));
    return t;
}

static inline void fit(mf_trainer *t, mf_dataset *data, const mf_hook *hook)
{
    const mf_fit_options o = {
        .steps = STEPS, .batch = 32, .hooks = hook, .n_hooks = hook != NULL
    };

    OK(mf_fit(t, data, NULL, &o));
}

#endif
