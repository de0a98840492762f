/* SPDX-License-Identifier: Apache-2.0 */
/* generated.h - data sets that need no files: each sample is a pure function of part, seed and id,
 * and follows a rule that a model can learn. */
#ifndef MF_DATA_GENERATED_H
#define MF_DATA_GENERATED_H

#include "base/rng.h"
#include "data/source.h"

/* Random numbers of one sample, one after the other. */
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
/* Mean 0, variance 1, nearly normal: a sum of twelve. */
double mf_draws_normal(mf_draws *d);

typedef struct mf_generated {
    mf_dataset base;
    uint64_t seed; /* of the samples; the rule itself does not depend on it */
    bool test;
    bool variant; /* the generator's own */
    void (*make)(const struct mf_generated *g, mf_draws *d, void *const *columns);
} mf_generated;

/* part, count and seed out of the settings; columns are the caller's to set. */
#define MF_GENERATED_SETTINGS                                                                      \
    "part: string in ['train','test'] = 'train', count: int >= 0 = 0, seed: int = 0"

/* count: of the training part when none is given; a test part has a tenth. */
MF_MUST mf_status mf_generated_new(const mf_options *o, int64_t count, int n_columns,
                                   void (*make)(const mf_generated *, mf_draws *, void *const *),
                                   mf_generated **out);
/* Copy to where it is wanted. */
void mf_generated_put(void *to, const void *from, size_t bytes);

#endif
