/* SPDX-License-Identifier: Apache-2.0 */
/* board_file.h - how a board lies in its file. Only board*.c includes it. */
#ifndef MF_BASE_BOARD_FILE_H
#define MF_BASE_BOARD_FILE_H

#include "base/board.h"

#include <stdatomic.h>

enum { MF_BOARD_VERSION = 1, MF_BOARD_TRIES = 100 };
#define MF_BOARD_MAGIC "mfboard"

typedef struct mf_board_file {
    char magic[8];
    uint32_t version, bytes; /* of this struct */
    atomic_uint seq; /* odd: the page is being written */
    atomic_int wish; /* threads; 0: none. Others write it */
    mf_board_page page;
} mf_board_file;

/* A new board, and where it is. Fails: as mf_board_open(), and where the folder cannot be used.
 * Owns: munmap(), mf_free(*path). */
MF_MUST mf_status mf_board_file_make(const char *job, const char *task, int tasks,
                                     mf_board_file **out, char **path);
/* One that only this process sees. */
MF_MUST mf_status mf_board_file_unseen(const char *job, const char *task, int tasks,
                                       mf_board_file **out);
/* The file `from` gets the name of this task, once dead tasks of the job, and those that have been
 * dead for a day, are swept away.
 * ALREADY_EXISTS: the task lives. */
MF_MUST mf_status mf_board_file_link(const char *from, const char *job, const char *task,
                                     char **path);

/* "DIR/job~worker-1". */
void mf_board_path(const char *dir, const char *job, const char *task, mf_buf *out);
/* Is the folder ours alone? `create`: make it if need be. Fails: NOT_FOUND, PERMISSION_DENIED. */
MF_MUST mf_status mf_board_dir_check(const char *dir, bool create);
/* Those of other hosts go. */
void mf_board_drop_kept(void);
/* One board. Fails: NOT_FOUND, DATA_LOSS. */
MF_MUST mf_status mf_board_read(const char *path, mf_board_seen *out);

#endif
