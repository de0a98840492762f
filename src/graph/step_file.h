/* SPDX-License-Identifier: Apache-2.0 */
/* step_file.h - file access of graph ops: a path in a graph is checked against the directories that
 * graph ops may access (--allow-dir) before the file system is touched.
 *
 * Links may lead from one place to another inside these directories. A path outside them is refused
 * in the same way whether it exists or not. A file is opened by its resolved name, without
 * following links below the allowed directory, so a link that another process creates between the
 * check and the open has no effect. */
#ifndef MF_GRAPH_STEP_FILE_H
#define MF_GRAPH_STEP_FILE_H

#include "graph/op.h"

#include <limits.h>

/* Fails: NOT_FOUND (inside, but its directory does not exist), PERMISSION_DENIED naming the path
 * and --allow-dir. */
MF_MUST mf_status mf_step_file(const mf_step *step, const char *path);

/* Open the file as open() does; a new file has the mode of the umask. Owns: the caller calls
 * close(*fd). Fails: as mf_step_file() and open(); INVALID_ARGUMENT (neither file nor directory).
 */
MF_MUST mf_status mf_step_open(const mf_step *step, const char *path, int flags, int *fd);

/* The directory of a file to be written or renamed, held open. */
typedef struct mf_step_pin {
    int dir;
    const char *name; /* the path in the graph */
    char path[PATH_MAX + 32]; /* of the file, in the open directory */
} mf_step_pin;

/* Fails: as mf_step_file(). Owns: the caller calls mf_step_unpin(); `path` must stay valid until
 * then. */
MF_MUST mf_status mf_step_pin_file(const mf_step *step, const char *path, mf_step_pin *out);
/* Returns `st`; in the message of a failure, pin->path is replaced by the graph's path. */
mf_status mf_step_unpin(mf_step_pin *pin, mf_status st);

#endif
