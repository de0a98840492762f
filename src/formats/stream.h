/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - sequential reading and writing of files, compressed or not. */
#ifndef MF_FORMATS_STREAM_H
#define MF_FORMATS_STREAM_H

#include "base/buf.h"
#include "base/status.h"

typedef enum mf_compression {
    MF_PLAIN,
    MF_GZIP,
    MF_ZLIB,
    MF_DETECT, /* reading only: gzip if it has the signature, else plain */
} mf_compression;

/* "", "GZIP", "ZLIB", as in TensorFlow. Fails: INVALID_ARGUMENT naming the three. */
MF_MUST mf_status mf_compression_find(const char *name, mf_compression *out);

/* ---- reading ---- */

typedef struct mf_reader mf_reader;

/* Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_reader_open(const char *path, mf_compression compression, mf_reader **out);
/* The same for an open file, which the reader closes, also on failure. path: for error messages. */
MF_MUST mf_status mf_reader_open_fd(int fd, const char *path, mf_compression compression,
                                    mf_reader **out);
void mf_reader_close(mf_reader *r);
/* Up to n bytes; *got < n only at the end. Fails: DATA_LOSS (damaged or truncated compressed data;
 * naming file and position). */
MF_MUST mf_status mf_reader_read(mf_reader *r, void *to, size_t n, size_t *got);
/* As above, but fails with DATA_LOSS unless all n bytes are read. */
MF_MUST mf_status mf_reader_read_all(mf_reader *r, void *to, size_t n);
/* Bytes delivered so far. */
int64_t mf_reader_offset(const mf_reader *r);
/* Maximum uncompressed size of the file. A larger size in its contents is invalid. */
int64_t mf_reader_most(const mf_reader *r);
/* Continue at this offset; compressed files are read again up to it. Fails: OUT_OF_RANGE (beyond
 * the end). */
MF_MUST mf_status mf_reader_seek(mf_reader *r, int64_t offset);
const char *mf_reader_path(const mf_reader *r);

/* Reads lines in large pieces. */
typedef struct mf_lines {
    mf_reader *reader; /* borrowed; used by this struct only */
    char *piece; /* initially NULL */
    size_t at, have;
} mf_lines;
/* Reads the next line into `out` (emptied first), without its end and any '\r', as TensorFlow does.
 * *end: no more lines. Fails: RESOURCE_EXHAUSTED (longer than max_bytes). */
MF_MUST mf_status mf_lines_next(mf_lines *lines, size_t max_bytes, mf_buf *out, bool *end);
void mf_lines_deinit(mf_lines *lines);

/* Reads a complete file, uncompressed. Fails: RESOURCE_EXHAUSTED (more than max_bytes). */
MF_MUST mf_status mf_file_unpack(const char *path, mf_compression compression, size_t max_bytes,
                                 mf_buf *out);

/* ---- writing ---- */

typedef struct mf_writer mf_writer;

/* Creates or truncates the file; `append` continues at its end. */
MF_MUST mf_status mf_writer_open(const char *path, mf_compression compression, bool append,
                                 mf_writer **out);
MF_MUST mf_status mf_writer_write(mf_writer *w, const void *data, size_t n);
/* Everything written so far reaches the file (sync: the disk). */
MF_MUST mf_status mf_writer_flush(mf_writer *w, bool sync);
/* Completes the file. The writer is freed in any case. */
MF_MUST mf_status mf_writer_close(mf_writer *w);

#endif
