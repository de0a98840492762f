/* SPDX-License-Identifier: Apache-2.0 */
/* average.c - see average.h. All variables are one long vector, which goes to the others in chunks.
 */
#include "parallel/average.h"

#include "base/mem.h"

#include <string.h>

enum { CHUNK = 1 << 17 }; /* elements */

typedef struct averaging {
    mf_group *group;
    const mf_collective *call;
    const int64_t *weights;
    int64_t total; /* of the weights */
    mf_tensor *values, *means; /* by variable */
    int64_t n;
    double *sent, *got; /* a chunk */
    mf_tree_node *nodes; /* by rank: its own leaf */
    const mf_tree_node **parts;
    int *n_parts;
} averaging;

static void averaging_deinit(averaging *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        if (a->values)
            mf_tensor_clear(&a->values[i]);
        if (a->means)
            mf_tensor_clear(&a->means[i]);
    }
    mf_free(a->values);
    mf_free(a->means);
    mf_free(a->sent);
    mf_free(a->got);
    mf_free(a->nodes);
    mf_free(a->parts);
    mf_free(a->n_parts);
}

static mf_status averaging_init(averaging *a)
{
    const int size = a->group->size;

    a->values = mf_calloc(a->n, sizeof *a->values);
    a->means = mf_calloc(a->n, sizeof *a->means);
    a->sent = mf_calloc(CHUNK, sizeof *a->sent);
    a->got = mf_calloc(CHUNK, sizeof *a->got);
    a->nodes = mf_calloc(size, sizeof *a->nodes);
    a->parts = mf_calloc(size, sizeof *a->parts);
    a->n_parts = mf_calloc(size, sizeof *a->n_parts);
    if (!a->values || !a->means || !a->sent || !a->got || !a->nodes || !a->parts || !a->n_parts)
        return MF_NOMEM("averages");
    for (int r = 0; r < size; r++) {
        a->total += a->weights[r];
        a->nodes[r] = (mf_tree_node){ r, r + 1 };
        a->parts[r] = &a->nodes[r];
        a->n_parts[r] = 1;
    }
    return MF_OK;
}

/* ---- between tensors and the chunk ---- */

static void take(const mf_tensor *t, int64_t from, int64_t n, double weight, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = weight * (t->dtype == MF_DTYPE_F32 ? (double)((const float *)t->data)[from + i]
                                                   : ((const double *)t->data)[from + i]);
}

static void put(mf_tensor *t, int64_t from, int64_t n, double total, const double *sums)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == MF_DTYPE_F32)
            ((float *)t->data)[from + i] = (float)(sums[i] / total);
        else
            ((double *)t->data)[from + i] = sums[i] / total;
    }
}

/* Where the vector is filled, or emptied: an element of a variable. */
typedef struct place {
    int64_t variable, element;
} place;

/* The next up to CHUNK elements; how many. */
static int64_t fill(const averaging *a, place *p)
{
    int64_t n = 0;

    while (p->variable < a->n && n < CHUNK) {
        const mf_tensor *t = &a->values[p->variable];
        const int64_t left = t->count - p->element;
        const int64_t m = left < CHUNK - n ? left : CHUNK - n;

        take(t, p->element, m, (double)a->weights[a->group->rank], a->sent + n);
        n += m;
        p->element += m;
        if (p->element == t->count)
            *p = (place){ p->variable + 1, 0 };
    }
    return n;
}

static void empty(const averaging *a, place *p, int64_t n)
{
    int64_t done = 0;

    while (done < n) {
        mf_tensor *t = &a->means[p->variable];
        const int64_t left = t->count - p->element, m = left < n - done ? left : n - done;

        put(t, p->element, m, (double)a->total, a->got + done);
        done += m;
        p->element += m;
        if (p->element == t->count)
            *p = (place){ p->variable + 1, 0 };
    }
}

static mf_status sum_up(averaging *a)
{
    place from = { 0 }, to = { 0 };
    int64_t n;

    while ((n = fill(a, &from)) > 0) {
        const void *data = a->sent;

        MF_TRY(mf_all_reduce(a->group, &(mf_reduce){ .call = *a->call,
                                                     .leaves = a->group->size,
                                                     .parts = a->parts,
                                                     .n_parts = a->n_parts,
                                                     .data = &data,
                                                     .dtype = MF_DTYPE_F64,
                                                     .count = n,
                                                     .out = a->got }));
        empty(a, &to, n);
    }
    return MF_OK;
}

/* ---- the whole ---- */

static bool is_float(const mf_variable *v)
{
    return v->dtype == MF_DTYPE_F32 || v->dtype == MF_DTYPE_F64;
}

static mf_status read_values(averaging *a, mf_variable *const *variables, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!is_float(variables[i]))
            continue;
        MF_TRY(mf_variable_read(variables[i], &a->values[a->n]));
        a->n++;
        MF_TRY(mf_tensor_alloc(&a->means[a->n - 1], a->values[a->n - 1].dtype,
                               &a->values[a->n - 1].shape));
    }
    return MF_OK;
}

static mf_status assign_means(averaging *a, mf_variable *const *variables, int64_t n)
{
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!is_float(variables[i]))
            continue;
        mf_tensor_clear(&a->values[at]); /* so that it can be overwritten */
        MF_TRY(mf_variable_assign(variables[i], &a->means[at++], true));
    }
    return MF_OK;
}

mf_status mf_average(mf_group *group, const mf_collective *call, const int64_t *weights,
                     mf_variable *const *variables, int64_t n)
{
    averaging a = { .group = group, .call = call, .weights = weights, .n = n };
    mf_status st = averaging_init(&a);

    a.n = 0;
    if (st == MF_OK && a.total > 0)
        st = read_values(&a, variables, n);
    if (st == MF_OK && a.total > 0)
        st = sum_up(&a);
    if (st == MF_OK && a.total > 0)
        st = assign_means(&a, variables, n);
    averaging_deinit(&a);
    return st;
}
