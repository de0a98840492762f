/* SPDX-License-Identifier: Apache-2.0 */
/* jobqueue.h - a folder of jobs, each a command: those who want one done put it there, a daemon
 * starts them, and everybody can look. All that is known is in files, so that nobody who dies takes
 * anything with him: neither a daemon, nor whoever has submitted a job, nor a machine.
 *
 *     DIR/NAME/job       what is to be done (job_record.c)
 *     DIR/NAME/run       the process that watches over it: number and start
 *     DIR/NAME/tries     how often it has been started
 *     DIR/NAME/cancel    somebody does not want it any more
 *     DIR/NAME/end       how it ended; written once
 *     DIR/NAME/log       what it has said
 *     DIR/.daemon        locked by the daemon
 *
 * Whoever watches over a job (job_watcher.c) is a process of its own that outlives the daemon. */
#ifndef MF_JOBQUEUE_JOBQUEUE_H
#define MF_JOBQUEUE_JOBQUEUE_H

#include "base/buf.h"
#include "base/mem.h"

#include <signal.h>

enum { MF_JOBQUEUE_BYTES = 4 << 20, MF_JOBQUEUE_TEXT = 256 };
enum { MF_JOBQUEUE_GRACE_S = 10, MF_JOBQUEUE_MOST_GRACE_S = 86400 };

typedef enum mf_jobqueue_state {
    MF_JOBQUEUE_QUEUED, /* it waits for slots, or for jobs that it comes after */
    MF_JOBQUEUE_RUNS,
    MF_JOBQUEUE_DONE,
    MF_JOBQUEUE_FAILED,
    MF_JOBQUEUE_CANCELLED,
    MF_JOBQUEUE_STOPPED, /* before its end: it ended with MF_EXIT_STOPPED, and can be resumed */
    MF_JOBQUEUE_LOST, /* whoever watched over it is dead: the daemon starts it again, or ends it */
} mf_jobqueue_state;
const char *mf_jobqueue_state_text(mf_jobqueue_state state);
static inline bool mf_jobqueue_is_over(mf_jobqueue_state s)
{
    return s == MF_JOBQUEUE_DONE || s == MF_JOBQUEUE_FAILED || s == MF_JOBQUEUE_CANCELLED ||
           s == MF_JOBQUEUE_STOPPED;
}

/* What is to be done. Strings belong to whoever has made it. */
typedef struct mf_jobqueue_order {
    int64_t submitted_ns; /* since 1970: the order in which they start */
    int64_t slots; /* that it takes */
    int64_t restarts; /* after a failure, at most */
    int64_t grace_s; /* when it is cancelled, to end by itself */
    const char *cwd;
    const char *const *words, *const *environment; /* ended by NULL, as is */
    const char *const *after; /* jobs that must be done first */
    int64_t n_words, n_environment, n_after;
} mf_jobqueue_order;

typedef struct mf_jobqueue_job {
    char *name;
    mf_jobqueue_order order;
    mf_jobqueue_state state;
    int64_t pid; /* of the process that watches over it, if it runs */
    int64_t tries;
    int64_t exit_code; /* if it is over */
    char how[MF_JOBQUEUE_TEXT]; /* in words: "ended with exit code 1" */
} mf_jobqueue_job;

/* Where jobs are unless told: MESHFLOW_SPOOL, else .meshflow/jobs of the user's folder.
 * Owns: mf_buf_deinit(out). Fails: FAILED_PRECONDITION (there is no such folder). */
MF_MUST mf_status mf_jobqueue_dir(const char *told, mf_buf *out);
/* "DIR/NAME/FILE". Owns: mf_buf_deinit(out). */
MF_MUST mf_status mf_jobqueue_path(const char *dir, const char *name, const char *file,
                                   mf_buf *out);

/* Puts it there. Fails: ALREADY_EXISTS, INVALID_ARGUMENT (the name), NOT_FOUND (a job it comes
 * after). */
MF_MUST mf_status mf_jobqueue_submit(const char *dir, const char *name,
                                     const mf_jobqueue_order *order);
/* One job. Fails: NOT_FOUND, DATA_LOSS. */
MF_MUST mf_status mf_jobqueue_look(const char *dir, const char *name, mf_arena *arena,
                                   mf_jobqueue_job *out);
/* All of them, the oldest first; what is no job is passed over. */
MF_MUST mf_status mf_jobqueue_list(const char *dir, mf_arena *arena, mf_jobqueue_job **out, int *n);
/* It shall end, or not begin; *job is how it stood when that was decided. FAILED_PRECONDITION: it
 * is over. */
MF_MUST mf_status mf_jobqueue_cancel(const char *dir, mf_arena *arena, mf_jobqueue_job *job);
/* Which of these jobs is still to begin and comes after that one; NULL: none. */
const mf_jobqueue_job *mf_jobqueue_find_waiting(const mf_jobqueue_job *jobs, int n,
                                                const char *name);
/* All that is known of a job that is over goes. FAILED_PRECONDITION: it is not. */
MF_MUST mf_status mf_jobqueue_forget(const char *dir, const mf_jobqueue_job *job);
/* Is a daemon at work? */
bool mf_jobqueue_has_daemon(const char *dir);

/* ---- for the daemon ---- */

/* Starts jobs, so that at most `slots` are taken, until *stop. Jobs go on without it.
 * Fails: ALREADY_EXISTS (another one is at work). */
MF_MUST mf_status mf_jobqueue_serve(const char *dir, int64_t slots,
                                    const volatile sig_atomic_t *stop);
/* A process that does this job, and watches over it: its number; -1 after a failure, which is the
 * thread's error. */
int64_t mf_jobqueue_start(const char *dir, const mf_jobqueue_job *job);
/* All processes of the job that this watcher, which is dead, had. Others whose session has the same
 * number by now are told by their environment, and left alone. */
void mf_jobqueue_kill(const char *name, int64_t watcher);
/* It is over: 0 to 255, and in words. The first one counts. */
MF_MUST mf_status mf_jobqueue_write_end(const char *dir, const char *name, mf_jobqueue_state state,
                                        int code, const char *how);

/* ---- the file `job` ---- */

MF_MUST mf_status mf_jobqueue_encode(const mf_jobqueue_order *order, mf_buf *out);
/* Owns: strings are in the arena. Fails: DATA_LOSS. */
MF_MUST mf_status mf_jobqueue_decode(const char *bytes, size_t n, mf_arena *arena,
                                     mf_jobqueue_order *out);

#endif
