/* SPDX-License-Identifier: Apache-2.0 */
/* layer_experts.c - a mixture of experts is compared with plain loops over positions, its gradients
 * with finite differences. */
#include "mf_test.h"
#include "models/model.h"
#include "unit/models/model_run.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 3, PLACES = 7, WIDTH = 5, EXPERTS = 4, UNITS = 6, MOST = 16 };

typedef struct moe {
    mf_model *model;
    mf_session *session;
    mf_output y, loss; /* loss: the layer's, of each sample */
    mf_output all, gradients[3]; /* the sum of y * y and of the loss */
    mf_node *set[3]; /* the weights to "new" */
    mf_tensor *x, *gate, *first, *second; /* x and the weights */
    int top, capacity;
} moe;

static mf_output sum(mf_graph *g, mf_output x, int rank)
{
    return mf_apply(g, "Sum", MF_IN(x, mf_ints(g, (int64_t[]){ 0, 1, 2 }, rank)));
}

static void add_gradients(moe *m)
{
    mf_graph *g = mf_model_graph(m->model);
    const mf_output value = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='new'");
    mf_output weights[3];

    m->all = mf_apply(g, "AddV2",
                      MF_IN(sum(g, mf_apply(g, "Square", MF_IN(m->y)), 3), sum(g, m->loss, 1)));
    for (int i = 0; i < 3; i++) {
        weights[i] = m->model->weights[i]->value;
        m->set[i] =
            mf_apply(g, "AssignVariableOp", MF_IN(m->model->weights[i]->handle, value)).node;
    }
    T_OK(mf_gradients(g, &m->all, 1, weights, 3, NULL, m->gradients));
    T_OK(mf_model_status(m->model));
}

static mf_tensor *weight(const moe *m, int i)
{
    return t_model_fetch(m->session, m->model, m->model->weights[i]->value, &m->x);
}

static moe start(const char *settings, int top, int capacity)
{
    moe m = { .top = top, .capacity = capacity };
    uint64_t seed = 5;

    T_OK(mf_model_new(&m.model));
    const mf_output in =
        mf_model_input(m.model, "x", MF_DTYPE_F32, (int64_t[]){ PLACES, WIDTH }, 2);
    m.y = mf_layer(m.model, "MixtureOfExperts", MF_IN(in), "experts=%d units=%d %s", EXPERTS, UNITS,
                   settings);
    T_OK(mf_model_status(m.model));
    T_EQ(m.model->n_losses, 1);
    m.loss = m.model->losses[0];
    add_gradients(&m);
    m.session = t_model_start(m.model, 3);
    m.x = t_floats(T_DIMS(SAMPLES, PLACES, WIDTH), NULL, 1);
    for (int64_t i = 0; i < mf_tensor_count(m.x); i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        ((float *)mf_tensor_data(m.x))[i] = (float)(seed >> 40) / (float)(1 << 22) - 2.0f;
    }
    m.gate = weight(&m, 0);
    m.first = weight(&m, 1);
    m.second = weight(&m, 2);
    return m;
}

static void end(moe *m)
{
    mf_tensor_free(m->x);
    mf_tensor_free(m->gate);
    mf_tensor_free(m->first);
    mf_tensor_free(m->second);
    mf_session_free(m->session);
    mf_model_free(m->model);
}

/* ---- reference implementation ---- */

static int largest(const double *p)
{
    int best = 0;

    for (int e = 1; e < EXPERTS; e++)
        best = p[e] > p[best] ? e : best;
    return best;
}

static void gates_of(const moe *m, int64_t at, double *p)
{
    double sum = 0;

    for (int e = 0; e < EXPERTS; e++) {
        double score = 0;

        for (int w = 0; w < WIDTH; w++)
            score += (double)t_at(m->x, at * WIDTH + w) * (double)t_at(m->gate, w * EXPERTS + e);
        p[e] = exp(score);
        sum += p[e];
    }
    for (int e = 0; e < EXPERTS; e++)
        p[e] /= sum;
}

/* y += gate * expert(x) at a position. */
static void add_expert(const moe *m, int64_t at, int e, double gate, double *y)
{
    for (int h = 0; h < UNITS; h++) {
        double sum = 0;

        for (int w = 0; w < WIDTH; w++)
            sum += (double)t_at(m->x, at * WIDTH + w) *
                   (double)t_at(m->first, (e * WIDTH + w) * UNITS + h);
        for (int w = 0; w < WIDTH && sum > 0; w++)
            y[w] += gate * sum * (double)t_at(m->second, (e * UNITS + h) * WIDTH + w);
    }
}

