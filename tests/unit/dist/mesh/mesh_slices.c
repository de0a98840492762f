/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_slices.c - variables of a training on a mesh are sharded, and gathered for readers. */
#include "tensor/buffer.h"
#include "unit/train/loop/toy.h"

enum { INPUTS = 128, UNITS = 1024, SAMPLES = 48 };

/* Of a matrix of weights and a bias for each unit, two slots for each, and the last layer. */
static const int64_t STATE = 3 * 4 * (INPUTS * UNITS + UNITS + UNITS + 1);

typedef struct watcher {
    int64_t asks; /* the step after which it reads variables; 0: not announced */
    int64_t step; /* the step at which it reads them */
    mf_status st;
    char sha[65];
    int64_t live; /* bytes of all tensors after the step before */
} watcher;

static bool looks(void *ctx, mf_trainer *t, int64_t step)
{
    (void)t;
    return ((watcher *)ctx)->asks == step;
}

static mf_status after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    watcher *w = ctx;

    if (r->step == w->step - 1)
        w->live = mf_buffer_live_bytes();
    if (r->step == w->step)
        w->st = mf_trainer_sha256(t, w->sha);
    return MF_OK;
}

static mf_dataset *noise(void)
{
    mf_tensor *x = toy_tensor(MF_DTYPE_F32, SAMPLES, INPUTS),
              *label = toy_tensor(MF_DTYPE_F32, SAMPLES, 0);
    toy p = { 0 };
    uint64_t seed = 3;

    for (int64_t i = 0; i < x->count; i++)
        ((float *)x->data)[i] = toy_noise(&seed);
    for (int64_t i = 0; i < SAMPLES; i++)
        ((float *)label->data)[i] = toy_noise(&seed);
    toy_data(&p, "x", x, label);
    return p.data;
}

/* An epoch of eight steps; strategy NULL: one process. */
static void train(const char *strategy, watcher *w)
{
    const mf_hook hook = { .ctx = w, .after_step = after_step, .looks = looks };
    mf_dataset *set = noise();
    mf_strategy *s = NULL;
    mf_trainer *t;
    mf_model *m;
    mf_output y;

    T_OK(mf_model_new(&m));
    y = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ INPUTS }, 1);
    y = mf_layer(m, "Dense", MF_IN(y), "units=1024 activation=relu");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(y), "units=1"));
    if (strategy)
        T_OK(mf_strategy_open(strategy, NULL, &s));
    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "adam",
                                                 .loss = "mean_squared_error",
                                                 .shards = 1,
                                                 .seed = 5,
                                                 .threads = 1,
                                                 .strategy = s },
                          &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .batch = 6, .hooks = &hook, .n_hooks = 1 }));
    mf_trainer_free(t);
    mf_strategy_close(s);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(a_hook_that_requests_weights_sees_those_of_its_step_on_a_mesh)
{
    watcher alone = { .asks = 5, .step = 5 }, mesh = alone, silent = { .step = 5 };
    const char *strategy = "mesh axes='all:4' layout='batch:all;weights:all' exact=true";

    train(NULL, &alone);
    train(strategy, &mesh);
    T_OK(alone.st);
    T_OK(mesh.st);
    T_STREQ(mesh.sha, alone.sha);
    train(strategy, &silent);
    T_EQ(silent.st, MF_FAILED_PRECONDITION);
}

/* In one process, threads are the devices. */
MF_TEST(a_training_on_a_mesh_stores_its_variables_once)
{
    const int64_t before = mf_buffer_live_bytes();
    watcher alone = { .step = 5 }, mesh = { .step = 5 };

    train(NULL, &alone);
    train("mesh axes='all:4' layout='batch:all;weights:all'", &mesh);
    T_TRUE(alone.live - before >= STATE);
    T_TRUE(alone.live - before < STATE + STATE / 3); /* blocks are larger by a quarter at most */
    T_TRUE(mesh.live - before < STATE + STATE / 3);
}
