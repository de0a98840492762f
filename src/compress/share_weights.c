/* SPDX-License-Identifier: Apache-2.0 */
/* share_weights.c - weights that share values: k-means over the elements of a kernel. In one
 * dimension clusters are intervals of the sorted elements, so an iteration only moves their
 * borders. */
#include "compress/compress.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60, LEAST = 256 }; /* LEAST: smaller kernels do not save memory */

static int share_weights_ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

typedef struct clusters {
    float *sorted;
    double *sums; /* of the first i elements */
    int64_t count;
    float *centre;
    int64_t *end; /* by cluster: the end of its interval */
    int n;
} clusters;

static mf_status clusters_init(clusters *c, const float *x, int64_t count, int n)
{
    *c = (clusters){ .sorted = mf_calloc(count + 1, sizeof(float)),
                     .sums = mf_calloc(count + 1, sizeof(double)),
                     .centre = mf_calloc(n, sizeof(float)),
                     .end = mf_calloc(n, sizeof(int64_t)),
                     .n = n };
    if (!c->sorted || !c->sums || !c->centre || !c->end)
        return MF_NOMEM("shared weights");
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "a weight is NaN or Inf");
        if (x[i] != 0)
            c->sorted[c->count++] = x[i];
    }
    if (c->count > 1)
        qsort(c->sorted, (size_t)c->count, sizeof(float), share_weights_ascending);
    for (int64_t i = 0; i < c->count; i++)
        c->sums[i + 1] = c->sums[i] + (double)c->sorted[i];
    return MF_OK;
}

static void clusters_deinit(clusters *c)
{
    mf_free(c->sorted);
    mf_free(c->sums);
    mf_free(c->centre);
    mf_free(c->end);
}

/* Initial centres at equal distances, so that the few large weights, which matter, get some, too.
 */
static void share_weights_spread(clusters *c)
{
    const double low = (double)c->sorted[0], high = (double)c->sorted[c->count - 1];

    for (int k = 0; k < c->n; k++)
        c->centre[k] = (float)(low + (high - low) * (k + 0.5) / c->n);
}

/* Assigns each element to its nearest centre, then moves centres to the means. False: converged. */
static bool one_round(clusters *c)
{
    bool moved = false;
    int64_t at = 0;

    for (int k = 0; k < c->n; k++) {
        const int64_t from = at;
        const float border =
            k + 1 < c->n ? 0.5f * (c->centre[k] + c->centre[k + 1]) : (float)INFINITY;
        float mean;

        while (at < c->count && c->sorted[at] <= border)
            at++;
        c->end[k] = at;
        if (at == from)
            continue;
        mean = (float)((c->sums[at] - c->sums[from]) / (double)(at - from));
        moved |= mean != c->centre[k];
        c->centre[k] = mean;
    }
    return moved;
}

static float share_weights_nearest(const clusters *c, float x)
{
    int low = 0, high = c->n - 1;

    while (low < high) {
        const int mid = (low + high) / 2;

        if (x <= 0.5f * (c->centre[mid] + c->centre[mid + 1]))
            high = mid;
        else
            low = mid + 1;
    }
    return c->centre[low];
}

/* Removes clusters without elements, so that borders are between used clusters. */
static void drop_empty(clusters *c)
{
    int n = 0;

    for (int k = 0; k < c->n; k++) {
        if (c->end[k] > (k > 0 ? c->end[k - 1] : 0))
            c->centre[n++] = c->centre[k];
    }
    c->n = n;
}

mf_status mf_share_values(float *x, int64_t count, int n, double *error)
{
    clusters c;
    mf_status st = clusters_init(&c, x, count, n);
    double sum = 0;

    if (st == MF_OK && c.count > 0) {
        share_weights_spread(&c);
        for (int i = 0; i < ROUNDS && one_round(&c); i++)
            continue;
        (void)one_round(&c);
        drop_empty(&c);
    }
    for (int64_t i = 0; st == MF_OK && c.count > 0 && i < count; i++) {
        const float to = x[i] != 0 ? share_weights_nearest(&c, x[i]) : 0;

        sum += (double)(to - x[i]) * (double)(to - x[i]);
        x[i] = to;
    }
    *error = count > 0 ? sqrt(sum / (double)count) : 0;
    clusters_deinit(&c);
    return st;
}

/* ---- layers ---- */

static bool is_shared(const mf_compressed_weight *w, const char *pattern)
{
    const char *slash = strrchr(w->name, '/');
    char layer[256];

    if (w->value.dtype != MF_DTYPE_F32 || w->value.shape.rank < 2 || w->value.count < LEAST ||
        !slash || (size_t)(slash - w->name) >= sizeof layer)
        return false;
    memcpy(layer, w->name, (size_t)(slash - w->name));
    layer[slash - w->name] = '\0';
    return fnmatch(pattern, layer, 0) == 0;
}

mf_status mf_compress_share(mf_compressed *s, const mf_share_settings *how, mf_buf *report)
{
    bool any = false;

    for (int64_t i = 0; i < s->n; i++) {
        mf_compressed_weight *w = &s->weights[i];
        mf_tensor own = { 0 };
        double error;
        mf_status st;

        if (!is_shared(w, how->layers))
            continue;
        any = true;
        MF_TRY(mf_tensor_clone(&own, &w->value));
        st = mf_share_values(own.data, own.count, 1 << how->bits, &error);
        if (st == MF_OK) {
            mf_buf_printf(report, "%s: %d values, error %.2g\n", w->name, 1 << how->bits, error);
            mf_tensor_clear(&w->value);
            mf_tensor_move(&w->value, &own);
        }
        mf_tensor_clear(&own);
        MF_TRY(st);
    }
    return any ? MF_OK
               : MF_FAIL(MF_NOT_FOUND,
                         "no layer with a kernel of at least %d weights is called '%.60s'", LEAST,
                         how->layers);
}
