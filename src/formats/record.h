/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - TFRecord files: a sequence of
 *
 *   uint64 length, uint32 masked CRC-32C of the length, data, uint32 masked CRC-32C of the data
 *
 * The complete file is plain or compressed (GZIP, ZLIB). */
#ifndef MF_FORMATS_RECORD_H
#define MF_FORMATS_RECORD_H

#include "base/buf.h"
#include "formats/stream.h"

/* Reads the next record into `out` (emptied first). Fails: OUT_OF_RANGE (end of file), DATA_LOSS
 * (truncated, damaged, or longer than max_bytes; naming file and position). */
MF_MUST mf_status mf_record_read(mf_reader *r, size_t max_bytes, mf_buf *out);
/* ---- framing ---- */

enum { MF_RECORD_HEADER = 12, MF_RECORD_TRAILER = 4 };

/* False: the checksum of the length does not match. */
bool mf_record_length(const void *header, uint64_t *len);
/* Does the trailer match the data? */
bool mf_record_is_whole(const void *data, size_t len, const void *trailer);
MF_MUST mf_status mf_record_write(mf_writer *w, const void *data, size_t len);

#endif
