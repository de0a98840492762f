/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rbm.c - a restricted Boltzmann machine with four visible and three hidden units. Its states
 * can be enumerated: training steps match the definitions up to sampling error. */
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <string.h>

enum { V = 4, H = 3, SAMPLES = 20000, STEPS = 10, NUMBERS = V * H + V + H };

/* Large, so that one step of a chain does not mix. */
static const float kernel[V * H] = { 2.5f,  -1.5f, 0.5f, -2.0f, 2.0f, 1.0f,
                                     -1.0f, -2.5f, 1.5f, 1.0f,  0.5f, -2.0f };
static const float visible[V] = { 0.4f, -0.6f, 0.2f, -0.3f }, hidden[H] = { -0.5f, 0.3f, 0.1f };
static const float patterns[3][V] = { { 1, 0, 1, 0 }, { 0, 1, 1, 0 }, { 1, 1, 0, 1 } };

/* How much of the energy's parts there is: of v h, of v, of h; the gradient is a difference of two.
 */
typedef struct statistics {
    double at[NUMBERS];
} statistics;

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double chance_hidden(const float *v, int h)
{
    double x = (double)hidden[h];

    for (int i = 0; i < V; i++)
        x += (double)v[i] * (double)kernel[i * H + h];
    return sigmoid(x);
}

static double chance_visible(const float *h, int v)
{
    double x = (double)visible[v];

    for (int i = 0; i < H; i++)
        x += (double)h[i] * (double)kernel[v * H + i];
    return sigmoid(x);
}

static void bits(int state, int n, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)(state >> i & 1);
}

/* Adds the values v with this weight. */
static void add(statistics *s, const float *v, double weight)
{
    for (int h = 0; h < H; h++) {
        const double p = chance_hidden(v, h);

        for (int i = 0; i < V; i++)
            s->at[i * H + h] += weight * (double)v[i] * p;
        s->at[V * H + V + h] += weight * p;
    }
    for (int i = 0; i < V; i++)
        s->at[V * H + i] += weight * (double)v[i];
}

static statistics of_data(void)
{
    statistics s = { 0 };

    for (int i = 0; i < 3; i++)
        add(&s, patterns[i], 1.0 / 3);
    return s;
}

/* The distribution of chains that start at the data, after one step. */
static statistics after_one_step(void)
{
    statistics s = { 0 };

    for (int k = 0; k < 3 * (1 << (H + V)); k++) {
        const float *start = patterns[k % 3];
        float h[H], v[V];
        double p = 1.0 / 3;

        bits(k / 3 % (1 << H), H, h);
        bits(k / 3 >> H, V, v);
        for (int i = 0; i < H; i++)
            p *= h[i] > 0 ? chance_hidden(start, i) : 1 - chance_hidden(start, i);
        for (int i = 0; i < V; i++)
            p *= v[i] > 0 ? chance_visible(h, i) : 1 - chance_visible(h, i);
        add(&s, v, p);
    }
    return s;
}

/* The model's distribution: exp(-free energy), normalized over all values. */
static statistics of_machine(void)
{
    statistics s = { 0 };
    double all = 0;

    for (int state = 0; state < 1 << V; state++) {
        float v[V];
        double p = 1;

        bits(state, V, v);
        for (int i = 0; i < V; i++)
            p *= exp((double)v[i] * (double)visible[i]);
        for (int h = 0; h < H; h++)
            p /= 1 - chance_hidden(v, h); /* 1 + exp(x) */
        add(&s, v, p);
        all += p;
    }
    for (int i = 0; i < NUMBERS; i++)
        s.at[i] /= all;
    return s;
}

/* ---- steps of training ---- */

static mf_dataset *data(void)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 3 * SAMPLES, V }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ 3 * SAMPLES }, 1, &label));
    memset(mf_tensor_data(label), 0, 3 * SAMPLES * sizeof(int32_t));
    for (int i = 0; i < 3 * SAMPLES; i++)
        memcpy((float *)mf_tensor_data(x) + i * V, patterns[i % 3], sizeof patterns[0]);
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static const struct {
    const char *name;
    const float *value;
    int n, rank;
    int64_t dims[2];
} weights[] = {
    { "rbm/kernel", kernel, V *H, 2, { V, H } },
    { "rbm/visible_bias", visible, V, 1, { V } },
    { "rbm/hidden_bias", hidden, H, 1, { H } },
};

