/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - hash tables of TensorFlow's lookup ops. */
#include "ops/state/lookup.h"

#include "base/map.h"
#include "ops/state/handle.h"

#include <string.h>

/* ---- entries ---- */

static uint64_t lookup_hash_of(const mf_tensor *keys, int64_t i)
{
    const size_t size = mf_dtype_size(keys->dtype);

    if (keys->dtype == MF_DTYPE_STRING) {
        const mf_string *s = (const mf_string *)keys->data + i;

        return mf_hash(s->len ? s->data : "", s->len, 1);
    }
    return mf_hash((const char *)keys->data + (size_t)i * size, size, 1);
}

static bool same_key(const mf_tensor *a, int64_t i, const mf_tensor *b, int64_t k)
{
    const size_t size = mf_dtype_size(a->dtype);

    if (a->dtype == MF_DTYPE_STRING) {
        const mf_string *s = (const mf_string *)a->data + i, *t = (const mf_string *)b->data + k;

        return s->len == t->len && (s->len == 0 || memcmp(s->data, t->data, s->len) == 0);
    }
    return memcmp((const char *)a->data + (size_t)i * size,
                  (const char *)b->data + (size_t)k * size, size) == 0;
}

static int64_t *chain_of(const mf_entries *e, const mf_tensor *keys, int64_t i)
{
    return &e->chains[lookup_hash_of(keys, i) & (uint64_t)(e->n_chains - 1)];
}

static int64_t lookup_find(const mf_entries *e, const mf_tensor *keys, int64_t i)
{
    int64_t at = e->n_chains > 0 ? *chain_of(e, keys, i) : -1;

    while (at >= 0 && !same_key(&e->keys, at, keys, i))
        at = e->next[at];
    return at;
}

static void link_entry(mf_entries *e, int64_t at)
{
    int64_t *first = chain_of(e, &e->keys, at);

    e->next[at] = *first;
    *first = at;
}

static void unlink_entry(mf_entries *e, int64_t at)
{
    int64_t *from = chain_of(e, &e->keys, at);

    while (*from != at)
        from = &e->next[*from];
    *from = e->next[at];
}

static void entries_deinit(mf_entries *e)
{
    mf_tensor_clear(&e->keys);
    mf_tensor_clear(&e->values);
    mf_free(e->next);
    mf_free(e->chains);
    *e = (mf_entries){ 0 };
}

/* Moves keys or values to storage of another size. */
static mf_status move_cells(mf_tensor *cells, mf_dtype dtype, int64_t from, int64_t to)
{
    mf_tensor fresh = { 0 };
    mf_status st = mf_tensor_alloc(&fresh, dtype, &MF_SHAPE(to));

    if (st == MF_OK && from > 0)
        st = mf_cells_copy(dtype, fresh.data, 0, cells->data, 0, from);
    if (st == MF_OK)
        mf_tensor_move(cells, &fresh);
    mf_tensor_clear(&fresh);
    return st;
}

static mf_status lookup_grow(const mf_table *t, mf_entries *e)
{
    const int64_t cap = e->cap > 0 ? 2 * e->cap : 16;
    int64_t *next = mf_calloc(cap, sizeof *next), *chains = mf_calloc(cap, sizeof *chains);
    int64_t cells;
    mf_status st =
        next && chains && mf_mul_i64(cap, t->width, &cells) ? MF_OK : MF_NOMEM("a table");

    if (st == MF_OK)
        st = move_cells(&e->keys, t->key, e->n, cap);
    if (st == MF_OK)
        st = move_cells(&e->values, t->value, e->n * t->width, cells);
    if (st != MF_OK) {
        mf_free(next);
        mf_free(chains);
        return st;
    }
    mf_free(e->next);
    mf_free(e->chains);
    e->next = next;
    e->chains = chains;
    e->cap = e->n_chains = cap;
    for (int64_t i = 0; i < cap; i++)
        chains[i] = -1;
    for (int64_t i = 0; i < e->n; i++)
        link_entry(e, i);
    return MF_OK;
}

/* The entry of key i; created if it does not exist. */
static mf_status find_or_add(const mf_table *t, mf_entries *e, const mf_tensor *keys, int64_t i,
                             int64_t *at, bool *is_new)
{
    *at = lookup_find(e, keys, i);
    *is_new = *at < 0;
    if (!*is_new)
        return MF_OK;
    if (e->n == e->cap)
        MF_TRY(lookup_grow(t, e));
    *at = e->n;
    MF_TRY(mf_cells_copy(t->key, e->keys.data, e->n, keys->data, i, 1));
    e->n++;
    link_entry(e, *at);
    return MF_OK;
}

static mf_status lookup_put(const mf_table *t, mf_entries *e, int64_t at, const mf_tensor *values,
                            int64_t i)
{
    return mf_cells_copy(t->value, e->values.data, at * t->width, values->data, i * t->width,
                         t->width);
}

