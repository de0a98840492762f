/* SPDX-License-Identifier: Apache-2.0 */
/* jobqueue.h - a queue of jobs in a folder. Each job is a command: a user submits it, a daemon
 * starts it, and any process can read its state. All state is in files, so it survives the death of
 * the daemon, of the submitting process, and of the machine.
 *
 *     DIR/NAME/job       the record of the job (job_order_codec.c)
 *     DIR/NAME/run       its watcher: process id and start time
 *     DIR/NAME/tries     how often it has been started
 *     DIR/NAME/cancel    it was cancelled
 *     DIR/NAME/end       how it ended; written once
 *     DIR/NAME/log       its output
 *     DIR/.daemon        locked by the daemon
 *
 * The watcher of a job (job_watcher.c) is a separate process that outlives the daemon. */
#ifndef MF_JOBQUEUE_JOBQUEUE_H
#define MF_JOBQUEUE_JOBQUEUE_H

#include "base/buf.h"
#include "base/mem.h"

#include <signal.h>

enum { MF_JOBQUEUE_BYTES = 4 << 20, MF_JOBQUEUE_TEXT = 256 };
enum { MF_JOBQUEUE_GRACE_S = 10, MF_JOBQUEUE_MOST_GRACE_S = 86400 };

typedef enum mf_jobqueue_state {
    MF_JOBQUEUE_QUEUED, /* waits for slots, or for the jobs of --after */
    MF_JOBQUEUE_RUNS,
    MF_JOBQUEUE_DONE,
    MF_JOBQUEUE_FAILED,
    MF_JOBQUEUE_CANCELLED,
    MF_JOBQUEUE_STOPPED, /* ended early with MF_EXIT_STOPPED, and can be resumed */
    MF_JOBQUEUE_LOST, /* its watcher is dead: the daemon restarts the job, or records its end */
} mf_jobqueue_state;
const char *mf_jobqueue_state_text(mf_jobqueue_state state);
static inline bool mf_jobqueue_is_over(mf_jobqueue_state s)
{
    return s == MF_JOBQUEUE_DONE || s == MF_JOBQUEUE_FAILED || s == MF_JOBQUEUE_CANCELLED ||
           s == MF_JOBQUEUE_STOPPED;
}

/* The record of a job. Strings are borrowed. */
typedef struct mf_jobqueue_order {
    int64_t submitted_ns; /* since 1970; jobs start in this order */
    int64_t slots; /* that it occupies */
    int64_t restarts; /* after failures, at most */
    int64_t grace_s; /* time to end after a cancellation */
    const char *cwd;
    const char *const *words, *const *environment; /* each ends with NULL */
    const char *const *after; /* jobs that must be done before; ends with NULL */
    int64_t n_words, n_environment, n_after;
} mf_jobqueue_order;

typedef struct mf_jobqueue_job {
    char *name;
    mf_jobqueue_order order;
    mf_jobqueue_state state;
    int64_t pid; /* of its watcher, if it runs */
    int64_t tries;
    int64_t exit_code; /* if it has ended */
    char how[MF_JOBQUEUE_TEXT]; /* in words: "ended with exit code 1" */
} mf_jobqueue_job;

/* The folder of the queue: `given`, else MESHFLOW_SPOOL, else .meshflow/jobs in the home folder.
 * Owns: mf_buf_deinit(out). Fails: FAILED_PRECONDITION (none of them exists). */
MF_MUST mf_status mf_jobqueue_dir(const char *given, mf_buf *out);
/* "DIR/NAME/FILE". Owns: mf_buf_deinit(out). */
MF_MUST mf_status mf_jobqueue_path(const char *dir, const char *name, const char *file,
                                   mf_buf *out);

/* Adds a job. Fails: ALREADY_EXISTS, INVALID_ARGUMENT (the name), NOT_FOUND (a job of --after). */
MF_MUST mf_status mf_jobqueue_submit(const char *dir, const char *name,
                                     const mf_jobqueue_order *order);
/* Reads one job. Fails: NOT_FOUND, DATA_LOSS. */
MF_MUST mf_status mf_jobqueue_read(const char *dir, const char *name, mf_arena *arena,
                                   mf_jobqueue_job *out);
/* Reads all jobs, the oldest first; other files are skipped. */
MF_MUST mf_status mf_jobqueue_list(const char *dir, mf_arena *arena, mf_jobqueue_job **out, int *n);
/* Ends the job, or keeps it from starting. *job: its state at that moment. FAILED_PRECONDITION: it
 * has ended. */
MF_MUST mf_status mf_jobqueue_cancel(const char *dir, mf_arena *arena, mf_jobqueue_job *job);
/* A job that has not started and waits for that one; NULL: none. */
const mf_jobqueue_job *mf_jobqueue_find_waiting(const mf_jobqueue_job *jobs, int n,
                                                const char *name);
/* Removes an ended job with all its files. FAILED_PRECONDITION: it has not ended. */
MF_MUST mf_status mf_jobqueue_forget(const char *dir, const mf_jobqueue_job *job);
/* True if a daemon serves this folder. */
bool mf_jobqueue_has_daemon(const char *dir);

/* ---- for the daemon ---- */

/* Starts jobs until *stop, with at most `slots` slots occupied. Running jobs survive its end.
 * Fails: ALREADY_EXISTS (another daemon serves the folder). */
MF_MUST mf_status mf_jobqueue_serve(const char *dir, int64_t slots,
                                    const volatile sig_atomic_t *stop);
/* Starts the watcher of a job, which runs the job. Returns its process id; -1 after a failure,
 * which is the thread's error. */
int64_t mf_jobqueue_start(const char *dir, const mf_jobqueue_job *job);
/* Kills the processes of a job whose watcher is dead. The environment distinguishes them from
 * processes of a newer session with the same id. */
void mf_jobqueue_kill(const char *name, int64_t watcher);
/* Records the end of a job: an exit code from 0 to 255, and a text. Only the first record counts.
 */
MF_MUST mf_status mf_jobqueue_write_end(const char *dir, const char *name, mf_jobqueue_state state,
                                        int code, const char *how);

/* ---- the file `job` ---- */

MF_MUST mf_status mf_jobqueue_encode(const mf_jobqueue_order *order, mf_buf *out);
/* Owns: strings are in the arena. Fails: DATA_LOSS. */
MF_MUST mf_status mf_jobqueue_decode(const char *bytes, size_t n, mf_arena *arena,
                                     mf_jobqueue_order *out);

#endif
