/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_layout.h - how a board lies in its file. Only board*.c includes it. */
#ifndef MF_OBSERVE_STATUS_PAGE_LAYOUT_H
#define MF_OBSERVE_STATUS_PAGE_LAYOUT_H

#include "observe/status_page.h"

#include <stdatomic.h>

enum { MF_STATUS_PAGE_VERSION = 5, MF_STATUS_PAGE_TRIES = 10000 };
#define MF_STATUS_PAGE_MAGIC "mfboard"

typedef struct mf_status_page_file {
    char magic[8];
    uint32_t version, bytes; /* of this struct */
    atomic_uint seq; /* odd: the page is being written */
    atomic_int wish; /* threads; 0: none. Others write it */
    mf_status_page page;
} mf_status_page_file;

/* The recorder: event number n lies in place n % MF_STATUS_PAGE_EVENTS. */
typedef struct mf_status_page_ring {
    uint64_t n; /* events so far */
    struct {
        atomic_ullong number; /* from 1 on; 0: none, or being written */
        mf_status_page_event event;
    } events[MF_STATUS_PAGE_EVENTS];
} mf_status_page_ring;

/* All of the file. What is told to other hosts is the first part. */
typedef struct mf_status_page_area {
    mf_status_page_file file;
    mf_status_page_ring ring;
    mf_status_page_layout layout; /* wished for. Others write it, then */
    atomic_int layout_wish; /* mf_variable_request: MF_VARIABLE_REQUEST_MADE */
    char layout_answer[MF_VARIABLE_REQUEST_TEXT];
    char question[sizeof((mf_status_page_question *)0)->name]; /* Others write it, then */
    atomic_llong asker; /* who asks; 0: nobody */
} mf_status_page_area;

/* Where this process's board is in memory, from the first one on for ever: threads may write acts
 * to it at any time. Without a board that is memory nobody reads. NULL: there was none yet. */
mf_status_page_area *mf_status_page_area_find(void);
/* From now on it is this file's memory; -1: nobody else's. Thread: one at a time. */
MF_MUST mf_status mf_status_page_area_map(int fd, mf_status_page_area **out);
/* The board is no more. */
void mf_status_page_area_leave(void);
/* For mf_status_page_computing(). */
void mf_status_page_act_running(int change);

/* A new board, and where it is. Fails: as mf_status_page_open(), and where the folder cannot be
 * used. Owns: mf_status_page_area_leave(), mf_free(*path). Thread: one at a time. */
MF_MUST mf_status mf_status_page_file_make(const char *job, const char *task, int tasks,
                                           mf_status_page_area **out, char **path);
/* One that only this process sees. */
MF_MUST mf_status mf_status_page_file_unseen(const char *job, const char *task, int tasks,
                                             mf_status_page_area **out);

/* Between these two the page may change. NULL, and no lock: there is no board. */
mf_status_page *mf_status_page_change(void);
void mf_status_page_changed(mf_status_page *p);

/* Between the two. NULL text: none. */
void mf_status_page_record(mf_status_page_area *a, mf_event kind, int64_t step, int64_t amount,
                           const char *text);
/* Not between them, where it took long enough to be of interest. */
void mf_status_page_note_long(mf_event kind, int64_t since, const char *text);

/* NULL: nothing. Of what does not fit, the beginning. */
void mf_status_page_copy_text(char *to, size_t size, const char *text);
/* What was read as text ends, and can be printed. */
void mf_status_page_mend_text(char *text, size_t size);
void mf_status_page_mend_number(int64_t *n);

/* The file `from` gets the name of this task, once dead tasks of the job, and those that have been
 * dead for a day, are swept away.
 * ALREADY_EXISTS: the task lives. */
MF_MUST mf_status mf_status_page_file_link(const char *from, const char *job, const char *task,
                                           char **path);

/* "DIR/job~worker-1". */
void mf_status_page_path(const char *dir, const char *job, const char *task, mf_buf *out);
/* Is the folder ours alone? `create`: make it if need be. Fails: NOT_FOUND, PERMISSION_DENIED. */
MF_MUST mf_status mf_status_page_dir_check(const char *dir, bool create);
/* Those of other hosts go. */
void mf_status_page_drop_kept(void);
/* One board. Fails: NOT_FOUND, DATA_LOSS. */
MF_MUST mf_status mf_status_page_read(const char *path, mf_status_page_seen *out);

#endif
