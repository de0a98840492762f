/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_cache.c - keeps samples in memory once they are read. If not all fit, the first ones are
 * kept: every epoch visits every sample once, so no other choice is better, and a fixed one needs
 * no bookkeeping. */
#include "base/host_state.h"
#include "base/machine_limits.h"
#include "base/param.h"
#include "data/dataset.h"

#include <string.h>
#include <unistd.h>

MF_PARAM_INT(data_memory_percent, 25,
             "percentage of the memory used to cache samples read from files");

enum { ABSENT, BUSY, PRESENT };

typedef struct dataset_cache {
    mf_dataset base;
    mf_dataset *inner;
    int64_t kept; /* samples 0 .. kept-1 are cached */
    size_t sample; /* bytes of one sample, all columns */
    char *memory; /* [kept * sample], committed as it is filled */
    atomic_uchar *state; /* [kept]. PRESENT is stored after the sample's bytes */
} dataset_cache;

static void dataset_cache_copy_out(const dataset_cache *c, int64_t index, void *const *columns)
{
    void *from[MF_DATASET_COLUMNS] = { NULL };

    (void)mf_dataset_lay_out(&c->base, c->memory + (size_t)index * c->sample, from);
    for (int i = 0; i < c->base.n_columns; i++) {
        if (columns[i])
            memcpy(columns[i], from[i], c->base.bytes[i]);
    }
}

/* Reads all columns into the cache, whichever columns the caller wants. */
static mf_status dataset_cache_fill(const dataset_cache *c, uint64_t epoch, int64_t index)
{
    void *columns[MF_DATASET_COLUMNS] = { NULL };

    (void)mf_dataset_lay_out(&c->base, c->memory + (size_t)index * c->sample, columns);
    return c->inner->ops->read(c->inner, epoch, index, columns);
}

static mf_status cache_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                            void *const *columns)
{
    const dataset_cache *c = (const dataset_cache *)set;
    unsigned char state = ABSENT;
    mf_status st;

    if (index >= c->kept)
        return c->inner->ops->read(c->inner, epoch, index, columns);
    if (atomic_load_explicit(&c->state[index], memory_order_acquire) == PRESENT) {
        dataset_cache_copy_out(c, index, columns);
        return MF_OK;
    }
    if (!atomic_compare_exchange_strong(&c->state[index], &state, BUSY) && state == BUSY)
        return c->inner->ops->read(c->inner, epoch, index, columns); /* another thread is filling
                                                                        it: read without waiting */
    if (state == PRESENT) {
        dataset_cache_copy_out(c, index, columns);
        return MF_OK;
    }
    st = dataset_cache_fill(c, epoch, index);
    if (st == MF_OK)
        dataset_cache_copy_out(c, index, columns);
    atomic_store_explicit(&c->state[index], st == MF_OK ? PRESENT : ABSENT, memory_order_release);
    return st;
}

static int64_t cache_sample_id(const mf_dataset *set, int64_t index)
{
    return mf_dataset_sample_id(((const dataset_cache *)set)->inner, index);
}

static int64_t cache_file(const mf_dataset *set, int64_t index)
{
    return mf_dataset_file(((const dataset_cache *)set)->inner, index);
}

static void cache_deinit(mf_dataset *set)
{
    dataset_cache *c = (dataset_cache *)set;

    mf_free(c->memory);
    mf_free(c->state);
    mf_dataset_unref(c->inner);
}

static const mf_dataset_ops cache_ops = {
    .read = cache_read, .sample_id = cache_sample_id, .file = cache_file, .deinit = cache_deinit
};

/* Of the machine, or of the control group if its limit is lower. */
static size_t share_of_memory(void)
{
    const int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    mf_limits limits;

    mf_params_load();
    mf_limits_get("", &limits);
    return (size_t)((double)(limits.memory > 0 && limits.memory < all ? limits.memory : all) *
                    (double)MF_PARAM(data_memory_percent) / 100.0);
}

static mf_status dataset_cache_fill_in(dataset_cache *c, mf_dataset *inner, size_t max_bytes)
{
    c->inner = mf_dataset_ref(inner);
    MF_TRY(mf_dataset_like(&c->base, inner));
    c->base.count = inner->count;
    c->base.id_count = inner->id_count;
    c->sample = mf_dataset_sample_bytes(inner);
    if (max_bytes == 0)
        max_bytes = share_of_memory();
    c->kept = (int64_t)(max_bytes / (c->sample + 1));
    c->kept = c->kept < inner->count ? c->kept : inner->count;
    c->memory = mf_calloc(c->kept, c->sample);
    c->state = mf_calloc(c->kept, sizeof *c->state);
    return c->memory && c->state ? MF_OK : MF_NOMEM("a cache");
}

mf_status mf_dataset_cache(mf_dataset *set, size_t max_bytes, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    dataset_cache *c;
    mf_status st;

    *out = NULL;
    if (set->varies)
        return MF_FAIL(MF_INVALID_ARGUMENT, "samples that differ between epochs cannot be "
                                            "cached; cache before map or augment");
    MF_TRY(mf_dataset_new(&cache_ops, sizeof *c, set->n_columns, &c));
    st = dataset_cache_fill_in(c, set, max_bytes);
    if (st != MF_OK) {
        mf_dataset_unref(&c->base);
        return st;
    }
    *out = &c->base;
    return MF_OK;
}

static bool reads_files(const mf_dataset *set)
{
    for (int64_t i = 0; i < set->n_files; i++) {
        if (set->files[i])
            return true;
    }
    return false;
}

mf_status mf_dataset_cache_if_it_fits(mf_dataset *set, mf_dataset **out)
{
    const size_t each = mf_dataset_sample_bytes(set) + 1;

    if (!set->varies && reads_files(set) && share_of_memory() / each >= (size_t)set->count)
        return mf_dataset_cache(set, 0, out);
    *out = mf_dataset_ref(set);
    return MF_OK;
}
