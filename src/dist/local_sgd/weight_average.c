/* SPDX-License-Identifier: Apache-2.0 */
/* weight_average.c - averages the variables of several workers with an all-reduce. All tensors form
 * one long vector, which is sent in chunks. */
#include "dist/local_sgd/weight_average.h"

#include "base/mem.h"
#include "dist/data_parallel/shard_owners.h"

enum { CHUNK = 1 << 17 }; /* elements */

typedef struct averaging {
    const mf_average_of *a;
    mf_group *group;
    const mf_collective *call;
    double total; /* of the weights */
    int64_t first, own; /* the leaves of this worker */
    double *sent, *got; /* a chunk of each of its leaves; of the mean */
    const void **parts; /* the chunks of its leaves */
    mf_shard_owners shares; /* of the leaves */
    mf_tensor scratch;
} averaging;

static void averaging_deinit(averaging *v)
{
    mf_free(v->sent);
    mf_free(v->got);
    mf_free(v->parts);
    mf_shard_owners_deinit(&v->shares);
    mf_tensor_clear(&v->scratch);
}

static mf_status averaging_init(averaging *v)
{
    const mf_average_of *a = v->a;

    v->first = a->of[v->group->rank].first;
    v->own = a->of[v->group->rank].n;
    MF_TRY(mf_shard_owners_init(&v->shares, v->group->size, a->leaves, 1, a->of));
    mf_shard_owners_set(&v->shares, a->leaves);
    v->sent = mf_calloc((v->own > 0 ? v->own : 1) * CHUNK, sizeof *v->sent);
    v->got = mf_calloc(CHUNK, sizeof *v->got);
    v->parts = mf_calloc(v->own + 1, sizeof *v->parts);
    if (!v->sent || !v->got || !v->parts)
        return MF_NOMEM("averages");
    for (int64_t k = 0; k < v->own; k++)
        v->parts[k] = v->sent + k * CHUNK;
    for (int64_t i = 0; i < a->leaves; i++)
        v->total += a->weights[i];
    return MF_OK;
}

/* ---- between tensors and the chunk ---- */

static void weight_average_take(const mf_tensor *t, int64_t from, int64_t n, double weight,
                                double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = weight * (t->dtype == MF_DTYPE_F32 ? (double)((const float *)t->data)[from + i]
                                                   : ((const double *)t->data)[from + i]);
}

static void weight_average_put(mf_tensor *t, int64_t from, int64_t n, double total,
                               const double *sums)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == MF_DTYPE_F32)
            ((float *)t->data)[from + i] = (float)(sums[i] / total);
        else
            ((double *)t->data)[from + i] = sums[i] / total;
    }
}

/* Where the vector is filled, or emptied: an element of a tensor. */
typedef struct weight_average_place {
    int64_t tensor, element;
} weight_average_place;

/* Fill the next up to CHUNK elements of this worker's leaves; returns their number. */
static int64_t weight_average_fill(const averaging *v, weight_average_place *p)
{
    const mf_average_of *a = v->a;
    int64_t n = 0;

    while (p->tensor < a->n && n < CHUNK) {
        const int64_t count = a->means[p->tensor].count, left = count - p->element;
        const int64_t m = left < CHUNK - n ? left : CHUNK - n;

        for (int64_t k = 0; k < v->own; k++)
            weight_average_take(&a->values[k][p->tensor], p->element, m, a->weights[v->first + k],
                                v->sent + k * CHUNK + n);
        n += m;
        p->element += m;
        if (p->element == count)
            *p = (weight_average_place){ p->tensor + 1, 0 };
    }
    return n;
}

static void empty(const averaging *v, weight_average_place *p, int64_t n)
{
    int64_t done = 0;

    while (done < n) {
        mf_tensor *t = &v->a->means[p->tensor];
        const int64_t left = t->count - p->element, m = left < n - done ? left : n - done;

        weight_average_put(t, p->element, m, v->total, v->got + done);
        done += m;
        p->element += m;
        if (p->element == t->count)
            *p = (weight_average_place){ p->tensor + 1, 0 };
    }
}

static mf_status sum_up(averaging *v)
{
    weight_average_place from = { 0 }, to = { 0 };
    int64_t n;

    while ((n = weight_average_fill(v, &from)) > 0) {
        MF_TRY(mf_shard_owners_sum(&v->shares, v->group, v->call, v->parts, MF_DTYPE_F64, n,
                                   &v->scratch, false, v->got));
        empty(v, &to, n);
    }
    return MF_OK;
}

mf_status mf_average(mf_group *group, const mf_collective *call, const mf_average_of *a)
{
    averaging v = { .a = a, .group = group, .call = call };
    mf_status st = averaging_init(&v);

    if (st == MF_OK && v.total > 0.0)
        st = sum_up(&v);
    averaging_deinit(&v);
    return st;
}
