/* SPDX-License-Identifier: Apache-2.0 */
/* generated.c - synthetic data sets, computed from part, seed and id of a sample. */
#include "data/generated.h"

#include <string.h>

mf_draws mf_draws_of(uint64_t key, uint64_t stream)
{
    return (mf_draws){ .p = mf_philox_init(key, stream) };
}

uint32_t mf_draws_next(mf_draws *d)
{
    if (d->left == 0) {
        mf_philox_next(&d->p, d->block);
        d->left = 4;
    }
    return d->block[--d->left];
}

int mf_draws_below(mf_draws *d, int n)
{
    return (int)((uint64_t)mf_draws_next(d) * (uint64_t)n >> 32);
}

double mf_draws_unit(mf_draws *d)
{
    return mf_draws_next(d) * 0x1p-32;
}

double mf_draws_normal(mf_draws *d)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += mf_draws_unit(d);
    return sum;
}

void mf_generated_put(void *to, const void *from, size_t bytes)
{
    if (to)
        memcpy(to, from, bytes);
}

static mf_status generated_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                                void *const *columns)
{
    const mf_generated *g = (const mf_generated *)set;
    /* parts use different streams, so no sample is in both */
    mf_draws d = mf_draws_of(g->seed, (uint64_t)index << 1 | g->test);

    (void)epoch;
    g->make(g, &d, columns);
    return MF_OK;
}

static const mf_dataset_ops generated_ops = { .read = generated_read };

mf_status mf_generated_new(const mf_options *o, int64_t count, int n_columns,
                           void (*make)(const mf_generated *, mf_draws *, void *const *),
                           mf_generated **out)
{
    MF_TRY(mf_dataset_new(&generated_ops, sizeof **out, n_columns, out));
    (*out)->test = strcmp(mf_options_string(o, "part"), "test") == 0;
    (*out)->seed = (uint64_t)mf_options_int(o, "seed");
    (*out)->make = make;
    if (mf_options_int(o, "count") > 0)
        count = mf_options_int(o, "count");
    else if ((*out)->test)
        count /= 10;
    (*out)->base.count = (*out)->base.id_count = count;
    return MF_OK;
}
