/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - reading and writing complete files. */
#ifndef MF_BASE_FILE_H
#define MF_BASE_FILE_H

#include "base/status.h"

/* Read a complete file into new memory (followed by a NUL). Free with mf_free().
 * Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (larger than max_bytes), DATA_LOSS. */
MF_MUST mf_status mf_file_read(const char *path, size_t max_bytes, char **data, size_t *len);

/* The same for an open file, which is closed. path: for error messages. */
MF_MUST mf_status mf_file_read_fd(int fd, const char *path, size_t max_bytes, char **data,
                                  size_t *len);

typedef struct mf_file_part {
    const void *data;
    size_t len;
} mf_file_part;

/* Create a file beside `path`, "PATH.tmp-XXXXXX", that will be renamed to it. It has the mode of
 * the file it replaces, or of a new file under the process's umask. Owns: the caller calls
 * close(*fd) and mf_free(*name). */
MF_MUST mf_status mf_file_temporary(const char *path, char **name, int *fd);
/* Replace a file atomically: temporary file, fsync, rename, fsync of the directory. */
MF_MUST mf_status mf_file_write(const char *path, const void *data, size_t len);
/* The same for bytes in several buffers. */
MF_MUST mf_status mf_file_write_parts(const char *path, const mf_file_part *parts, int64_t n);

/* MF_OK if `path` is a folder of this user only (mode 0700). Fails: NOT_FOUND, PERMISSION_DENIED.
 */
MF_MUST mf_status mf_dir_check_own(const char *path);
/* The same, and creates the folder and its parents if they are missing. */
MF_MUST mf_status mf_dir_make_own(const char *path);

/* The status that corresponds to errno for `path`: "cannot <verb> '<path>': <reason>". */
mf_status mf_errno_status(int err, const char *verb, const char *path);

#endif
