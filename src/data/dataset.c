/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - common parts of all data sets. */
#include "data/dataset.h"

#include "base/host_state.h"

#include <string.h>

mf_status mf_dataset_new(const mf_dataset_ops *ops, size_t size, int n_columns, void *out)
{
    mf_dataset *set;

    memset(out, 0, sizeof(void *));
    if (n_columns < 1 || n_columns > MF_DATASET_COLUMNS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a data set has 1 to %d columns, not %d",
                       MF_DATASET_COLUMNS, n_columns);
    set = mf_calloc(1, size);
    if (!set)
        return MF_NOMEM("a data set");
    atomic_init(&set->refs, 1);
    set->arena = mf_arena_new();
    if (!set->arena) {
        mf_free(set);
        return MF_NOMEM("a data set");
    }
    set->ops = ops;
    set->n_columns = n_columns;
    set->columns = MF_ARENA_ARRAY(set->arena, mf_column, n_columns);
    set->bytes = MF_ARENA_ARRAY(set->arena, size_t, n_columns);
    if (!set->columns || !set->bytes) {
        set->ops = NULL; /* its deinit must not run on a partly initialized set */
        mf_dataset_unref(set);
        return MF_NOMEM("a data set");
    }
    memcpy(out, &set, sizeof set);
    return MF_OK;
}

