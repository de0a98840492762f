/* SPDX-License-Identifier: Apache-2.0 */
/* generated.h - synthetic data sets: each sample is a pure function of part, seed and id, and
 * follows a rule that a model can learn. */
#ifndef MF_DATA_GENERATED_H
#define MF_DATA_GENERATED_H

#include "base/rng.h"
#include "data/source.h"

/* The random numbers of one sample. */
typedef struct mf_draws {
    mf_philox p;
    uint32_t block[4];
    int left;
} mf_draws;

mf_draws mf_draws_of(uint64_t key, uint64_t stream);
uint32_t mf_draws_next(mf_draws *d);
/* 0 .. n-1 */
int mf_draws_below(mf_draws *d, int n);
/* [0, 1) */
double mf_draws_unit(mf_draws *d);
/* Mean 0, variance 1, approximately normal: a sum of twelve uniform numbers. */
double mf_draws_normal(mf_draws *d);

typedef struct mf_generated {
    mf_dataset base;
    uint64_t seed; /* seed of the samples; the rule does not depend on it */
    bool test;
    bool variant; /* meaning depends on the generator */
    void (*make)(const struct mf_generated *g, mf_draws *d, void *const *columns);
} mf_generated;

/* Settings: part, count and seed. The caller defines the columns. */
#define MF_GENERATED_SETTINGS                                                                      \
    "part: string in ['train','test'] = 'train', count: int >= 0 = 0, seed: int = 0"

/* count: default size of the training part; a test part has a tenth. */
MF_MUST mf_status mf_generated_new(const mf_options *o, int64_t count, int n_columns,
                                   void (*make)(const mf_generated *, mf_draws *, void *const *),
                                   mf_generated **out);
/* Copies unless `to` is NULL. */
void mf_generated_put(void *to, const void *from, size_t bytes);

#endif
