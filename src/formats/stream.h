/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - bytes of a file from front to back, compressed or not. */
#ifndef MF_FORMATS_STREAM_H
#define MF_FORMATS_STREAM_H

#include "base/buf.h"
#include "base/status.h"

typedef enum mf_compression {
    MF_PLAIN,
    MF_GZIP,
    MF_ZLIB,
    MF_DETECT, /* reading only: gzip if it begins so, else plain */
} mf_compression;

/* "", "GZIP", "ZLIB" as TensorFlow spells them. INVALID_ARGUMENT naming the three. */
MF_MUST mf_status mf_compression_find(const char *name, mf_compression *out);

/* ---- reading ---- */

typedef struct mf_reader mf_reader;

/* Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_reader_open(const char *path, mf_compression compression, mf_reader **out);
/* The same of an open file, which the reader closes, also on failure. path: for errors. */
MF_MUST mf_status mf_reader_open_fd(int fd, const char *path, mf_compression compression,
                                    mf_reader **out);
void mf_reader_close(mf_reader *r);
/* Up to n bytes; *got < n only at the end. DATA_LOSS: naming file and place, compressed bytes are
 * damaged or end too soon. */
MF_MUST mf_status mf_reader_read(mf_reader *r, void *to, size_t n, size_t *got);
/* As above, but all n bytes or DATA_LOSS. */
MF_MUST mf_status mf_reader_read_all(mf_reader *r, void *to, size_t n);
/* Bytes given out so far. */
int64_t mf_reader_offset(const mf_reader *r);
/* The most bytes that the file can hold, unpacked: a promise beyond it is a lie. */
int64_t mf_reader_most(const mf_reader *r);
/* Give bytes out from there on; compressed files are read anew up to it. OUT_OF_RANGE: behind the
 * end. */
MF_MUST mf_status mf_reader_seek(mf_reader *r, int64_t offset);
const char *mf_reader_path(const mf_reader *r);

/* Lines, read in large pieces. */
typedef struct mf_lines {
    mf_reader *reader; /* borrowed; nobody else reads from it meanwhile */
    char *piece; /* NULL at first */
    size_t at, have;
} mf_lines;
/* The next line into `out` (emptied first), without its end and without any '\r', as TensorFlow
 * reads lines. *end: there is none. RESOURCE_EXHAUSTED: it is longer than max_bytes. */
MF_MUST mf_status mf_lines_next(mf_lines *lines, size_t max_bytes, mf_buf *out, bool *end);
void mf_lines_deinit(mf_lines *lines);

/* All of a file, unpacked. RESOURCE_EXHAUSTED: more than max_bytes. */
MF_MUST mf_status mf_file_unpack(const char *path, mf_compression compression, size_t max_bytes,
                                 mf_buf *out);

/* ---- writing ---- */

typedef struct mf_writer mf_writer;

/* Creates or empties the file; `append` goes on at its end. */
MF_MUST mf_status mf_writer_open(const char *path, mf_compression compression, bool append,
                                 mf_writer **out);
MF_MUST mf_status mf_writer_write(mf_writer *w, const void *data, size_t n);
/* All written so far reaches the file (sync: the disk). */
MF_MUST mf_status mf_writer_flush(mf_writer *w, bool sync);
/* Ends the file; the writer is gone in any case. */
MF_MUST mf_status mf_writer_close(mf_writer *w);

#endif
