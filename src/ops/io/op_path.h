/* SPDX-License-Identifier: Apache-2.0 */
/* op_path.h - files that ops open: each path is checked against the allowed directories before any
 * file is touched. */
#ifndef MF_OPS_IO_OP_PATH_H
#define MF_OPS_IO_OP_PATH_H

#include "formats/stream.h"
#include "graph/step_file.h"

#include <limits.h>

/* Maximum length of a string that is read from a file. */
#define MF_PATH_STRING_MAX ((size_t)1 << 30)

/* Element i of a string tensor as a C string; fails if it contains NULs. */
MF_MUST mf_status mf_path_read(const mf_tensor *t, int64_t i, char out[PATH_MAX]);
/* Opens a file for reading. Fails: NOT_FOUND with TensorFlow's message, PERMISSION_DENIED. */
MF_MUST mf_status mf_path_open(const mf_step *step, const char *path, mf_compression compression,
                               mf_reader **out);
/* The scalar string t as a compression. */
MF_MUST mf_status mf_path_compression(const mf_tensor *t, mf_compression *out);

#endif
