/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.c - recall@1 and verification accuracy of the embeddings of a contrastive model. */
#include "report/embeddings.h"

#include "base/mem.h"
#include "base/pool.h"
#include "data/dataset.h"
#include "models/model.h"
#include "train/step/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256 };

/* ---- of a model ---- */

static mf_status find_layer(const mf_model *m, char *name, size_t size)
{
    for (int64_t i = 0; i < m->n_made; i++) {
        const mf_output o = m->made[i].output;

        if (strcmp(m->made[i].name, "embedding") != 0)
            continue;
        (void)snprintf(name, size, "%s:%d", mf_node_name(o.node), o.port);
        return MF_OK;
    }
    return MF_FAIL(MF_NOT_FOUND, "the model has no layer 'embedding'");
}

/* The first of the rows of each sample. */
static mf_status embeddings_append(const mf_tensor *r, const mf_batch *batch, int64_t at,
                                   int64_t all, mf_tensor **out)
{
    const int64_t rows = r->shape.rank == 2 ? r->shape.dims[0] / batch->n : 0;
    const size_t row = rows > 0 ? (size_t)r->shape.dims[1] * sizeof(float) : 0;

    if (rows < 1 || r->dtype != MF_DTYPE_F32)
        return MF_FAIL(MF_INVALID_ARGUMENT, "embeddings must be rows of floats");
    if (!*out)
        MF_TRY(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ all, r->shape.dims[1] }, 2, out));
    for (int64_t i = 0; i < batch->n; i++)
        memcpy((char *)(*out)->data + (size_t)(at + i) * row,
               (const char *)r->data + (size_t)(i * rows) * row, row);
    return MF_OK;
}

static mf_status embeddings_run(mf_trainer *t, const char *fetch, mf_tensor **result)
{
    const mf_names *n = &t->predict_names;

    return mf_session_run(t->session, NULL, n->feeds, n->values, n->n_feeds, &fetch, 1, NULL, 0,
                          result);
}

mf_status mf_embed(mf_trainer *t, mf_dataset *set, mf_tensor **out)
{
    const mf_iterator_options order = { .batch = BATCH, .in_order = true, .epochs = 1 };
    const int64_t all = mf_dataset_count(set);
    mf_iterator *it = NULL;
    mf_tensor *result = NULL;
    const mf_batch *batch;
    char fetch[256];
    mf_status st;

    *out = NULL;
    MF_TRY(find_layer(t->model, fetch, sizeof fetch));
    st = mf_iterator_new(set, &order, &it);
    for (int64_t at = 0; st == MF_OK && at < all; at += batch->n) {
        mf_tensor *converted = NULL;

        MF_TRY_TO(done, mf_iterator_next(it, &batch));
        MF_TRY_TO(done, mf_trainer_feed(t, &t->predict_names, set, batch, false, &converted));
        MF_TRY_TO(done, embeddings_run(t, fetch, &result));
        MF_TRY_TO(done, embeddings_append(result, batch, at, all, out));
    }
done:
    mf_tensor_free(result);
    mf_iterator_free(it);
    if (st != MF_OK) {
        mf_tensor_free(*out);
        *out = NULL;
    }
    return st;
}

mf_status mf_read_labels(const mf_dataset *set, const char *name, int32_t **out)
{
    const int64_t n = mf_dataset_count(set);
    const int column = mf_dataset_find_column(set, name);
    void *columns[MF_DATASET_COLUMNS] = { 0 };
    mf_status st = MF_OK;

    *out = NULL;
    if (column < 0 || set->columns[column].dtype != MF_DTYPE_I32 || set->columns[column].rank != 0)
        return MF_FAIL(MF_NOT_FOUND, "the data has no column '%s' of classes", name);
    *out = mf_calloc(n + 1, sizeof **out);
    if (!*out)
        return MF_NOMEM("labels");
    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        columns[column] = *out + i;
        st = mf_dataset_read(set, 0, i, columns);
    }
    if (st != MF_OK) {
        mf_free(*out);
        *out = NULL;
    }
    return st;
}

/* ---- nearest neighbours ---- */

