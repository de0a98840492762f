/* SPDX-License-Identifier: Apache-2.0 */
/* source_ctr.c - "synthetic-ctr": click prediction with eight categorical fields and four numbers.
 * The odds come from a hidden logistic model with a weight for each value, for each number, and for
 * pairs of values of three pairs of fields, which a linear model cannot represent. */
#include "data/generated.h"

#include <math.h>

enum { FIELDS = 8, DENSE = 4, CROSSES = 3, RULE = 0x637472 };

static const int cardinality[FIELDS] = { 2, 7, 24, 50, 100, 500, 2000, 10000 };
static const int crosses[CROSSES][2] = { { 0, 2 }, { 1, 3 }, { 2, 4 } };

static double source_ctr_weight(uint64_t which, double scale)
{
    mf_draws d = mf_draws_of(RULE, which);

    return scale * mf_draws_normal(&d);
}

static double logit(const int *ids, const float *dense)
{
    static const double slopes[DENSE] = { 0.8, -0.5, 0.3, 0.0 };
    double sum = -1.0;
    int offset = 0;

    for (int f = 0; f < FIELDS; f++) {
        sum += source_ctr_weight((uint64_t)offset + (uint64_t)ids[f], 0.5);
        offset += cardinality[f];
    }
    for (int i = 0; i < DENSE; i++)
        sum += slopes[i] * (double)dense[i];
    for (int c = 0; c < CROSSES; c++) {
        const int a = ids[crosses[c][0]], b = ids[crosses[c][1]];

        sum += source_ctr_weight((uint64_t)(c + 1) << 40 | (uint64_t)a << 20 | (uint64_t)b, 1.0);
    }
    return sum;
}

static void make_ctr(const mf_generated *g, mf_draws *d, void *const *columns)
{
    int32_t out[FIELDS], label, offset = 0;
    float dense[DENSE];
    int ids[FIELDS];

    (void)g;
    for (int f = 0; f < FIELDS; f++) {
        const double u = mf_draws_unit(d);

        ids[f] = (int)(u * u * u * cardinality[f]); /* a skewed distribution of values */
        out[f] = offset + ids[f];
        offset += cardinality[f];
    }
    for (int i = 0; i < DENSE; i++)
        dense[i] = (float)mf_draws_normal(d);
    label = mf_draws_unit(d) < 1 / (1 + exp(-logit(ids, dense)));
    mf_generated_put(columns[0], out, sizeof out);
    mf_generated_put(columns[1], dense, sizeof dense);
    mf_generated_put(columns[2], &label, sizeof label);
}

static mf_status ctr_open(const char *data, const mf_options *o, mf_dataset **out)
{
    static const char *const names[] = { "passed over", "clicked" };
    mf_generated *g;
    mf_status st;

    (void)data;
    MF_TRY(mf_generated_new(o, 200000, 3, make_ctr, &g));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 0, "ids", MF_DTYPE_I32, &MF_SHAPE(FIELDS)));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 1, "dense", MF_DTYPE_F32, &MF_SHAPE(DENSE)));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 2, "label", MF_DTYPE_I32, &MF_SCALAR));
    MF_TRY_TO(fail, mf_dataset_set_classes(&g->base, names, 2));
    *out = &g->base;
    return MF_OK;
fail:
    mf_dataset_unref(&g->base);
    return st;
}

const mf_source mf_source_ctr = {
    .name = "synthetic-ctr",
    .summary = "clicks of a hidden logistic model: 8 categorical fields, 4 numbers",
    .settings = "{" MF_GENERATED_SETTINGS "}",
    .open = ctr_open,
    .is_name = true,
};