static mf_status remove_entry(const mf_table *t, mf_entries *e, int64_t at)
{
    const int64_t last = e->n - 1;

    unlink_entry(e, at);
    if (at != last) {
        unlink_entry(e, last);
        MF_TRY(mf_cells_copy(t->key, e->keys.data, at, e->keys.data, last, 1));
        MF_TRY(lookup_put(t, e, at, &e->values, last));
        link_entry(e, at);
    }
    e->n--;
    return MF_OK;
}

/* ---- the table ---- */

static void table_destroy(mf_object *o)
{
    mf_table *t = (mf_table *)o;

    entries_deinit(&t->entries);
    mf_tensor_clear(&t->empty);
    mf_tensor_clear(&t->deleted);
    pthread_mutex_destroy(&t->lock);
    mf_free(t);
}

const mf_object_type mf_table_type = { .name = "table", .destroy = table_destroy };

static bool can_be_key(mf_dtype d)
{
    return d == MF_DTYPE_STRING || mf_dtype_is_plain(d);
}

static mf_status fill_spec(mf_table *t, const mf_table_spec *spec)
{
    t->kind = spec->kind;
    t->key = spec->key;
    t->value = spec->value;
    t->shape = spec->shape;
    if (!can_be_key(t->key) || !can_be_key(t->value))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a table cannot lead from %s to %s",
                       mf_dtype_name(t->key), mf_dtype_name(t->value));
    MF_TRY(mf_shape_count(&t->shape, &t->width));
    if (t->width == 0 || t->shape.rank == MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "values of a table must have elements, and rank < %d",
                       MF_MAX_RANK);
    if (spec->empty)
        MF_TRY(mf_tensor_keep(&t->empty, spec->empty));
    return spec->deleted ? mf_tensor_keep(&t->deleted, spec->deleted) : MF_OK;
}

mf_status mf_table_make(void *spec, mf_object **out)
{
    mf_table *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("a table");
    t->object.type = &mf_table_type;
    atomic_store(&t->object.refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    st = fill_spec(t, spec);
    if (st != MF_OK)
        mf_object_unref(&t->object);
    else
        *out = &t->object;
    return st;
}

static mf_status lookup_check_types(const mf_table *t, mf_dtype key, mf_dtype value)
{
    if (key != t->key)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Key must be type %s but got %s", mf_dtype_name(t->key),
                       mf_dtype_name(key));
    if (value != t->value)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Value must be type %s but got %s",
                       mf_dtype_name(t->value), mf_dtype_name(value));
    return MF_OK;
}

/* The shape of the values of these keys. */
static mf_status lookup_rows_shape(const mf_table *t, const mf_shape *keys, mf_shape *out)
{
    *out = (mf_shape){ .rank = keys->rank + t->shape.rank };
    if (out->rank > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "values of these keys would have rank %d", out->rank);
    memcpy(out->dims, keys->dims, (size_t)keys->rank * sizeof(int64_t));
    memcpy(out->dims + keys->rank, t->shape.dims, (size_t)t->shape.rank * sizeof(int64_t));
    return MF_OK;
}

mf_status mf_table_check(const mf_table *t, const mf_tensor *keys, const mf_tensor *values)
{
    char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];
    mf_shape shape;

    MF_TRY(lookup_check_types(t, keys->dtype, values->dtype));
    MF_TRY(lookup_rows_shape(t, &keys->shape, &shape));
    if (!mf_shape_equal(&shape, &values->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Expected shape %s for value, got %s",
                       mf_shape_text(&shape, want), mf_shape_text(&values->shape, have));
    return MF_OK;
}

static mf_status lookup_check_key(const mf_table *t, const mf_tensor *keys, int64_t i)
{
    if (t->empty.dtype && same_key(&t->empty, 0, keys, i))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Using the empty_key as a table key is not allowed");
    if (t->deleted.dtype && same_key(&t->deleted, 0, keys, i))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Using the deleted_key as a table key is not allowed");
    return MF_OK;
}

static mf_status check_keys(const mf_table *t, const mf_tensor *keys)
{
    for (int64_t i = 0; t->empty.dtype && i < keys->count; i++)
        MF_TRY(lookup_check_key(t, keys, i));
    return MF_OK;
}

/* A new key is removed again if its value cannot be copied. */
static mf_status add_one(const mf_table *t, mf_entries *e, const mf_tensor *keys,
                         const mf_tensor *values, int64_t i, bool once)
{
    int64_t at;
    bool is_new;
    mf_status st;

    MF_TRY(find_or_add(t, e, keys, i, &at, &is_new));
    if (!is_new && once)
        return same_key(&e->values, at, values, i)
                   ? MF_OK
                   : MF_FAIL(MF_FAILED_PRECONDITION,
                             "HashTable has different value for same key. Entry %lld has another "
                             "value than an earlier one of the same key",
                             (long long)i);
    st = lookup_put(t, e, at, values, i);
    if (st != MF_OK && is_new) {
        unlink_entry(e, at);
        e->n--;
    }
    return st;
}

