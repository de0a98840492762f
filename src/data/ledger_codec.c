/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_codec.c - encodes the records of a ledger. */
#include "base/mem.h"
#include "data/ledger.h"
#include "formats/table.h"

#include <string.h>

enum { VERSION = 1, HAS_IDS = 1, DROPS = 2, BY_FILE = 4 };

static const char magic[8] = { 'M', 'F', 'L', 'E', 'D', 'G', 'E', 'R' };

void mf_ledger_encode_info(const mf_ledger_info *info, mf_buf *out)
{
    const size_t n = strlen(info->name);

    mf_buf_bytes(out, magic, sizeof magic);
    mf_varint_write(out, VERSION);
    mf_varint_write(out, (info->ids ? HAS_IDS : 0) | (info->drop_partial ? DROPS : 0) |
                             (info->sliced > 0 ? BY_FILE : 0));
    mf_varint_write(out, (uint64_t)info->count);
    mf_varint_write(out, (uint64_t)info->id_count);
    mf_varint_write(out, info->seed);
    mf_varint_write(out, (uint64_t)info->batch);
    if (info->sliced > 0)
        mf_varint_write(out, (uint64_t)info->sliced);
    mf_varint_write(out, n);
    mf_buf_bytes(out, info->name, n);
    if (info->ids)
        mf_buf_bytes(out, info->ids, ((size_t)info->id_count + 7) / 8);
}

static mf_status ledger_codec_damaged(const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "the ledger's %s is damaged", what);
}

static bool ledger_codec_read_count(const char **p, const char *end, int64_t *out)
{
    uint64_t v;

    if (!mf_varint_read(p, end, &v) || v > INT64_MAX / 16)
        return false;
    *out = (int64_t)v;
    return true;
}

mf_status mf_ledger_decode_info(const void *data, size_t len, mf_ledger_info *out, size_t *name_len)
{
    const char *p = data, *end = p + len;
    uint64_t version, flags;
    int64_t n;

    *out = (mf_ledger_info){ 0 };
    if (len < sizeof magic || memcmp(p, magic, sizeof magic) != 0)
        return MF_FAIL(MF_DATA_LOSS, "the file is not a ledger of samples");
    p += sizeof magic;
    if (!mf_varint_read(&p, end, &version))
        return ledger_codec_damaged("header");
    if (version != VERSION)
        return MF_FAIL(MF_DATA_LOSS, "the ledger has version %llu; this program reads %d",
                       (unsigned long long)version, VERSION);
    if (!mf_varint_read(&p, end, &flags) || !ledger_codec_read_count(&p, end, &out->count) ||
        !ledger_codec_read_count(&p, end, &out->id_count) || !mf_varint_read(&p, end, &out->seed) ||
        !ledger_codec_read_count(&p, end, &out->batch) ||
        ((flags & BY_FILE) != 0 &&
         (!ledger_codec_read_count(&p, end, &out->sliced) || out->sliced == 0)) ||
        !ledger_codec_read_count(&p, end, &n) || n > end - p || out->count > out->id_count)
        return ledger_codec_damaged("header");
    out->name = p;
    *name_len = (size_t)n;
    p += n;
    out->drop_partial = (flags & DROPS) != 0;
    if ((flags & HAS_IDS) != 0)
        out->ids = (const unsigned char *)p;
    if (end - p != ((flags & HAS_IDS) != 0 ? (out->id_count + 7) / 8 : 0))
        return ledger_codec_damaged("header");
    return MF_OK;
}

/* Delta-encoded zigzag varints. */
static void encode_ids(const int64_t *ids, int64_t n, mf_buf *out)
{
    int64_t before = 0;

    mf_varint_write(out, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t d = ids[i] - before;

        mf_varint_write(out, (uint64_t)d << 1 ^ (d < 0 ? UINT64_MAX : 0));
        before = ids[i];
    }
}

void mf_ledger_encode_entry(int64_t step, const mf_batch *batch, int64_t n_skipped, mf_buf *out)
{
    const int64_t used = batch->n - n_skipped;

    mf_varint_write(out, (uint64_t)step);
    mf_varint_write(out, (uint64_t)batch->epoch);
    mf_varint_write(out, (uint64_t)batch->first);
    encode_ids(batch->ids, used, out);
    if (n_skipped > 0)
        encode_ids(batch->ids + used, n_skipped, out);
}

/* Appends to the `have` ids already decoded. */
static mf_status decode_ids(const char **p, const char *end, int64_t have, mf_ledger_entry *e,
                            int64_t *n)
{
    int64_t id = 0;

    if (!ledger_codec_read_count(p, end, n) || *n > end - *p)
        return ledger_codec_damaged("entry");
    MF_TRY(mf_grow(&e->ids, &e->cap, have + *n, sizeof *e->ids));
    for (int64_t i = 0; i < *n; i++) {
        uint64_t z;

        if (!mf_varint_read(p, end, &z) ||
            __builtin_add_overflow(id, (int64_t)(z >> 1) ^ -(int64_t)(z & 1), &id) || id < 0)
            return ledger_codec_damaged("entry");
        e->ids[have + i] = id;
    }
    return MF_OK;
}

mf_status mf_ledger_decode_entry(const void *data, size_t len, mf_ledger_entry *e)
{
    const char *p = data, *end = p + len;

    e->n_skipped = 0;
    if (!ledger_codec_read_count(&p, end, &e->step) ||
        !ledger_codec_read_count(&p, end, &e->epoch) ||
        !ledger_codec_read_count(&p, end, &e->first))
        return ledger_codec_damaged("entry");
    MF_TRY(decode_ids(&p, end, 0, e, &e->n));
    if (p < end)
        MF_TRY(decode_ids(&p, end, e->n, e, &e->n_skipped));
    return p == end ? MF_OK : ledger_codec_damaged("entry");
}
