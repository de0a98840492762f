/* SPDX-License-Identifier: Apache-2.0 */
/* op_path.h - files that ops are told to open: each path is held against the directories that graph
 * ops may reach before anything is touched. */
#ifndef MF_OPS_IO_OP_PATH_H
#define MF_OPS_IO_OP_PATH_H

#include "formats/stream.h"
#include "graph/step_file.h"

#include <limits.h>

/* The most that one string read from a file may hold. */
#define MF_PATH_STRING_MAX ((size_t)1 << 30)

/* Element i of a string tensor as a path that ends: strings from outside may hold NULs. */
MF_MUST mf_status mf_path_read(const mf_tensor *t, int64_t i, char out[PATH_MAX]);
/* A file to read. Fails: NOT_FOUND in TensorFlow's words, PERMISSION_DENIED. */
MF_MUST mf_status mf_path_open(const mf_step *step, const char *path, mf_compression compression,
                               mf_reader **out);
/* The scalar string t as a compression. */
MF_MUST mf_status mf_path_compression(const mf_tensor *t, mf_compression *out);

#endif
