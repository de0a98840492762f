/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - a growing byte buffer with a sticky error: the first failure is kept, later calls do
 * nothing, mf_buf_finish() returns it once. */
#ifndef MF_BASE_BUF_H
#define MF_BASE_BUF_H

#include "base/status.h"

typedef struct mf_buf {
    char *data; /* always NUL-terminated when not NULL; the NUL is not counted in len */
    size_t len;
    int64_t cap;
    bool failed;
} mf_buf;

void mf_buf_deinit(mf_buf *buf);
void mf_buf_bytes(mf_buf *buf, const void *data, size_t len);
/* Append n bytes for the caller to fill; NULL when there is no memory. */
MF_MUST void *mf_buf_room(mf_buf *buf, size_t n);
/* Empty it, keeping the memory. */
void mf_buf_clear(mf_buf *buf);
void mf_buf_str(mf_buf *buf, const char *s);
void mf_buf_printf(mf_buf *buf, const char *fmt, ...) MF_PRINTF(2, 3);
/* Append as a quoted C / protobuf-text string; non-printable bytes as octal escapes. */
void mf_buf_quoted(mf_buf *buf, const char *s, size_t len);
/* Append as a JSON string; bytes that are not UTF-8 text are written as \u00XX. */
void mf_buf_json(mf_buf *buf, const char *s, size_t len);
/* "0.25"; "null" for NaN and Inf, which JSON cannot represent. */
void mf_buf_json_number(mf_buf *buf, double value);
MF_MUST mf_status mf_buf_finish(mf_buf *buf);

#endif