static void set_weights(mf_trainer *t)
{
    for (int i = 0; i < 3; i++) {
        mf_tensor *w;

        T_OK(mf_tensor_new(MF_DTYPE_F32, weights[i].dims, weights[i].rank, &w));
        memcpy(mf_tensor_data(w), weights[i].value, (size_t)weights[i].n * sizeof(float));
        T_OK(mf_trainer_set(t, weights[i].name, w));
        mf_tensor_free(w);
    }
}

/* With learning rate 1, a step has moved the weights by the gradient. */
static void add_moves(const mf_trainer *t, double weight, statistics *out)
{
    int at = 0;

    for (int i = 0; i < 3; i++) {
        mf_tensor *w;

        T_OK(mf_trainer_get(t, weights[i].name, &w));
        for (int k = 0; k < weights[i].n; k++)
            out->at[at++] += weight * ((double)weights[i].value[k] -
                                       (double)((const float *)mf_tensor_data(w))[k]);
        mf_tensor_free(w);
    }
}

/* The mean gradient of many steps from the same weights, after some warm-up steps. */
static statistics gradient(const char *settings, int warm_up)
{
    mf_dataset *set = data();
    statistics g = { 0 };
    mf_trainer *t;
    mf_model *m;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ V }, 1);
    mf_model_output(m, mf_layer(m, "RBM", MF_IN(x), "units=%d name=rbm %s", H, settings));
    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "sgd learning_rate=1.0",
                                                 .loss = "layers",
                                                 .metrics = "reconstruction_error",
                                                 .shards = 4,
                                                 .threads = 2,
                                                 .seed = 7 },
                          &t));
    for (int i = 0; i < warm_up + STEPS; i++) {
        set_weights(t);
        T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = i + 1, .batch = SAMPLES }));
        if (i >= warm_up)
            add_moves(t, 1.0 / STEPS, &g);
    }
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
    return g;
}

/* The largest difference from the gradient of chains with the distribution `model`. */
static double differs(const statistics *gradient, const statistics *model)
{
    const statistics positive = of_data();
    double most = 0;

    for (int i = 0; i < NUMBERS; i++)
        most = fmax(most, fabs(gradient->at[i] - (model->at[i] - positive.at[i])));
    return most;
}

/* 200,000 draws, each between 0 and 1, of which patterns are drawn too: the standard error is
 * 0.0012 at most. */
static const double CHANCE = 0.006;

MF_TEST_TIMEOUT(rbm_one_step_of_contrastive_divergence_matches_enumeration, 120)
{
    const statistics one = after_one_step(), exact = of_machine(), got = gradient("k=1", 0);
    const double off = differs(&got, &one), likelihood = differs(&got, &exact);

    if (off > CHANCE)
        T_FAIL("the gradient differs by %g from what enumeration says", off);
    /* It differs from the gradient of the likelihood, so the check distinguishes both. */
    if (likelihood < 10 * CHANCE)
        T_FAIL("the likelihood's gradient is only %g away", likelihood);
}

MF_TEST_TIMEOUT(rbm_many_steps_give_the_gradient_of_the_likelihood, 120)
{
    const statistics exact = of_machine(), got = gradient("k=40", 0);
    const double off = differs(&got, &exact);

    if (off > CHANCE)
        T_FAIL("the gradient differs by %g from the likelihood's", off);
}

MF_TEST_TIMEOUT(rbm_persistent_chains_give_the_gradient_of_the_likelihood, 120)
{
    const statistics exact = of_machine(), got = gradient("k=2 chains=20000", 20);
    const double off = differs(&got, &exact);

    if (off > 3 * CHANCE) /* states of neighbouring steps are correlated */
        T_FAIL("the gradient differs by %g from the likelihood's", off);
}