mf_dataset *mf_dataset_ref(mf_dataset *set)
{
    if (set)
        atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

void mf_dataset_unref(mf_dataset *set)
{
    MF_ENTRY_OR();

    if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (set->ops && set->ops->deinit)
        set->ops->deinit(set);
    mf_arena_free(set->arena);
    mf_free(set);
}

/* Models and settings look up columns by name. */
static mf_status dataset_check_name(const mf_dataset *set, int i, const char *name)
{
    if (!*name)
        return MF_FAIL(MF_INVALID_ARGUMENT, "column %d of the data has an empty name", i);
    for (int k = 0; k < i; k++) {
        if (set->columns[k].name && strcmp(set->columns[k].name, name) == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "two columns of the data are named '%s'", name);
    }
    return MF_OK;
}

mf_status mf_dataset_set_column(mf_dataset *set, int i, const char *name, mf_dtype dtype,
                                const mf_shape *shape)
{
    mf_column *c = &set->columns[i];
    int64_t count, bytes;

    MF_TRY(dataset_check_name(set, i, name));
    if (!mf_dtype_is_valid((int)dtype) || !mf_dtype_is_plain(dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "column '%s' has the type %s, but samples must be "
                       "numbers",
                       name, mf_dtype_name(dtype));
    MF_TRY(mf_shape_count(shape, &count));
    if (shape->rank >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "column '%s' has rank %d; with the batch dimension the maximum is %d", name,
                       shape->rank, MF_MAX_RANK);
    if (!mf_mul_i64(count, (int64_t)mf_dtype_size(dtype), &bytes))
        return MF_FAIL(MF_INVALID_ARGUMENT, "column '%s' is too large", name);
    *c = (mf_column){ .name = mf_arena_strdup(set->arena, name), .dtype = dtype };
    c->rank = shape->rank;
    memcpy(c->dims, shape->dims, sizeof c->dims);
    set->bytes[i] = (size_t)bytes;
    return c->name ? MF_OK : MF_NOMEM("a data set");
}

static mf_status dataset_copy_names(mf_arena *arena, const char *const *names, int64_t n,
                                    const char *const **out)
{
    const char **copy = MF_ARENA_ARRAY(arena, const char *, n);

    if (!copy)
        return MF_NOMEM("names");
    for (int64_t i = 0; i < n; i++) {
        copy[i] = mf_arena_strdup(arena, names[i]);
        if (!copy[i])
            return MF_NOMEM("names");
    }
    *out = copy;
    return MF_OK;
}

mf_status mf_dataset_set_classes(mf_dataset *set, const char *const *names, int64_t n)
{
    set->classes = n;
    return dataset_copy_names(set->arena, names, n, &set->class_names);
}

mf_status mf_dataset_set_fields(mf_dataset *set, const char *const *names, int64_t n)
{
    set->n_fields = n;
    return dataset_copy_names(set->arena, names, n, &set->fields);
}

mf_status mf_dataset_like(mf_dataset *set, const mf_dataset *other)
{
    MF_ASSERT(set->n_columns == other->n_columns);
    for (int i = 0; i < set->n_columns; i++) {
        const mf_column *c = &other->columns[i];
        mf_shape shape = { .rank = c->rank };

        memcpy(shape.dims, c->dims, sizeof shape.dims);
        MF_TRY(mf_dataset_set_column(set, i, c->name, c->dtype, &shape));
    }
    set->classes = other->classes;
    set->varies = other->varies;
    set->files = other->files;
    set->n_files = other->n_files;
    if (other->fields)
        MF_TRY(mf_dataset_set_fields(set, other->fields, other->n_fields));
    if (other->class_names)
        return mf_dataset_set_classes(set, other->class_names, other->classes);
    return MF_OK;
}

int mf_dataset_find_column(const mf_dataset *set, const char *name)
{
    for (int i = 0; i < set->n_columns; i++) {
        if (strcmp(set->columns[i].name, name) == 0)
            return i;
    }
    return -1;
}

static size_t dataset_padded(size_t bytes)
{
    return (bytes + MF_SAMPLE_ALIGN - 1) / MF_SAMPLE_ALIGN * MF_SAMPLE_ALIGN;
}

size_t mf_dataset_sample_bytes(const mf_dataset *set)
{
    size_t n = 0;

    for (int i = 0; i < set->n_columns; i++)
        n += dataset_padded(set->bytes[i]);
    return n;
}

char *mf_dataset_lay_out(const mf_dataset *set, char *at, void **columns)
{
    for (int i = 0; i < set->n_columns; i++) {
        columns[i] = at;
        at += dataset_padded(set->bytes[i]);
    }
    return at;
}

/* ---- public functions ---- */

int64_t mf_dataset_count(const mf_dataset *set)
{
    return set ? set->count : 0;
}

int mf_dataset_columns(const mf_dataset *set, const mf_column **columns)
{
    if (!set)
        return 0;

    if (columns)
        *columns = set->columns;
    return set->n_columns;
}

int64_t mf_dataset_classes(const mf_dataset *set, const char *const **names)
{
    if (!set)
        return 0;

    if (names)
        *names = set->class_names;
    return set->classes;
}

mf_status mf_dataset_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                          void *const *columns)
{
    MF_ENTRY;
    MF_NEED(set, columns);

    if (index < 0 || index >= set->count)
        return MF_FAIL(MF_OUT_OF_RANGE, "there is no sample %lld: the data set has %lld",
                       (long long)index, (long long)set->count);
    return set->ops->read(set, epoch, index, columns);
}

int64_t mf_dataset_sample_id(const mf_dataset *set, int64_t index)
{
    MF_ENTRY_OR(0);
    if (!set)
        return 0;

    return set->ops->sample_id ? set->ops->sample_id(set, index) : index;
}

/* ---- scratch ---- */

void mf_scratch_init(mf_scratch *s, size_t bytes)
{
    s->bytes = bytes;
    s->free = NULL;
    atomic_flag_clear(&s->lock);
}

void mf_scratch_deinit(mf_scratch *s)
{
    while (s->free) {
        mf_scratch_block *next = s->free->next;

        mf_free(s->free);
        s->free = next;
    }
}

/* A spinlock: only two pointers change under it. */
static void scratch_lock(mf_scratch *s)
{
    while (atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire))
        ;
}

mf_status mf_scratch_take(mf_scratch *s, mf_scratch_block **out)
{
    scratch_lock(s);
    *out = s->free;
    if (*out)
        s->free = (*out)->next;
    atomic_flag_clear_explicit(&s->lock, memory_order_release);
    if (!*out)
        *out = mf_calloc(1, sizeof **out + s->bytes);
    return *out ? MF_OK : MF_NOMEM("a sample");
}

void mf_scratch_give(mf_scratch *s, mf_scratch_block *block)
{
    scratch_lock(s);
    block->next = s->free;
    s->free = block;
    atomic_flag_clear_explicit(&s->lock, memory_order_release);
}
