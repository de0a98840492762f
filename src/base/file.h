/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - whole files in and out. */
#ifndef MF_BASE_FILE_H
#define MF_BASE_FILE_H

#include "base/status.h"

/* Read all of a file into fresh memory (one NUL is added behind it). Free with mf_free().
 * Fails: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (larger than max_bytes), DATA_LOSS. */
MF_MUST mf_status mf_file_read(const char *path, size_t max_bytes, char **data, size_t *len);

/* Replace a file whole or not at all: temporary, fsync, rename, fsync of the directory. */
MF_MUST mf_status mf_file_write(const char *path, const void *data, size_t len);

/* The status that says what errno means for `path`: "cannot <verb> '<path>': <reason>". */
mf_status mf_errno_status(int err, const char *verb, const char *path);

#endif
