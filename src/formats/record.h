/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - TFRecord files:
 *
 *   uint64 length, uint32 masked CRC-32C of the length, data, uint32 masked CRC-32C of the data
 *
 * one after the other, the whole file plain or compressed (GZIP, ZLIB). */
#ifndef MF_FORMATS_RECORD_H
#define MF_FORMATS_RECORD_H

#include "base/buf.h"
#include "formats/stream.h"

/* The next record into `out` (emptied first). OUT_OF_RANGE: the file has ended.
 * DATA_LOSS: cut, damaged, or longer than max_bytes; names file and place. */
MF_MUST mf_status mf_record_read(mf_reader *r, size_t max_bytes, mf_buf *out);
/* ---- the framing by itself ---- */

enum { MF_RECORD_HEADER = 12, MF_RECORD_TRAILER = 4 };

/* false: the checksum of the length does not fit. */
bool mf_record_length(const void *header, uint64_t *len);
/* Does the trailer behind the data fit to it? */
bool mf_record_is_whole(const void *data, size_t len, const void *trailer);
MF_MUST mf_status mf_record_write(mf_writer *w, const void *data, size_t len);

#endif
