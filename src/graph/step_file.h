/* SPDX-License-Identifier: Apache-2.0 */
/* step_file.h - files of graph ops: a path that a graph names is held against the directories that
 * graph ops may reach (--allow-dir) before anything is touched.
 *
 * Links may lead from one place to another inside of these directories. A path outside of them is
 * refused in the same way whether it exists or not. A file is opened without following links below
 * the allowed directory, by its resolved name: a link that another process puts there between the
 * check and the opening leads nowhere. */
#ifndef MF_GRAPH_STEP_FILE_H
#define MF_GRAPH_STEP_FILE_H

#include "graph/op.h"

#include <limits.h>

/* Fails: NOT_FOUND (inside, and its directory does not exist), PERMISSION_DENIED naming the path
 * and
 * --allow-dir. */
MF_MUST mf_status mf_step_file(const mf_step *step, const char *path);

/* Open the file as open() does; a new file's mode is that of the umask. Owns: close(*fd).
 * Fails: as mf_step_file() and open(); INVALID_ARGUMENT: neither file nor directory. */
MF_MUST mf_status mf_step_open(const mf_step *step, const char *path, int flags, int *fd);

/* The directory of a file that is to be written or renamed, held open. */
typedef struct mf_step_pin {
    int dir;
    const char *name; /* the path as the graph has it */
    char path[PATH_MAX + 32]; /* of the file, in the directory that is held */
} mf_step_pin;

/* Fails: as mf_step_file(). Owns: mf_step_unpin(); `path` is to live as long. */
MF_MUST mf_status mf_step_pin_file(const mf_step *step, const char *path, mf_step_pin *out);
/* Returns `st`; the message of a failure, which names pin->path, gets the graph's path. */
mf_status mf_step_unpin(mf_step_pin *pin, mf_status st);

#endif
