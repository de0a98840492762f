/* SPDX-License-Identifier: Apache-2.0 */
/* ps_dedup.h - which batches are in the weights of a parameter server, so that a batch that is done
 * again, because its worker was lost before it got the reply, is not applied twice. */
#ifndef MF_DIST_PARAM_SERVER_PS_DEDUP_H
#define MF_DIST_PARAM_SERVER_PS_DEDUP_H

#include "base/buf.h"

struct mf_ps_reader;

typedef struct mf_ps_dedup {
    int64_t start; /* the first batch of the training */
    int64_t base; /* all batches from start up to this one are done, and those of the bits after it
                   */
    uint64_t *bits; /* of word i: batches base + 64 i and on */
    int64_t words, cap;
    int64_t n; /* that are done */
} mf_ps_dedup;

/* No batch is done; the first will be `start`. */
void mf_ps_dedup_reset(mf_ps_dedup *d, int64_t start);
void mf_ps_dedup_deinit(mf_ps_dedup *d);
bool mf_ps_dedup_has(const mf_ps_dedup *d, int64_t batch);
/* INVALID_ARGUMENT: no such batch. */
MF_MUST mf_status mf_ps_dedup_check(const mf_ps_dedup *d, int64_t batch);
/* The same. */
MF_MUST mf_status mf_ps_dedup_add(mf_ps_dedup *d, int64_t batch);

/* Its bytes, and back. DATA_LOSS. */
void mf_ps_dedup_write(const mf_ps_dedup *d, mf_buf *out);
MF_MUST mf_status mf_ps_dedup_read(mf_ps_dedup *d, struct mf_ps_reader *in);

#endif