typedef struct embeddings_search {
    const float *across; /* [width,n] */
    const float *rows; /* [n,width] */
    const int32_t *labels;
    int64_t n, width;
    float *room; /* [n] for each block */
    int64_t *right; /* by block */
    int64_t block; /* rows of one */
} embeddings_search;

static bool nearest_is_right(const embeddings_search *s, int64_t i, float *far)
{
    int64_t best = -1;

    memset(far, 0, (size_t)s->n * sizeof *far);
    for (int64_t k = 0; k < s->width; k++) {
        const float x = s->rows[i * s->width + k], *y = s->across + k * s->n;

        for (int64_t j = 0; j < s->n; j++)
            far[j] += (x - y[j]) * (x - y[j]);
    }
    for (int64_t j = 0; j < s->n; j++) {
        if (j != i && (best < 0 || far[j] < far[best]))
            best = j;
    }
    return best >= 0 && s->labels[best] == s->labels[i];
}

static void search_block(void *ctx, int64_t b)
{
    const embeddings_search *s = ctx;

    for (int64_t i = b * s->block; i < s->n && i < (b + 1) * s->block; i++)
        s->right[b] += nearest_is_right(s, i, s->room + b * s->n);
}

mf_status mf_recall_at_1(const mf_tensor *rows, const int32_t *labels, int threads, double *out)
{
    enum { BLOCKS = 64 };
    const int64_t n = rows->shape.dims[0], width = rows->shape.dims[1];
    int64_t right[BLOCKS] = { 0 }, all = 0;
    float *across = mf_calloc(n * width + 1, sizeof *across),
          *room = mf_calloc(BLOCKS * n + 1, sizeof *room);
    embeddings_search s = { .across = across,
                            .rows = rows->data,
                            .labels = labels,
                            .n = n,
                            .width = width,
                            .room = room,
                            .right = right,
                            .block = (n + BLOCKS - 1) / BLOCKS };
    mf_pool *pool = NULL;
    mf_status st = across && room ? mf_pool_new(threads, &pool) : MF_NOMEM("embeddings");

    for (int64_t i = 0; st == MF_OK && i < n * width; i++)
        across[i % width * n + i / width] = s.rows[i];
    if (st == MF_OK)
        mf_pool_complete(pool, BLOCKS, search_block, &s);
    for (int b = 0; b < BLOCKS; b++)
        all += right[b];
    *out = n > 0 ? (double)all / (double)n : 0.0;
    mf_pool_free(pool);
    mf_free(across);
    mf_free(room);
    return st;
}

/* ---- pairs ---- */

typedef struct measured_pair {
    float distance;
    int32_t same;
} measured_pair;

static int by_distance(const void *a, const void *b)
{
    const float x = ((const measured_pair *)a)->distance, y = ((const measured_pair *)b)->distance;

    return x < y ? -1 : x > y;
}

mf_status mf_best_threshold(const float *distances, const int32_t *same, int64_t n,
                            double *threshold)
{
    measured_pair *sorted = mf_calloc(n + 1, sizeof *sorted);
    int64_t right = 0, best;

    *threshold = 0.0;
    if (!sorted)
        return MF_NOMEM("pairs");
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = (measured_pair){ distances[i], same[i] };
        right += same[i] == 0; /* threshold 0: all pairs are classified as different */
    }
    best = right;
    qsort(sorted, (size_t)n, sizeof *sorted, by_distance);
    for (int64_t i = 0; i < n; i++) {
        const double next =
            i + 1 < n ? (double)sorted[i + 1].distance : 2.0 * (double)sorted[i].distance + 1.0;

        right += sorted[i].same ? 1 : -1;
        if (right > best && next > (double)sorted[i].distance) {
            best = right;
            *threshold = 0.5 * ((double)sorted[i].distance + next);
        }
    }
    mf_free(sorted);
    return MF_OK;
}

double mf_verification(const float *distances, const int32_t *same, int64_t n, double threshold)
{
    int64_t right = 0;

    for (int64_t i = 0; i < n; i++)
        right += ((double)distances[i] < threshold) == (same[i] != 0);
    return n > 0 ? (double)right / (double)n : 0.0;
}