static mf_status lookup_add_all(const mf_table *t, mf_entries *e, const mf_tensor *keys,
                                const mf_tensor *values, bool once)
{
    for (int64_t i = 0; i < keys->count; i++)
        MF_TRY(add_one(t, e, keys, values, i, once));
    return MF_OK;
}

mf_status mf_table_initialize(mf_table *t, const mf_tensor *keys, const mf_tensor *values)
{
    mf_entries fresh = { 0 }, old = { 0 };
    mf_status st = mf_table_check(t, keys, values);

    if (st == MF_OK && t->kind != MF_TABLE_STATIC)
        st = MF_FAIL(MF_UNIMPLEMENTED, "a table that changes is not initialized, but filled");
    if (st == MF_OK)
        st = lookup_add_all(t, &fresh, keys, values, true);
    if (st == MF_OK) {
        pthread_mutex_lock(&t->lock);
        if (!t->initialized) {
            old = t->entries;
            t->entries = fresh;
            fresh = (mf_entries){ 0 };
            t->initialized = true;
        } else if (fresh.n != t->entries.n) {
            st = MF_FAIL(MF_FAILED_PRECONDITION,
                         "Table was already initialized with different data.");
        }
        pthread_mutex_unlock(&t->lock);
    }
    entries_deinit(&fresh);
    entries_deinit(&old);
    return st;
}

static mf_status must_change(const mf_table *t, const char *what)
{
    if (t->kind == MF_TABLE_STATIC)
        return MF_FAIL(MF_UNIMPLEMENTED, "%s not supported by HashTable implementations", what);
    return MF_OK;
}

mf_status mf_table_insert(mf_table *t, const mf_tensor *keys, const mf_tensor *values,
                          bool replace_all)
{
    mf_status st;

    MF_TRY(must_change(t, "Insert"));
    MF_TRY(mf_table_check(t, keys, values));
    MF_TRY(check_keys(t, keys));
    pthread_mutex_lock(&t->lock);
    if (replace_all)
        entries_deinit(&t->entries);
    st = lookup_add_all(t, &t->entries, keys, values, false);
    pthread_mutex_unlock(&t->lock);
    return st;
}

mf_status mf_table_remove(mf_table *t, const mf_tensor *keys)
{
    mf_status st = MF_OK;

    MF_TRY(must_change(t, "Remove"));
    MF_TRY(lookup_check_types(t, keys->dtype, t->value));
    MF_TRY(check_keys(t, keys));
    pthread_mutex_lock(&t->lock);
    for (int64_t i = 0; st == MF_OK && i < keys->count; i++) {
        const int64_t at = lookup_find(&t->entries, keys, i);

        if (at >= 0)
            st = remove_entry(t, &t->entries, at);
    }
    pthread_mutex_unlock(&t->lock);
    return st;
}

static mf_status find_all(const mf_table *t, const mf_tensor *keys, const mf_tensor *missing,
                          mf_tensor *out)
{
    const bool each = missing->count != t->width;

    if (t->kind == MF_TABLE_STATIC && !t->initialized)
        return MF_FAIL(MF_FAILED_PRECONDITION, "Table not initialized.");
    for (int64_t i = 0; i < keys->count; i++) {
        const int64_t at = lookup_find(&t->entries, keys, i);
        const void *from = at >= 0 ? t->entries.values.data : missing->data;
        const int64_t row = at >= 0 ? at : each ? i : 0;

        MF_TRY(mf_cells_copy(t->value, out->data, i * t->width, from, row * t->width, t->width));
    }
    return MF_OK;
}

mf_status mf_table_find(mf_table *t, const mf_tensor *keys, const mf_tensor *missing,
                        mf_tensor *out)
{
    char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];
    mf_shape shape;
    mf_status st;

    MF_TRY(lookup_check_types(t, keys->dtype, missing->dtype));
    MF_TRY(lookup_rows_shape(t, &keys->shape, &shape));
    if (!mf_shape_equal(&missing->shape, &t->shape) && !mf_shape_equal(&missing->shape, &shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Expected shape %s or %s for default value, got %s",
                       mf_shape_text(&t->shape, want),
                       mf_shape_text(&shape, (char[MF_SHAPE_TEXT]){ 0 }),
                       mf_shape_text(&missing->shape, have));
    MF_TRY(check_keys(t, keys));
    mf_tensor_clear(out);
    MF_TRY(mf_tensor_alloc(out, t->value, &shape));
    pthread_mutex_lock(&t->lock);
    st = find_all(t, keys, missing, out);
    pthread_mutex_unlock(&t->lock);
    return st;
}

int64_t mf_table_size(mf_table *t)
{
    int64_t n;

    pthread_mutex_lock(&t->lock);
    n = t->entries.n;
    pthread_mutex_unlock(&t->lock);
    return n;
}
