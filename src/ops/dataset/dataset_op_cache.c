/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op_cache.c - Cache: the first pass through the input that reaches its end stores the
 * elements; later passes of the same iterator read them. In memory only. */
#include "ops/dataset/dataset_op.h"

typedef struct cached {
    mf_object object;
    mf_dataset_rows rows;
    bool whole;
} cached;

typedef struct caching {
    mf_cursor cursor;
    cached *cache; /* belongs to the iteration */
    mf_dataset_rows rows; /* while this cursor fills the cache */
    int64_t at;
    bool reads; /* the cache was complete when this cursor started */
} caching;

static void cached_destroy(mf_object *o)
{
    mf_rows_deinit(&((cached *)o)->rows);
    mf_free(o);
}
static const mf_object_type cached_type = { .name = "cache", .destroy = cached_destroy };

static mf_status cached_make(void *set, mf_object **out)
{
    cached *c = mf_calloc(1, sizeof *c);

    (void)set;
    if (!c)
        return MF_NOMEM("a cache");
    c->object.type = &cached_type;
    atomic_store(&c->object.refs, 1);
    *out = &c->object;
    return MF_OK;
}

static mf_status cache_check(mf_dataset_op *d)
{
    const mf_tensor *name = &d->args[1];

    MF_TRY(mf_dataset_op_same_parts(d, mf_dataset_op_arg(d, 0)));
    if (name->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "filename must be a scalar");
    if (((const mf_string *)name->data)->len > 0)
        return MF_FAIL(
            MF_UNIMPLEMENTED,
            "caches in files are not supported; cache() without a name keeps elements in "
            "memory");
    return MF_OK;
}

static mf_status cache_begin(mf_cursor *c, mf_walk *w)
{
    caching *k = (caching *)c;
    mf_object *o;

    MF_TRY(mf_cursor_state(c, w, cached_make, &o));
    k->cache = (cached *)mf_object_ref(o);
    k->rows.n_parts = k->cache->rows.n_parts = c->set->n_parts;
    k->reads = k->cache->whole;
    return k->reads ? MF_OK : mf_cursor_begin(w, mf_dataset_op_arg(c->set, 0), c, &c->input);
}

static mf_status dataset_op_cache_gather(caching *k, mf_walk *w, mf_tensor *row, bool *end)
{
    const int n = k->rows.n_parts;

    MF_TRY(mf_cursor_next(k->cursor.input, w, row, end));
    if (!*end) {
        MF_TRY(mf_rows_add(&k->rows, row));
        for (int i = 0; i < n; i++)
            mf_tensor_set(&row[i], &k->rows.parts[(k->rows.n - 1) * n + i]);
    } else if (!k->cache->whole) {
        k->cache->rows = k->rows;
        k->cache->whole = true;
        k->rows = (mf_dataset_rows){ .n_parts = n };
    }
    return MF_OK;
}

static mf_status cache_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    caching *k = (caching *)c;
    const mf_dataset_rows *rows = &k->cache->rows;

    if (!k->reads)
        return dataset_op_cache_gather(k, w, row, end);
    *end = k->at >= rows->n;
    for (int i = 0; !*end && i < rows->n_parts; i++)
        mf_tensor_set(&row[i], &rows->parts[k->at * rows->n_parts + i]);
    k->at += !*end;
    return MF_OK;
}

static void cache_end(mf_cursor *c)
{
    caching *k = (caching *)c;

    mf_rows_deinit(&k->rows);
    if (k->cache)
        mf_object_unref(&k->cache->object);
}

static const mf_dataset_op_kind cache = { .name = "Cache",
                                          .cursor_bytes = sizeof(caching),
                                          .check = cache_check,
                                          .begin = cache_begin,
                                          .next = cache_next,
                                          .end = cache_end,
                                          .size = mf_dataset_op_input_size };
MF_DATASET_OP_KERNEL(cache)

#define ARGS "(input_dataset:variant, filename:string"

const mf_op mf_ops_dataset_cache[] = {
    MF_DATASET_OP_OP("CacheDataset", ARGS MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META,
                     cache),
    MF_DATASET_OP_OP("CacheDatasetV2",
                     ARGS
                     ", cache:resource" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES MF_DATASET_OP_META
                     " is_stateful",
                     cache),
    { 0 },
};
