/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - whole files in and out. */
#ifndef MF_BASE_FILE_H
#define MF_BASE_FILE_H

#include "base/status.h"

/* Read all of a file into fresh memory (one NUL is added behind it). Free with mf_free().
 * Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (larger than max_bytes), DATA_LOSS. */
MF_MUST mf_status mf_file_read(const char *path, size_t max_bytes, char **data, size_t *len);

/* The same of an open file, which is closed. path: for errors. */
MF_MUST mf_status mf_file_read_fd(int fd, const char *path, size_t max_bytes, char **data,
                                  size_t *len);

typedef struct mf_file_part {
    const void *data;
    size_t len;
} mf_file_part;

/* Create a file beside `path` that will be renamed to it: "PATH.tmp-XXXXXX". Its mode is that of
 * the file it replaces, or of a new file under the process's umask. Owns: close(*fd),
 * mf_free(*name). */
MF_MUST mf_status mf_file_temporary(const char *path, char **name, int *fd);
/* Replace a file whole or not at all: temporary, fsync, rename, fsync of the directory. */
MF_MUST mf_status mf_file_write(const char *path, const void *data, size_t len);
/* The same for bytes that lie in several places. */
MF_MUST mf_status mf_file_write_parts(const char *path, const mf_file_part *parts, int64_t n);

/* Is it a folder of this user alone (mode 0700)? Fails: NOT_FOUND, PERMISSION_DENIED. */
MF_MUST mf_status mf_dir_check_own(const char *path);
/* The same; what is missing is made, with the folders that lead to it. */
MF_MUST mf_status mf_dir_make_own(const char *path);

/* The status that says what errno means for `path`: "cannot <verb> '<path>': <reason>". */
mf_status mf_errno_status(int err, const char *verb, const char *path);

#endif
