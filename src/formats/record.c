/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - reads and writes the records of TFRecord files. */
#include "formats/record.h"

#include "base/mem.h"
#include "formats/crc32c.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed numbers are little-endian");

enum { STEP = 1 << 20 }; /* memory is allocated in steps, because the length is untrusted */

static uint32_t masked(const void *data, size_t len)
{
    return mf_crc32c_mask(mf_crc32c(0, data, len));
}

static mf_status record_damaged(const mf_reader *r, int64_t at, const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "'%s': the record at byte %lld %s", mf_reader_path(r),
                   (long long)at, what);
}

bool mf_record_length(const void *header, uint64_t *len)
{
    uint32_t crc;

    memcpy(len, header, sizeof *len);
    memcpy(&crc, (const char *)header + sizeof *len, sizeof crc);
    return masked(header, sizeof *len) == crc;
}

bool mf_record_is_whole(const void *data, size_t len, const void *trailer)
{
    uint32_t crc;

    memcpy(&crc, trailer, sizeof crc);
    return masked(data, len) == crc;
}

mf_status mf_record_read(mf_reader *r, size_t max_bytes, mf_buf *out)
{
    const int64_t at = mf_reader_offset(r);
    char header[MF_RECORD_HEADER], trailer[MF_RECORD_TRAILER];
    uint64_t len;
    size_t got;

    mf_buf_clear(out);
    MF_TRY(mf_reader_read(r, header, sizeof header, &got));
    if (got == 0)
        return MF_FAIL(MF_OUT_OF_RANGE, "'%s' has no more records", mf_reader_path(r));
    if (got < sizeof header)
        return record_damaged(r, at, "is cut");
    if (!mf_record_length(header, &len))
        return record_damaged(r, at, "has a damaged length");
    if (len > max_bytes)
        return record_damaged(r, at, "is longer than allowed");
    while (out->len < len) {
        const size_t some = len - out->len < STEP ? (size_t)(len - out->len) : STEP;
        void *to = mf_buf_room(out, some);

        if (!to)
            return MF_NOMEM("a record");
        MF_TRY(mf_reader_read(r, to, some, &got));
        if (got < some)
            return record_damaged(r, at, "is cut");
    }
    MF_TRY(mf_reader_read(r, trailer, sizeof trailer, &got));
    if (got < sizeof trailer)
        return record_damaged(r, at, "is cut");
    if (!mf_record_is_whole(out->data, out->len, trailer))
        return record_damaged(r, at, "is damaged");
    return MF_OK;
}

mf_status mf_record_write(mf_writer *w, const void *data, size_t len)
{
    const uint64_t n = len;
    const uint32_t of_length = masked(&n, sizeof n), of_data = masked(data, len);

    MF_TRY(mf_writer_write(w, &n, sizeof n));
    MF_TRY(mf_writer_write(w, &of_length, sizeof of_length));
    MF_TRY(mf_writer_write(w, data, len));
    return mf_writer_write(w, &of_data, sizeof of_data);
}
