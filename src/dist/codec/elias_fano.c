/* SPDX-License-Identifier: Apache-2.0 */
/* elias_fano.c - encodes and decodes sorted integers with Elias-Fano. */
#include "dist/codec/elias_fano.h"

static bool get_bit(const uint8_t *bits, int64_t at)
{
    return (bits[at / 8] >> (at % 8) & 1) != 0;
}

static void set_bit(uint8_t *bits, int64_t at)
{
    bits[at / 8] = (uint8_t)(bits[at / 8] | 1u << (at % 8));
}

mf_elias_fano mf_elias_fano_layout(int64_t limit, int64_t count)
{
    mf_elias_fano a = { .limit = limit, .count = count };

    MF_ASSERT(count >= 1 && count <= limit && limit < (int64_t)1 << 48);
    while (limit / count >> (a.low + 1) > 0)
        a.low++;
    a.high_at = (count * a.low + 7) / 8;
    a.high_bits = count + ((limit - 1) >> a.low);
    a.bytes = a.high_at + (a.high_bits + 7) / 8;
    return a;
}

void mf_elias_fano_put(const mf_elias_fano *a, uint8_t *out, int64_t i, int64_t value)
{
    for (int b = 0; b < a->low; b++) {
        if (value >> b & 1)
            set_bit(out, i * a->low + b);
    }
    set_bit(out + a->high_at, (value >> a->low) + i);
}

mf_status mf_elias_fano_next(const mf_elias_fano *a, mf_elias_fano_reader *r, int64_t *value)
{
    const uint8_t *high = r->in + a->high_at;
    int64_t v;

    while (r->bit < a->high_bits && !get_bit(high, r->bit))
        r->bit += r->bit % 8 == 0 && high[r->bit / 8] == 0 ? 8 : 1;
    if (r->bit >= a->high_bits)
        return MF_FAIL(MF_DATA_LOSS, "%lld numbers, not %lld", (long long)r->i,
                       (long long)a->count);
    v = (r->bit - r->i) << a->low;
    for (int b = 0; b < a->low; b++)
        v |= (int64_t)get_bit(r->in, r->i * a->low + b) << b;
    if (v <= r->last || v >= a->limit)
        return MF_FAIL(MF_DATA_LOSS, "%lld after %lld, of %lld", (long long)v, (long long)r->last,
                       (long long)a->limit);
    r->last = v;
    r->i++;
    r->bit++;
    *value = v;
    return MF_OK;
}

mf_status mf_elias_fano_end(const mf_elias_fano *a, const mf_elias_fano_reader *r)
{
    int64_t bit = r->bit;
    bool more = false;

    for (; bit < 8 * (a->bytes - a->high_at); bit++)
        more |= get_bit(r->in + a->high_at, bit);
    for (bit = a->count * a->low; bit < 8 * a->high_at; bit++)
        more |= get_bit(r->in, bit);
    if (more)
        return MF_FAIL(MF_DATA_LOSS, "more than %lld numbers", (long long)a->count);
    return MF_OK;
}
