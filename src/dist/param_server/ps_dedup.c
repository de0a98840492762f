/* SPDX-License-Identifier: Apache-2.0 */
/* ps_dedup.c - the set of batches that are in the weights of a parameter server: a batch that is
 * pushed twice is recognized. Batches are done nearly in order, so there are few bits. */
#include "dist/param_server/ps_dedup.h"

#include "base/mem.h"
#include "dist/param_server/strategy_param_server.h"

#include <string.h>

enum { AHEAD = 1 << 30 }; /* how far a batch may be from the first that is not done */

void mf_ps_dedup_reset(mf_ps_dedup *d, int64_t start)
{
    d->start = d->base = start;
    d->words = d->n = 0;
}

void mf_ps_dedup_deinit(mf_ps_dedup *d)
{
    mf_free(d->bits);
    *d = (mf_ps_dedup){ 0 };
}

bool mf_ps_dedup_has(const mf_ps_dedup *d, int64_t batch)
{
    const int64_t at = batch - d->base;

    if (at < 0)
        return batch >= d->start;
    return at / 64 < d->words && (d->bits[at / 64] >> (at % 64) & 1);
}

/* Batches without a gap from the first need no bits. */
static void advance(mf_ps_dedup *d)
{
    int64_t full = 0;

    while (full < d->words && d->bits[full] == UINT64_MAX)
        full++;
    if (full == 0)
        return;
    d->words -= full;
    memmove(d->bits, d->bits + full, (size_t)d->words * sizeof *d->bits);
    d->base += 64 * full;
}

mf_status mf_ps_dedup_check(const mf_ps_dedup *d, int64_t batch)
{
    if (batch < d->start || batch - d->base >= AHEAD)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no batch %lld in this training",
                       (long long)batch);
    return MF_OK;
}

mf_status mf_ps_dedup_add(mf_ps_dedup *d, int64_t batch)
{
    const int64_t at = batch - d->base, word = at / 64;

    MF_TRY(mf_ps_dedup_check(d, batch));
    if (mf_ps_dedup_has(d, batch))
        return MF_OK;
    MF_TRY(mf_grow(&d->bits, &d->cap, word + 1, sizeof *d->bits));
    for (; d->words <= word; d->words++)
        d->bits[d->words] = 0;
    d->bits[word] |= UINT64_C(1) << (at % 64);
    d->n++;
    advance(d);
    return MF_OK;
}

void mf_ps_dedup_write(const mf_ps_dedup *d, mf_buf *out)
{
    const int64_t head[] = { d->start, d->base, d->words, d->n };

    mf_buf_bytes(out, head, sizeof head);
    mf_buf_bytes(out, d->bits, (size_t)d->words * sizeof *d->bits);
}

mf_status mf_ps_dedup_read(mf_ps_dedup *d, mf_ps_reader *in)
{
    int64_t head[4];
    const void *from = mf_ps_reader_take(in, MF_COUNT(head), sizeof *head), *bits;

    if (!from)
        return MF_FAIL(MF_DATA_LOSS, "a copy of a parameter server is cut short");
    memcpy(head, from, sizeof head);
    bits = mf_ps_reader_take(in, head[2], sizeof *d->bits);
    if (!bits)
        return MF_FAIL(MF_DATA_LOSS, "a copy of a parameter server is cut short");
    MF_TRY(mf_grow(&d->bits, &d->cap, head[2], sizeof *d->bits));
    if (head[2] > 0)
        memcpy(d->bits, bits, (size_t)head[2] * sizeof *d->bits);
    d->start = head[0];
    d->base = head[1];
    d->words = head[2];
    d->n = head[3];
    return MF_OK;
}
