/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank.c - kernels as products of two smaller ones. The kernel [h,w,in,out] of a convolution is
 * a matrix of h*w*in rows: the first factor is a convolution with fewer filters, the second factor
 * a 1 x 1 convolution. */
#include "compress/compress.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- matrices ---- */

/* Singular value decomposition: matrix = u diag(s) v'. */
typedef struct factors {
    mf_tensor *of[3]; /* s, u, v */
} factors;

static void factors_deinit(factors *f)
{
    for (int i = 0; i < MF_COUNT(f->of); i++)
        mf_tensor_free(f->of[i]);
}

static mf_status decompose(const mf_tensor *matrix, factors *out)
{
    static const char *const fetches[] = { "svd:0", "svd:1", "svd:2" };
    const char *feed = "matrix:0";
    mf_graph *g = NULL;
    mf_session *session = NULL;
    mf_output x;
    mf_status st;

    MF_TRY(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='matrix'");
    (void)mf_applyf(g, "Svd", MF_IN(x), "compute_uv=true full_matrices=false name='svd'");
    MF_TRY_TO(done, mf_session_new(g, &(mf_session_options){ .threads = 1 }, &session));
    MF_TRY_TO(done, mf_session_run(session, NULL, &feed, &matrix, 1, fetches, MF_COUNT(fetches),
                                   NULL, 0, out->of));
done:
    mf_session_free(session);
    mf_graph_free(g);
    return st;
}

static double squares(const float *s, int64_t from, int64_t to)
{
    double sum = 0;

    for (int64_t i = from; i < to; i++)
        sum += (double)s[i] * (double)s[i];
    return sum;
}

/* The smallest rank whose singular values have this share of the sum of squares. */
static int64_t low_rank_of(const float *s, int64_t n, double energy)
{
    const double all = squares(s, 0, n);
    double sum = 0;
    int64_t rank = 0;

    while (rank < n && (rank == 0 || sum < energy * all)) {
        sum += (double)s[rank] * (double)s[rank];
        rank++;
    }
    return rank;
}

/* a = u sqrt(s), b = sqrt(s) v'. */
static mf_status multiply_out(const factors *f, int64_t rank, mf_tensor *a, mf_tensor *b)
{
    const float *s = f->of[0]->data, *u = f->of[1]->data, *v = f->of[2]->data;
    const int64_t rows = f->of[1]->shape.dims[0], columns = f->of[2]->shape.dims[0];
    const int64_t n = f->of[0]->count;

    MF_TRY(mf_tensor_alloc(a, MF_DTYPE_F32, &MF_SHAPE(rows, rank)));
    MF_TRY(mf_tensor_alloc(b, MF_DTYPE_F32, &MF_SHAPE(rank, columns)));
    for (int64_t k = 0; k < rank; k++) {
        const float root = sqrtf(s[k]);

        for (int64_t i = 0; i < rows; i++)
            ((float *)a->data)[i * rank + k] = u[i * n + k] * root;
        for (int64_t i = 0; i < columns; i++)
            ((float *)b->data)[k * columns + i] = v[i * n + k] * root;
    }
    return MF_OK;
}

mf_status mf_low_rank(const mf_tensor *matrix, int64_t *rank, double energy, mf_tensor *a,
                      mf_tensor *b, double *error)
{
    factors f = { 0 };
    mf_status st = decompose(matrix, &f);
    const float *s = st == MF_OK ? f.of[0]->data : NULL;
    const int64_t n = st == MF_OK ? f.of[0]->count : 0;

    if (st == MF_OK) {
        const double all = squares(s, 0, n);

        if (*rank == 0)
            *rank = low_rank_of(s, n, energy);
        *rank = *rank < n ? *rank : n;
        *error = all > 0 ? sqrt(squares(s, *rank, n) / all) : 0;
        st = multiply_out(&f, *rank, a, b);
    }
    if (st != MF_OK) {
        mf_tensor_clear(a);
        mf_tensor_clear(b);
    }
    factors_deinit(&f);
    return st;
}

/* ---- layers ---- */

typedef struct ranks {
    mf_compressed *s;
    const mf_rank_settings *how;
    mf_buf *report;
    bool any;
} ranks;

/* Stores the factors in the shapes of the layer. */
static mf_status put_factors(ranks *r, const mf_layer_made *made, const mf_tensor *kernel,
                             mf_tensor *a, mf_tensor *b)
{
    const int64_t rank = a->shape.dims[1], units = b->shape.dims[1];
    mf_shape shape = kernel->shape;
    mf_tensor first = { 0 }, second = { 0 };
    mf_arena *arena = r->s->arena;
    const char *names[] = { mf_arena_printf(arena, "%s/kernel_a", made->name),
                            mf_arena_printf(arena, "%s/kernel_b", made->name),
                            mf_arena_printf(arena, "%s/kernel", made->name),
                            mf_arena_printf(arena, "rank=%lld", (long long)rank) };

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (!names[i])
            return MF_NOMEM("factors");
    }
    shape.dims[shape.rank - 1] = rank;
    mf_tensor_reshape(&first, a, &shape);
    shape = shape.rank == 4 ? MF_SHAPE(1, 1, rank, units) : MF_SHAPE(rank, units);
    mf_tensor_reshape(&second, b, &shape);
    MF_TRY(mf_compressed_set(r->s, names[0], &first));
    MF_TRY(mf_compressed_set(r->s, names[1], &second));
    mf_compressed_remove(r->s, names[2]);
    return mf_compressed_change(r->s, made->name, names[3]);
}

