/* SPDX-License-Identifier: Apache-2.0 */
/* int8_product.c - int8 products, element by element: exact sums, padding with the zero point,
 * rounding. */
#include "mf_test.h"
#include "tensor/int8.h"
#include "tensor/tensor.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <string.h>

enum { IMAGES = 3, SIZE = 7, OUT = 6, TAPS = 3 };
#define LOW (-0.7f)
#define HIGH 2.3f
#define OUT_HIGH 9.0f

static uint32_t noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

typedef struct bytes {
    mf_tensor *x, *kernel, *scale, *sums, *bias;
    int64_t in; /* channels */
} bytes;

static mf_tensor *fresh(mf_dtype dtype, const int64_t *dims, int rank)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(dtype, dims, rank, &t));
    return t;
}

static bytes make(int64_t in)
{
    bytes b = { fresh(MF_DTYPE_U8, (int64_t[]){ IMAGES, SIZE, SIZE, in }, 4),
                fresh(MF_DTYPE_I8, (int64_t[]){ TAPS, TAPS, in, OUT }, 4),
                fresh(MF_DTYPE_F32, (int64_t[]){ OUT }, 1),
                fresh(MF_DTYPE_I32, (int64_t[]){ OUT }, 1),
                fresh(MF_DTYPE_F32, (int64_t[]){ OUT }, 1),
                in };
    uint32_t seed = 1;

    for (int64_t i = 0; i < b.x->count; i++) /* the extremes often: products saturate 16 bits */
        ((uint8_t *)b.x->data)[i] = noise(&seed) % 3 ? 255 : (uint8_t)noise(&seed);
    for (int64_t i = 0; i < b.kernel->count; i++)
        ((int8_t *)b.kernel->data)[i] =
            (int8_t)(noise(&seed) % 3 ? 127 : (int)(noise(&seed) % 255) - 127);
    memset(b.sums->data, 0, OUT * sizeof(int32_t));
    for (int64_t i = 0; i < b.kernel->count; i++)
        ((int32_t *)b.sums->data)[i % OUT] += ((int8_t *)b.kernel->data)[i];
    for (int c = 0; c < OUT; c++) {
        ((float *)b.scale->data)[c] = 0.001f * (float)(c + 1);
        ((float *)b.bias->data)[c] = (float)c - 2.5f;
    }
    return b;
}

static void unmake(bytes *b)
{
    mf_tensor_free(b->x);
    mf_tensor_free(b->kernel);
    mf_tensor_free(b->scale);
    mf_tensor_free(b->sums);
    mf_tensor_free(b->bias);
}

/* What bytes stand for, multiplied and added up. */
static double wanted(const bytes *b, int64_t n, int64_t y, int64_t x, int64_t c, int stride)
{
    const mf_uint8_range r = mf_uint8_range_of(LOW, HIGH);
    const int pad = 1; /* SAME, of 7, by one or two */
    double sum = 0;

    for (int64_t ky = 0; ky < TAPS; ky++) {
        for (int64_t kx = 0; kx < TAPS; kx++) {
            const int64_t iy = y * stride - pad + ky, ix = x * stride - pad + kx;

            if (iy < 0 || iy >= SIZE || ix < 0 || ix >= SIZE)
                continue;
            for (int64_t k = 0; k < b->in; k++)
                sum +=
                    (double)(((uint8_t *)b->x->data)[((n * SIZE + iy) * SIZE + ix) * b->in + k] -
                             r.zero) *
                    (double)((int8_t *)b->kernel->data)[((ky * TAPS + kx) * b->in + k) * OUT + c];
        }
    }
    return sum * (double)r.step * (double)((float *)b->scale->data)[c] +
           (double)((float *)b->bias->data)[c];
}

static mf_tensor *run(const bytes *b, const char *attributes)
{
    mf_tensor *out = NULL;
    const char *fetch = "product:0";
    mf_session *session;
    mf_output low, high, y;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    low = mf_scalar(g, MF_DTYPE_F32, (double)LOW);
    high = mf_scalar(g, MF_DTYPE_F32, (double)HIGH);
    y = mf_applyf(g, "_Int8Product",
                  MF_IN(mf_constant(g, b->x, "x"), low, high, mf_constant(g, b->kernel, "k"),
                        mf_constant(g, b->scale, "s"), mf_constant(g, b->sums, "sums"),
                        mf_constant(g, b->bias, "b"), mf_scalar(g, MF_DTYPE_F32, 0.0),
                        mf_scalar(g, MF_DTYPE_F32, (double)OUT_HIGH)),
                  "%s padding='SAME' name='product'", attributes);
    T_TRUE(y.node != NULL);
    T_OK(mf_session_new(g, &(mf_session_options){ .threads = 2, .disable = "fold" }, &session));
    T_OK(mf_session_run(session, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &out));
    mf_session_free(session);
    mf_graph_free(g);
    return out;
}

