/* SPDX-License-Identifier: Apache-2.0 */
/* codec_power_sgd.c - a matrix M as the product of two narrow ones, one step of the power method
 * for each step of training (Vogels et al., "PowerSGD", NeurIPS 2019). The approximation error is
 * stored and added to the next step's gradient.
 *
 *     M = gradient + error     round 0:  P = sum of M Q over all grains; its columns are made
 *     orthonormal
 *     round 1:  Q = sum of M' P;  error = M - P (M' P)'        the gradient is P Q'
 *
 * The next step begins with this Q. Both rounds are sums, so grains are added in the tree and none
 * of them is sent by itself. */
#include "base/rng.h"
#include "dist/codec/codec.h"

#include <math.h>
#include <string.h>

enum { RANK_MAX = 64 };

static int64_t codec_power_sgd_rank_of(const mf_codec *c)
{
    return mf_options_int(&c->settings, "rank");
}

static mf_status codec_power_sgd_check(const mf_options *o)
{
    if (mf_options_int(o, "rank") > RANK_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "power_sgd: rank is %lld; it is at most %d",
                       (long long)mf_options_int(o, "rank"), RANK_MAX);
    return MF_OK;
}

static bool codec_power_sgd_suits(const mf_codec *c, const mf_codec_item *item)
{
    return codec_power_sgd_rank_of(c) * (item->rows + item->columns) < item->count;
}

static int64_t codec_power_sgd_memory_size(const mf_codec *c, const mf_codec_item *item)
{
    (void)c;
    return item->count;
}

/* Q, then P: column after column. */
static int64_t shared_size(const mf_codec *c, const mf_codec_item *item)
{
    return codec_power_sgd_rank_of(c) * (item->rows + item->columns);
}

static int64_t codec_power_sgd_length(const mf_codec *c, const mf_codec_item *item, int round)
{
    return codec_power_sgd_rank_of(c) * (round == 0 ? item->rows : item->columns);
}

/* Q is random at first, the same on all workers. */
static void codec_power_sgd_start(const mf_codec *c, const mf_codec_item *item, float *shared)
{
    const int64_t n = codec_power_sgd_rank_of(c) * item->columns;
    mf_philox gen = mf_philox_init(item->seed, 0);
    uint32_t drawn[4];

    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            mf_philox_next(&gen, drawn);
        shared[i] = (float)(drawn[i % 4] >> 8) * 0x1p-23f - 1.0f;
    }
}

/* ---- a grain's contribution ---- */

enum {
    LANES = 8
}; /* sums side by side, in an order of their own: it does not depend on the machine */

static float codec_power_sgd_dot(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = { 0 }, rest = 0.0f;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];
    }
    for (; i < n; i++)
        rest += x[i] * y[i];
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7])) + rest;
}

static void codec_power_sgd_add_times(float *to, const float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += x[i] * factor;
}

/* out = M Q. */
static void times_q(const mf_codec_item *item, int64_t rank, const float *m, const float *q,
                    float *out)
{
    for (int64_t i = 0; i < item->rows; i++) {
        for (int64_t r = 0; r < rank; r++)
            out[r * item->rows + i] =
                codec_power_sgd_dot(m + i * item->columns, q + r * item->columns, item->columns);
    }
}

/* out = M' P. */
static void times_p(const mf_codec_item *item, int64_t rank, const float *m, const float *p,
                    float *out)
{
    memset(out, 0, (size_t)(item->columns * rank) * sizeof *out);
    for (int64_t i = 0; i < item->rows; i++) {
        for (int64_t r = 0; r < rank; r++)
            codec_power_sgd_add_times(out + r * item->columns, m + i * item->columns,
                                      p[r * item->rows + i], item->columns);
    }
}

