/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_layout.h - the layout of a status page in its file. Only status_page*.c and
 * flight_recorder.c include it. */
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
    atomic_int wish; /* requested threads; 0: none. Written by other processes */
    mf_status_page page;
} mf_status_page_file;

/* The flight recorder: event number n is in slot n % MF_STATUS_PAGE_EVENTS. */
typedef struct mf_status_page_ring {
    uint64_t n; /* events so far */
    struct {
        atomic_ullong number; /* from 1 on; 0: empty, or being written */
        mf_status_page_event event;
    } events[MF_STATUS_PAGE_EVENTS];
} mf_status_page_ring;

/* The complete file. Only the first part is sent to other hosts. */
typedef struct mf_status_page_area {
    mf_status_page_file file;
    mf_status_page_ring ring;
    mf_status_page_layout layout; /* the requested layout. Written by other processes, then */
    atomic_int layout_request; /* mf_variable_request: MF_VARIABLE_REQUEST_MADE */
    char layout_answer[MF_VARIABLE_REQUEST_TEXT];
    char question[sizeof((mf_status_page_question *)0)->name]; /* Written by other processes,
                                                                  then */
    atomic_llong requester; /* the process that asks; 0: none */
} mf_status_page_area;

/* The mapped page of this process. Once mapped, the address is valid until the process ends,
 * because threads may write activities at any time; without a page it is private memory. NULL:
 * there was no page yet. */
mf_status_page_area *mf_status_page_area_find(void);
/* Map this file at that address; -1: private memory. Thread: one at a time. */
MF_MUST mf_status mf_status_page_area_map(int fd, mf_status_page_area **out);
/* Unmap the page. */
void mf_status_page_area_leave(void);
/* For mf_status_page_computing(). */
void mf_status_page_act_running(int change);

/* Creates a new page and maps it. Fails: as mf_status_page_open(), and if the folder is unusable.
 * Owns: the caller calls mf_status_page_area_leave() and mf_free(*path). Thread: one at a time. */
MF_MUST mf_status mf_status_page_file_make(const char *job, const char *task, int tasks,
                                           mf_status_page_area **out, char **path);
/* The same, visible to this process only. */
MF_MUST mf_status mf_status_page_file_unseen(const char *job, const char *task, int tasks,
                                             mf_status_page_area **out);

/* Locks the page for changes, until the unlocking call below. NULL, without a lock: there is no
 * page. */
mf_status_page *mf_status_page_change(void);
void mf_status_page_changed(mf_status_page *p);

/* Call with the page locked. NULL text: none. */
void mf_status_page_record(mf_status_page_area *a, mf_event kind, int64_t step, int64_t amount,
                           const char *text);
/* Call with the page unlocked. Records only what took long. */
void mf_status_page_note_long(mf_event kind, int64_t since, const char *text);

/* NULL is "". Text that does not fit is truncated. */
void mf_status_page_copy_text(char *to, size_t size, const char *text);
/* Terminates text that was read, and makes it printable. */
void mf_status_page_sanitize_text(char *text, size_t size);
void mf_status_page_sanitize_number(int64_t *n);

/* Links the file `from` to the name of this task, after sweeping dead tasks of the job and tasks
 * that have been dead for a day.
 * ALREADY_EXISTS: the task is alive. */
MF_MUST mf_status mf_status_page_file_link(const char *from, const char *job, const char *task,
                                           char **path);

/* "DIR/job~worker-1". */
void mf_status_page_path(const char *dir, const char *job, const char *task, mf_buf *out);
/* Fails unless only this user can access the folder. `create`: create it if necessary. Fails:
 * NOT_FOUND, PERMISSION_DENIED. */
MF_MUST mf_status mf_status_page_dir_check(const char *dir, bool create);
/* Remove the pages of tasks of other hosts. */
void mf_status_page_drop_kept(void);
/* Reads one page. Fails: NOT_FOUND, DATA_LOSS. */
MF_MUST mf_status mf_status_page_read(const char *path, mf_status_page_seen *out);

#endif