/* y of a sample. Returns how many choices exceeded the capacity. */
static int sample(const moe *m, int n, double y[PLACES][WIDTH], double *balance)
{
    double p[PLACES][EXPERTS], chosen[EXPERTS] = { 0 }, liked[EXPERTS] = { 0 };
    int taken[EXPERTS] = { 0 }, choice[2][PLACES], lost = 0;

    memset(y, 0, sizeof(double[PLACES][WIDTH]));
    for (int t = 0; t < PLACES; t++) {
        double rest[EXPERTS];

        gates_of(m, n * PLACES + t, p[t]);
        choice[0][t] = largest(p[t]);
        memcpy(rest, p[t], sizeof rest);
        rest[choice[0][t]] = 0;
        choice[1][t] = largest(rest);
        chosen[choice[0][t]] += 1.0 / PLACES;
        for (int e = 0; e < EXPERTS; e++)
            liked[e] += p[t][e] / PLACES;
    }
    for (int k = 0; k < m->top; k++) {
        for (int t = 0; t < PLACES; t++) {
            const int e = choice[k][t];
            const double both = m->top == 1 ? 1 : p[t][choice[0][t]] + p[t][choice[1][t]];

            if (taken[e] < m->capacity)
                add_expert(m, n * PLACES + t, e, p[t][e] / both, y[t]);
            lost += taken[e] >= m->capacity;
            taken[e] += taken[e] < m->capacity;
        }
    }
    *balance = 0;
    for (int e = 0; e < EXPERTS; e++)
        *balance += chosen[e] * liked[e] * EXPERTS;
    return lost;
}

static void compare(const char *settings, int top, int capacity, double balance, bool loses)
{
    moe m = start(settings, top, capacity);
    mf_tensor *y = t_model_fetch(m.session, m.model, m.y, &m.x);
    mf_tensor *loss = t_model_fetch(m.session, m.model, m.loss, &m.x);
    int lost = 0;

    for (int n = 0; n < SAMPLES; n++) {
        double want[PLACES][WIDTH], all;

        lost += sample(&m, n, want, &all);
        T_NEAR(t_at(loss, n), all * balance, 1e-6);
        for (int i = 0; i < PLACES * WIDTH; i++)
            T_NEAR(t_at(y, n * PLACES * WIDTH + i), want[i / WIDTH][i % WIDTH], 1e-5);
    }
    T_EQ(lost > 0, loses);
    mf_tensor_free(y);
    mf_tensor_free(loss);
    end(&m);
}

/* Capacities: ceil(factor * top * 7 places / 4 experts), at most 7. */
MF_TEST(moe_routes_positions_to_the_experts_that_their_gates_choose)
{
    compare("top=1 capacity_factor=9", 1, 7, 0.01, false);
    compare("top=1 capacity_factor=1 balance=0.5", 1, 2, 0.5, true);
    compare("top=2 capacity_factor=9", 2, 7, 0.01, false);
    compare("top=2", 2, 5, 0.01, true);
    compare("top=2 capacity_factor=0.5", 2, 2, 0.01, true);
}

/* ---- gradients ---- */

/* The objective where the weight is `value`. */
static double with(const moe *m, int i, const mf_tensor *value)
{
    const char *feed = "new", *target = mf_node_name(m->set[i]);
    mf_tensor *t;
    double all;

    T_OK(mf_session_run(m->session, NULL, &feed, &value, 1, NULL, 0, &target, 1, NULL));
    t = t_model_fetch(m->session, m->model, m->all, &m->x);
    all = (double)t_at(t, 0);
    mf_tensor_free(t);
    return all;
}

/* Checks some elements. Returns how many affect the objective. */
static int check_weight(const moe *m, int i)
{
    mf_tensor *w = weight(m, i), *d = t_model_fetch(m->session, m->model, m->gradients[i], &m->x);
    float *values = mf_tensor_data(w);
    const int64_t n = mf_tensor_count(w);
    int matter = 0;

    for (int64_t at = 0; at < n; at += 1 + n / MOST) {
        const float was = values[at], step = 2e-3f; /* so small that no choice changes */
        double slope;

        values[at] = was + step;
        slope = with(m, i, w);
        values[at] = was - step;
        slope = (slope - with(m, i, w)) / (2 * (double)step);
        values[at] = was;
        T_NEAR(t_at(d, at), slope, 2e-2 * (1 + fabs(slope)));
        matter += fabs(slope) > 0.1;
    }
    (void)with(m, i, w);
    mf_tensor_free(w);
    mf_tensor_free(d);
    return matter;
}

MF_TEST(moe_gradients_match_finite_differences)
{
    for (int top = 1; top <= 2; top++) {
        moe m =
            start(top == 1 ? "top=1 balance=2 activation=tanh" : "top=2 balance=2 activation=tanh",
                  top, 0);

        for (int i = 0; i < 3; i++)
            T_TRUE(check_weight(&m, i) > 5);
        end(&m);
    }
}

MF_TEST(moe_rejects_invalid_settings)
{
    static const char *const bad[][2] = {
        { "experts=4 units=3 top=3", "a position is routed to 1 or 2 of 4 experts" },
        { "experts=1 units=3", "a position is routed to 1 or 2 of 1 experts" },
        { "experts=4 units=3 capacity_factor=0", "capacity_factor must be positive" },
    };

    for (int i = 0; i < MF_COUNT(bad); i++) {
        mf_model *m;
        mf_output x;

        T_OK(mf_model_new(&m));
        x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ PLACES, WIDTH }, 2);
        (void)mf_layer(m, "MixtureOfExperts", MF_IN(x), "%s", bad[i][0]);
        T_FAILS(MF_INVALID_ARGUMENT, bad[i][1], mf_model_status(m));
        mf_model_free(m);
    }
}
