/* SPDX-License-Identifier: Apache-2.0 */
/* initializers.c - distributions of initializers, and their dependence on seed and name. */
#include "mf_test.h"
#include "models/initializer.h"
#include "unit/models/model_run.h"

#include <math.h>
#include <string.h>

/* The first value of a weight of this shape and name. */
static mf_tensor *first_value(const char *text, const mf_shape *shape, const char *name,
                              int64_t seed)
{
    const char *const feeds[] = { "seed:0" }, *const fetches[] = { "first:0" };
    mf_tensor *fed, *value = NULL;
    mf_session *s;
    mf_model *m;

    T_OK(mf_model_new(&m));
    (void)mf_applyf(m->graph, "Identity", MF_IN(mf_initializer(m, text, shape, name)),
                    "name='first'");
    T_OK(mf_model_status(m));
    T_OK(mf_tensor_new(MF_DTYPE_I64, NULL, 0, &fed));
    ((int64_t *)mf_tensor_data(fed))[0] = seed;
    T_OK(mf_session_new(m->graph, NULL, &s));
    T_OK(mf_session_run(s, NULL, feeds, (const mf_tensor *const *)&fed, 1, fetches, 1, NULL, 0,
                        &value));
    mf_tensor_free(fed);
    mf_session_free(s);
    mf_model_free(m);
    return value;
}

static void statistics(const char *text, double *mean, double *variance, double *largest)
{
    mf_tensor *t = first_value(text, &MF_SHAPE(3, 3, 40, 60), "w", 5);
    const int64_t n = mf_tensor_count(t);

    *mean = *variance = *largest = 0.0;
    for (int64_t i = 0; i < n; i++)
        *mean += (double)t_at(t, i) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)t_at(t, i);

        *variance += (d - *mean) * (d - *mean) / (double)n;
        *largest = fabs(d) > *largest ? fabs(d) : *largest;
    }
    mf_tensor_free(t);
}

MF_TEST(models_initializers_have_their_mean_and_variance)
{
    static const struct {
        const char *text;
        double mean, variance, most; /* most: in standard deviations */
    } cases[] = {
        { "zeros", 0, 0, 0 },
        { "ones", 1, 0, 0 },
        { "constant value=0.5", 0.5, 0, 0 },
        { "random_uniform minval=1.0 maxval=2.0", 1.5, 1.0 / 12, 0 },
        { "uniform", 0, 0.01 / 12, 1.7321 },
        { "random_normal mean=1.0 stddev=2.0", 1, 4, 0 },
        { "truncated_normal", 0, 0.0025 * 0.7737, 2.2738 },
        { "glorot_uniform", 0, 2.0 / 900, 1.7321 },
        { "glorot_normal", 0, 2.0 / 900, 2.2738 },
        { "he_uniform", 0, 2.0 / 360, 1.7321 },
        { "he_normal", 0, 2.0 / 360, 2.2738 },
        { "lecun_uniform", 0, 1.0 / 360, 1.7321 },
        { "lecun_normal", 0, 1.0 / 360, 2.2738 },
    };

    for (int i = 0; i < MF_COUNT(cases); i++) {
        double mean, variance, most;

        statistics(cases[i].text, &mean, &variance, &most);
        T_NEAR(mean, cases[i].mean, 1e-9 + 0.02 * sqrt(cases[i].variance));
        T_NEAR(variance, cases[i].variance, 1e-9 + 0.03 * cases[i].variance);
        if (cases[i].most > 0)
            T_TRUE(most <= cases[i].most * sqrt(cases[i].variance));
    }
}

static void check_orthogonal(int64_t rows, int64_t cols)
{
    mf_tensor *t = first_value("orthogonal gain=2.0", &MF_SHAPE(rows, cols), "w", 5);
    const bool wide = rows <= cols;
    const int64_t small = wide ? rows : cols, large = wide ? cols : rows;

    for (int64_t i = 0; i < small; i++) {
        for (int64_t j = 0; j < small; j++) {
            double dot = 0.0;

            for (int64_t k = 0; k < large; k++)
                dot += (double)t_at(t, wide ? i * cols + k : k * cols + i) *
                       (double)t_at(t, wide ? j * cols + k : k * cols + j);
            T_NEAR(dot, i == j ? 4.0 : 0.0, 1e-4);
        }
    }
    mf_tensor_free(t);
}

MF_TEST(models_initializers_make_orthogonal_matrices)
{
    check_orthogonal(16, 64);
    check_orthogonal(40, 40);
    check_orthogonal(64, 7);
    check_orthogonal(1, 1);
}

MF_TEST(models_initializers_depend_only_on_seed_and_name)
{
    mf_tensor *a = first_value("he_normal", &MF_SHAPE(3, 4), "dense/kernel", 5);
    mf_tensor *b = first_value("he_normal", &MF_SHAPE(3, 4), "dense/kernel", 5);
    mf_tensor *c = first_value("he_normal", &MF_SHAPE(3, 4), "dense/kernel", 6);
    mf_tensor *d = first_value("he_normal", &MF_SHAPE(3, 4), "dense_1/kernel", 5);

    T_TRUE(memcmp(mf_tensor_data(a), mf_tensor_data(b), 48) == 0);
    T_TRUE(memcmp(mf_tensor_data(a), mf_tensor_data(c), 48) != 0);
    T_TRUE(memcmp(mf_tensor_data(a), mf_tensor_data(d), 48) != 0);
    mf_tensor_free(a);
    mf_tensor_free(b);
    mf_tensor_free(c);
    mf_tensor_free(d);
}

MF_TEST(models_initializers_identity_and_forget_bias)
{
    mf_tensor *t = first_value("identity gain=3.0", &MF_SHAPE(2, 3), "w", 1);

    T_EQ_F(t_at(t, 0), 3);
    T_EQ_F(t_at(t, 1), 0);
    T_EQ_F(t_at(t, 4), 3);
    mf_tensor_free(t);
    t = first_value("unit_forget_bias", &MF_SHAPE(8), "w", 1);
    for (int64_t i = 0; i < 8; i++)
        T_EQ_F(t_at(t, i), i == 2 || i == 3);
    mf_tensor_free(t);
}

MF_TEST(models_initializers_reject_invalid_shapes_and_names)
{
    mf_model *m;

    T_OK(mf_model_new(&m));
    (void)mf_initializer(m, "orthogonal", &MF_SHAPE(8), "b");
    T_FAILS(MF_INVALID_ARGUMENT, "weight 'b' is not a matrix", mf_model_status(m));
    mf_model_free(m);
    T_OK(mf_model_new(&m));
    (void)mf_initializer(m, "he_norma", &MF_SHAPE(8), "b");
    T_FAILS(MF_NOT_FOUND, "did you mean 'he_normal'", mf_model_status(m));
    mf_model_free(m);
}