MF_TEST(int8_products_match_the_dequantized_values)
{
    for (int way = 0; way < 6; way++) { /* channels 1 (copied as words), 3 and 5 */
        const int stride = 1 + way % 2;
        bytes b = make(1 + way / 2 * 2);
        const int64_t size = (SIZE + stride - 1) / stride;
        mf_tensor *y = run(&b, stride == 1 ? "Tout=float" : "Tout=float strides=[1,2,2,1]");

        T_EQ(y->count, IMAGES * size * size * OUT);
        for (int64_t i = 0; i < y->count; i++) {
            const int64_t c = i % OUT, x = i / OUT % size, row = i / OUT / size % size;
            const double want = wanted(&b, i / OUT / size / size, row, x, c, stride);

            T_NEAR(((float *)y->data)[i], want, 1e-5 * (1 + fabs(want)));
        }
        mf_tensor_free(y);
        unmake(&b);
    }
}

MF_TEST(int8_products_round_to_bytes_of_the_next_range)
{
    bytes b = make(5);
    mf_tensor *y = run(&b, "Tout=uint8 relu=true"), *f = run(&b, "Tout=float relu=true");
    const mf_uint8_range r = mf_uint8_range_of(0, OUT_HIGH);
    int inside = 0;

    for (int64_t i = 0; i < y->count; i++) {
        const double v = (double)((float *)f->data)[i];
        const double want = fmin(255, v / (double)r.step);

        T_TRUE(v >= 0);
        T_NEAR(((uint8_t *)y->data)[i], want, 0.5001);
        inside += want > 0 && want < 255;
    }
    T_TRUE(inside > 20);
    mf_tensor_free(y);
    mf_tensor_free(f);
    unmake(&b);
}

MF_TEST(int8_rounded_weights_are_kept_exactly)
{
    uint32_t seed = 3;

    for (int i = 0; i < 100000; i++) {
        const float most = ldexpf((float)noise(&seed) + 1, (int)(noise(&seed) % 60) - 50);
        const float step = mf_int8_step(most), w = (float)mf_int8_of(most, 1 / step) * step;

        T_EQ(mf_int8_of(most, 1 / step), 127);
        T_EQ_F(mf_int8_step(w), step);
    }
}

/* Bytes that were pooled are what the same numbers as floats are. */
MF_TEST(int8_pooling_takes_the_maximum)
{
    static const char *const fetches[] = { "bytes:0", "floats:0" };
    const int64_t shapes[][4] = {
        { 2, 6, 8, 5 }, { 1, 4, 40, 64 }, { 1, 2, 4, 1024 }, { 3, 7, 5, 2 }
    };

    for (int s = 0; s < MF_COUNT(shapes); s++) {
        mf_tensor *x = fresh(MF_DTYPE_U8, shapes[s], 4), *results[2] = { 0 };
        uint32_t seed = 11;
        mf_session *session;
        mf_output in;
        mf_graph *g;

        for (int64_t i = 0; i < x->count; i++)
            ((uint8_t *)x->data)[i] = (uint8_t)noise(&seed);
        T_OK(mf_graph_new(&g));
        in = mf_constant(g, x, "x");
        (void)mf_applyf(g, "MaxPool", MF_IN(in),
                        "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' name='bytes'");
        (void)mf_applyf(g, "MaxPool", MF_IN(mf_applyf(g, "Cast", MF_IN(in), "DstT=float")),
                        "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' name='floats'");
        T_OK(mf_session_new(g, &(mf_session_options){ .disable = "fold" }, &session));
        T_OK(mf_session_run(session, NULL, NULL, NULL, 0, fetches, 2, NULL, 0, results));
        T_EQ(results[0]->count, results[1]->count);
        for (int64_t i = 0; i < results[0]->count; i++)
            T_EQ_F(((uint8_t *)results[0]->data)[i], ((float *)results[1]->data)[i]);
        mf_session_free(session);
        mf_graph_free(g);
        mf_tensor_free(results[0]);
        mf_tensor_free(results[1]);
        mf_tensor_free(x);
    }
}