/* m += sign P Q'. */
static void add_product(const mf_codec_item *item, int64_t rank, const float *p, const float *q,
                        float sign, float *m)
{
    for (int64_t i = 0; i < item->rows; i++) {
        for (int64_t r = 0; r < rank; r++)
            codec_power_sgd_add_times(m + i * item->columns, q + r * item->columns,
                                      sign * p[r * item->rows + i], item->columns);
    }
}

static bool codec_power_sgd_is_finite(const float *x, int64_t n)
{
    bool finite = true;

    for (int64_t i = 0; i < n; i++)
        finite &= fabsf(x[i]) <= 3.40282347e+38f;
    return finite;
}

static void codec_power_sgd_give(const mf_codec *c, const mf_codec_item *item, int round,
                                 float *values, float *kept, const float *shared, float *out)
{
    const int64_t rank = codec_power_sgd_rank_of(c);
    const float *p = shared + rank * item->columns;

    if (round == 0) {
        for (int64_t i = 0; i < item->count; i++)
            values[i] += kept[i];
        times_q(item, rank, values, shared, out);
        return;
    }
    times_p(item, rank, values, p, out);
    if (!codec_power_sgd_is_finite(p, rank * item->rows)) /* the step will not be used */
        return;
    memcpy(kept, values, (size_t)item->count * sizeof *kept);
    add_product(item, rank, p, out, -1.0f, kept);
}

/* ---- from the sums ---- */

static double exact_dot(const float *x, const float *y, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Gram-Schmidt, column by column. A column that depends on earlier ones becomes zero. */
static void orthonormalise(float *p, int64_t rows, int64_t rank)
{
    for (int64_t r = 0; r < rank; r++) {
        float *own = p + r * rows;
        const double before = exact_dot(own, own, rows);
        double size;

        for (int64_t s = 0; s < r; s++)
            codec_power_sgd_add_times(own, p + s * rows, -(float)exact_dot(p + s * rows, own, rows),
                                      rows);
        size = exact_dot(own, own, rows);
        size = size <= 1e-12 * before ? 0.0 : 1.0 / sqrt(size);
        for (int64_t i = 0; i < rows; i++)
            own[i] = (float)((double)own[i] * size);
    }
}

/* A zero column would stay zero for ever: the last nonzero value of the column is used. */
static void begin_next(float *q, const float *sum, int64_t columns, int64_t rank)
{
    for (int64_t r = 0; r < rank; r++) {
        bool any = false;

        for (int64_t j = 0; j < columns; j++)
            any |= sum[r * columns + j] != 0.0f;
        if (any)
            memcpy(q + r * columns, sum + r * columns, (size_t)columns * sizeof *q);
    }
}

static void codec_power_sgd_take(const mf_codec *c, const mf_codec_item *item, int round,
                                 const float *sum, float *shared, float *result)
{
    const int64_t rank = codec_power_sgd_rank_of(c), columns = item->columns;
    float *p = shared + rank * columns;

    if (round == 0) {
        memcpy(p, sum, (size_t)(rank * item->rows) * sizeof *p);
        orthonormalise(p, item->rows, rank);
        return;
    }
    memset(result, 0, (size_t)item->count * sizeof *result);
    add_product(item, rank, p, sum, 1.0f, result);
    if (codec_power_sgd_is_finite(p, rank * item->rows) &&
        codec_power_sgd_is_finite(sum, rank * columns))
        begin_next(shared, sum, columns, rank);
}

static const mf_codec_rounds rounds = { .n = 2,
                                        .shared = shared_size,
                                        .start = codec_power_sgd_start,
                                        .length = codec_power_sgd_length,
                                        .give = codec_power_sgd_give,
                                        .take = codec_power_sgd_take };

const mf_codec_kind mf_codec_power_sgd = {
    .name = "power_sgd",
    .settings = "{rank:int>=1=2}",
    .about = "a product of two narrow matrices; its error is added to later steps",
    .check = codec_power_sgd_check,
    .suits = codec_power_sgd_suits,
    .memory = codec_power_sgd_memory_size,
    .rounds = &rounds,
};