static mf_status factor_layer(ranks *r, const mf_layer_made *made, const mf_tensor *kernel)
{
    const int64_t units = kernel->shape.dims[kernel->shape.rank - 1], rows = kernel->count / units;
    mf_tensor matrix = { 0 }, a = { 0 }, b = { 0 };
    int64_t rank = r->how->rank;
    double error = 0;
    mf_status st;

    mf_tensor_reshape(&matrix, kernel, &MF_SHAPE(rows, units));
    MF_TRY_TO(done, mf_low_rank(&matrix, &rank, r->how->energy, &a, &b, &error));
    if (rank * (rows + units) >= rows * units) {
        mf_buf_printf(r->report, "%s: skipped: rank %lld would not be smaller\n", made->name,
                      (long long)rank);
        if (!strchr(r->how->layers, '*'))
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "rank %lld of layer '%s', a matrix of %lld x %lld, would not be smaller",
                         (long long)rank, made->name, (long long)rows, (long long)units);
        goto done;
    }
    mf_buf_printf(r->report, "%s: rank %lld of %lld, error %.4f\n", made->name, (long long)rank,
                  (long long)(rows < units ? rows : units), error);
    st = put_factors(r, made, kernel, &a, &b);
done:
    mf_tensor_clear(&matrix);
    mf_tensor_clear(&a);
    mf_tensor_clear(&b);
    return st;
}

static mf_status low_rank_visit(ranks *r, const mf_layer_made *made)
{
    const char *name = mf_arena_printf(r->s->arena, "%s/kernel", made->name);
    const mf_tensor *kernel = name ? mf_compressed_find(r->s, name) : NULL;
    mf_tensor copy = { 0 };
    mf_status st;

    if (!kernel || (strcmp(made->kind, "Dense") != 0 && strcmp(made->kind, "Conv2D") != 0) ||
        fnmatch(r->how->layers, made->name, 0) != 0)
        return MF_OK;
    r->any = true;
    mf_tensor_set(&copy, kernel); /* setting other weights may reallocate the list */
    st = factor_layer(r, made, &copy);
    mf_tensor_clear(&copy);
    return st;
}

mf_status mf_compress_rank(mf_compressed *s, const mf_rank_settings *how, mf_buf *report)
{
    ranks r = { .s = s, .how = how, .report = report };
    mf_model *model = NULL;
    mf_status st;

    MF_TRY(mf_compressed_model(s, &model));
    st = MF_OK;
    for (int64_t i = 0; st == MF_OK && i < model->n_made; i++)
        st = low_rank_visit(&r, &model->made[i]);
    if (st == MF_OK && !r.any)
        st = MF_FAIL(MF_NOT_FOUND, "no dense layer or convolution with a kernel is called '%.60s'",
                     how->layers);
    mf_model_free(model);
    return st;
}
