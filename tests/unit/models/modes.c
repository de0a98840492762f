/* SPDX-License-Identifier: Apache-2.0 */
/* modes.c - layers that differ between training and inference: batch normalisation and dropout. */
#include "mf_test.h"
#include "models/layer.h"
#include "unit/models/model_run.h"

#include <string.h>

/* Keras lets the moving variance follow the biased one: of 0..7 it is 5.25. */
static void check_moving(const int64_t *dims, int rank, float scale)
{
    mf_model *m;
    mf_tensor *in, *out;

    T_OK(mf_model_new(&m));
    (void)mf_layer(m, "BatchNormalization",
                   MF_IN(mf_model_input(m, "x", MF_DTYPE_F32, dims + 1, rank - 1)), "%s", "");
    T_OK(mf_model_status(m));
    T_EQ(m->n_moving, 2);
    T_STREQ(m->moving[0].weight->name, "batch_normalization/moving_mean");
    T_NEAR(m->moving[0].momentum, 0.99, 1e-6);
    T_TRUE(!m->moving[1].weight->trained);
    mf_session *s = t_model_start(m, 1);
    in = t_floats(dims, rank, NULL, scale);
    out = t_model_fetch(s, m, m->moving[0].batch, &in);
    T_NEAR(t_at(out, 0), 3.5 * (double)scale, 1e-5);
    mf_tensor_free(out);
    out = t_model_fetch(s, m, m->moving[1].batch, &in);
    T_NEAR(t_at(out, 0), 5.25 * (double)scale * (double)scale, 1e-5);
    mf_tensor_free(out);
    mf_tensor_free(in);
    mf_session_free(s);
    mf_model_free(m);
}

MF_TEST(models_modes_moving_statistics_are_the_mean_and_the_biased_variance)
{
    check_moving(T_DIMS(8, 1), 1.0f);
    check_moving(T_DIMS(2, 4, 1), 0.5f);
    check_moving(T_DIMS(2, 2, 2, 1), 1.0f);
}

typedef struct dropped {
    mf_model *m;
    mf_session *s;
    mf_output still, one, four; /* inference; training in one shard and in four */
    mf_tensor *in;
} dropped;

static dropped start_dropout(const char *kind, double rate, const int64_t *dims, int rank)
{
    dropped d;
    float *ones;

    T_OK(mf_model_new(&d.m));
    d.still = mf_layer(d.m, kind, MF_IN(mf_model_input(d.m, "x", MF_DTYPE_F32, dims + 1, rank - 1)),
                       "rate=%g", rate);
    T_OK(mf_model_status(d.m));
    d.one = t_model_training(d.m, d.still, 1);
    d.four = t_model_training(d.m, d.still, 4);
    d.s = t_model_start(d.m, 1);
    d.in = t_floats(dims, rank, NULL, 0.0f);
    ones = mf_tensor_data(d.in);
    for (int64_t i = 0; i < mf_tensor_count(d.in); i++)
        ones[i] = 1.0f;
    return d;
}

static void end_dropout(dropped *d)
{
    mf_tensor_free(d->in);
    mf_session_free(d->s);
    mf_model_free(d->m);
}

MF_TEST(models_modes_dropout_keeps_the_rate_and_the_mean)
{
    dropped d = start_dropout("Dropout", 0.25, T_DIMS(40, 500));
    mf_tensor *out = t_model_fetch(d.s, d.m, d.one, &d.in);
    int64_t kept = 0;

    for (int64_t i = 0; i < 20000; i++) {
        const double v = (double)t_at(out, i);

        T_TRUE(v == 0.0 || (v > 1.33333 && v < 1.33334));
        kept += v > 0.0;
    }
    T_NEAR((double)kept / 20000.0, 0.75, 0.01);
    mf_tensor_free(out);
    out = t_model_fetch(d.s, d.m, d.still, &d.in);
    T_TRUE(memcmp(mf_tensor_data(out), mf_tensor_data(d.in), mf_tensor_bytes(out)) == 0);
    mf_tensor_free(out);
    end_dropout(&d);
}

MF_TEST(models_modes_dropout_does_not_depend_on_the_shards)
{
    dropped d = start_dropout("Dropout", 0.5, T_DIMS(13, 30));
    mf_tensor *one = t_model_fetch(d.s, d.m, d.one, &d.in);
    mf_tensor *four = t_model_fetch(d.s, d.m, d.four, &d.in);

    T_TRUE(memcmp(mf_tensor_data(one), mf_tensor_data(four), mf_tensor_bytes(one)) == 0);
    int64_t differ = 0;
    for (int64_t i = 0; i < 30; i++)
        differ += t_at(one, i) != t_at(one, 30 + i);
    T_TRUE(differ > 0); /* samples drop out differently */
    mf_tensor_free(one);
    mf_tensor_free(four);
    end_dropout(&d);
}

MF_TEST(models_modes_spatial_dropout_drops_whole_channels)
{
    dropped d = start_dropout("SpatialDropout2D", 0.5, T_DIMS(6, 3, 3, 10));
    mf_tensor *out = t_model_fetch(d.s, d.m, d.one, &d.in);
    int64_t kept = 0;

    for (int64_t n = 0; n < 6; n++) {
        for (int64_t c = 0; c < 10; c++) {
            kept += t_at(out, n * 90 + c) > 0.0f;
            for (int64_t p = 1; p < 9; p++)
                T_EQ_F(t_at(out, n * 90 + p * 10 + c), t_at(out, n * 90 + c));
        }
    }
    T_TRUE(kept > 10 && kept < 50);
    mf_tensor_free(out);
    end_dropout(&d);
}
