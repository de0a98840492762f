/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.h - the status page of a task: a small page in a file that other processes of this
 * user can read at any time, even when the task is stopped or stuck.
 *
 * A process has one page, as it has one standard error. Any part of the library writes to it;
 * without an open page these calls do nothing. The files are in a folder that only this user can
 * access, one per task, and are removed with the task. The page of a killed task is recognised by
 * its missing process.
 *
 * Writing. Fields are guarded by a lock of the process; a sequence count that is odd during changes
 * (a seqlock) lets readers obtain a consistent page. Activities of single threads (acts) are
 * written without the lock. Readers validate everything.
 *
 * Behind the page is the flight recorder: the last events of the task. Because the file is mapped,
 * both survive a task that is killed. */
#ifndef MF_OBSERVE_STATUS_PAGE_H
#define MF_OBSERVE_STATUS_PAGE_H

#include "base/buf.h"
#include "base/process.h"

enum {
    MF_STATUS_PAGE_NAME = 64, /* bytes, with the NUL */
    MF_STATUS_PAGE_TASK = 32,
    MF_STATUS_PAGE_TEXT = 96,
    MF_STATUS_PAGE_WAITS = 4,
    MF_STATUS_PAGE_LINKS = 32,
    MF_STATUS_PAGE_ACTS = 16,
    MF_STATUS_PAGE_WHAT = 112,
    MF_STATUS_PAGE_EVENTS = 256,
    MF_STATUS_PAGE_THREADS_MAX = 1024,
    MF_STATUS_PAGE_COPIES = 32,
};

/* The phase of the training thread. */
typedef enum mf_phase {
    MF_PHASE_START,
    MF_PHASE_LOAD, /* opening data */
    MF_PHASE_INPUT, /* waiting for the next batch */
    MF_PHASE_STEP,
    MF_PHASE_BETWEEN, /* between steps: hooks, events */
    MF_PHASE_EVALUATE,
    MF_PHASE_SAVE,
    MF_PHASE_SERVE, /* parameter server */
    MF_PHASE_END,
    MF_PHASE_WATCH, /* supervisor: watches tasks */
    MF_PHASE_IDLE, /* no data for this task */
    MF_PHASES,
} mf_phase;
/* "waits for input". */
const char *mf_phase_text(mf_phase phase);

/* What time is spent on; at any moment exactly one of these. */
typedef enum mf_use {
    MF_USE_COMPUTE, /* at least one thread runs ops */
    MF_USE_COMMUNICATION, /* no thread does; the task waits for messages from or to other tasks */
    MF_USE_INPUT, /* no thread does; the task waits for a batch */
    MF_USE_IDLE, /* no thread does: saving, events, between steps */
    MF_USES,
} mf_use;
extern const char *const mf_use_names[MF_USES];

/* A thread of the task waits for another task. */
typedef struct mf_status_page_wait {
    char whom[MF_STATUS_PAGE_TASK], where[MF_STATUS_PAGE_NAME]; /* address of the task waited for,
                                                                   or "" */
    char what[MF_STATUS_PAGE_TEXT]; /* "the gradients" */
    int64_t step; /* -1: no step */
    int64_t since_ns; /* 0: no wait in progress */
} mf_status_page_wait;

typedef struct mf_status_page_link {
    char to[MF_STATUS_PAGE_TASK];
    int64_t bytes; /* sent so far */
} mf_status_page_link;

/* On a parameter server: a slice of the weights, its own or a replica of another server's. */
typedef struct mf_status_page_slice {
    char of[MF_STATUS_PAGE_TASK]; /* "ps 1"; "": unused */
    int64_t version; /* updates applied to it */
} mf_status_page_slice;

/* The activity of a thread. */
typedef enum mf_act {
    MF_ACT_NONE,
    MF_ACT_RUN, /* running an op */
    MF_ACT_READ, /* reading a file */
    MF_ACT_WRITE,
    MF_ACTS,
} mf_act;

typedef struct mf_status_page_act {
    int32_t kind; /* mf_act */
    int64_t since_ns;
    char what[MF_STATUS_PAGE_WHAT]; /* the node's name; the last part of the file's */
} mf_status_page_act;

/* Kinds of events. */
typedef enum mf_event {
    MF_EVENT_PHASE, /* a phase began; amount: which */
    MF_EVENT_STEP, /* a step is done */
    MF_EVENT_CALL, /* a collective began; amount: bytes */
    MF_EVENT_CALLED, /* the collective is done; amount: nanoseconds, as below */
    MF_EVENT_WAITED, /* a wait for another task; only long ones */
    MF_EVENT_READ, /* a read of a file; only long ones */
    MF_EVENT_WROTE,
    MF_EVENT_SAID, /* a line on standard error: a warning, an error */
    MF_EVENTS,
} mf_event;

typedef struct mf_status_page_event {
    int64_t at_ns, step, amount; /* step -1: none */
    int32_t kind; /* mf_event */
    char text[60];
} mf_status_page_event;

typedef struct mf_status_page {
    char job[MF_STATUS_PAGE_NAME], task[MF_STATUS_PAGE_TASK], host[MF_STATUS_PAGE_NAME];
    int64_t pid, start; /* mf_process.start */
    /* For a task on another host: the process of this host that shows it. 0: a task of this host.
     */
    int64_t keeper, keeper_start, reported_ns; /* time of the task's last report */
    int64_t opened_ns, changed_ns; /* mf_clock_ns() of this host, as all times */
    int32_t tasks; /* training tasks of the job */
    int32_t phase, computing, talking; /* mf_phase; threads that run ops; collectives in flight */
    int64_t phase_since_ns;
    int64_t step, steps, epoch; /* steps done; total; epoch of the last step */
    int64_t stepped_ns, usual_ns; /* when the last step was done; usual duration of a step */
    double loss, rate; /* of the last step; samples per second of the job */
    int64_t rate_samples, rate_since_ns; /* of the current second */
    int64_t sent; /* bytes, for gradient sums */
    int64_t first_shard, n_shards; /* of a batch; 0 shards: unknown */
    int32_t threads, input_threads; /* compute threads; threads that prepare batches */
    int32_t use; /* current mf_use */
    int64_t began_ns, use_since_ns, used_ns[MF_USES]; /* from began to use_since */
    mf_status_page_wait waits[MF_STATUS_PAGE_WAITS];
    mf_status_page_link links[MF_STATUS_PAGE_LINKS];
    mf_status_page_slice slices[MF_STATUS_PAGE_COPIES]; /* its own slice first */
    mf_status_page_act acts[MF_STATUS_PAGE_ACTS];
} mf_status_page;

/* A requested mesh and layout for a training, in the user's syntax. */
typedef struct mf_status_page_layout {
    char mesh[128], layout[384];
} mf_status_page_layout;

/* States of such a request. */
typedef enum mf_variable_request {
    MF_VARIABLE_REQUEST_NONE,
    MF_VARIABLE_REQUEST_MADE,
    MF_VARIABLE_REQUEST_TAKEN, /* all tasks were asked */
    MF_VARIABLE_REQUEST_DONE,
    MF_VARIABLE_REQUEST_REFUSED,
} mf_variable_request;
enum { MF_VARIABLE_REQUEST_TEXT = 1024 };

/* ---- writing: the page of this process ---- */

/* Fails with INVALID_ARGUMENT unless the name has 1 to 63 letters, digits, '.', '_' and '-', and
 * does not start with '.'. */
MF_MUST mf_status mf_status_page_check_name(const char *job);

/* Show this process as `task` ("worker 1") of `job`. If the folder is unusable, that is logged once
 * and the page is private; everything else works. A second open refers to the first page. Fails:
 * INVALID_ARGUMENT (the name), ALREADY_EXISTS (another process is this task of this job). */
MF_MUST mf_status mf_status_page_open(const char *job, const char *task, int tasks);
/* Rename the job, as its chief requires. Fails like mf_status_page_open(). */
MF_MUST mf_status mf_status_page_rename(const char *job);
/* The name of the job; "": no page. Thread: one at a time with mf_status_page_rename(). */
const char *mf_status_page_job(void);
/* Is the page visible to other processes? Then *task is this task's name. Thread: as above. */
bool mf_status_page_is_seen(const char **task);
void mf_status_page_close(void);

/* All functions below do nothing without a page. Thread: any. */

void mf_status_page_phase(mf_phase phase);
/* Training begins or resumes: uses count from now on. steps: the total. */
void mf_status_page_begin(int64_t step, int64_t steps);
/* The shards of a batch that this task computes. */
void mf_status_page_shards(int64_t first, int64_t n);
/* A step is done. */
void mf_status_page_step(int64_t step, int64_t epoch, int64_t samples, double loss);
void mf_status_page_threads(int threads, int input_threads);
/* Total bytes sent to other tasks for gradient sums, by any transport. */
void mf_status_page_traffic(int64_t bytes);
/* This thread starts (+1) or stops (-1) running ops. */
void mf_status_page_computing(int change);
/* The op that this thread runs. Takes some nanoseconds. */
void mf_status_page_runs(const char *node);
/* This thread begins an activity that may last. Returns a handle for mf_status_page_act_end(),
 * which preserves errno. */
int mf_status_page_act_begin(mf_act act, const char *what);
void mf_status_page_act_end(int act);
/* Record the activities of threads also without a page, for mf_status_page_acts_text(). */
MF_MUST mf_status mf_status_page_watch(void);
/* The ops that run now, and for how long: "'sum' for 3.2 s, 'x/read' for 0.1 s". Nothing if no op
 * runs, or if activities are not recorded. */
void mf_status_page_acts_text(mf_buf *out);
/* A collective begins and ends; begin() returns the value to pass to end(). */
int64_t mf_status_page_call_begin(const char *what, int64_t step, int64_t bytes);
void mf_status_page_call_end(const char *what, int64_t step, int64_t began);
/* For the flight recorder: a line was logged. */
void mf_status_page_logged(const char *text);
/* This parameter server holds this version of a server's slice. "": drops all slices reported so
 * far. */
void mf_status_page_holds(const char *of, int64_t version);
/* A message was sent over a connection. */
void mf_status_page_sent(const char *to, int64_t bytes);
/* Returns a handle for mf_status_page_wait_end(). where may be NULL. */
int mf_status_page_wait_begin(const char *whom, const char *where, const char *what, int64_t step);
void mf_status_page_wait_end(int wait);

/* Time by use until now; false: no page. */
bool mf_status_page_used(int64_t ns[MF_USES]);
/* Take the requested number of threads; 0: no request. */
int mf_status_page_take_thread_request(void);

/* Take the requested layout; false: no request. The caller reports the outcome with
 * mf_status_page_answer_layout() (MF_VARIABLE_REQUEST_MADE: requested again), which has no effect
 * if a newer request exists. */
bool mf_status_page_take_layout(mf_status_page_layout *out);
void mf_status_page_answer_layout(mf_variable_request state, const char *words);

/* A query about this task's variables. */
typedef struct mf_status_page_question {
    int64_t requester; /* the process that asks; 0: none */
    char name[192]; /* name of a variable; "": list all */
} mf_status_page_question;
/* Take the query; false: none. The caller writes the answer to mf_status_page_answer_path(). */
bool mf_status_page_take_question(mf_status_page_question *out);
/* Beside the status page of a task (path NULL: this process's own), readable by this user only.
 * Fails: FAILED_PRECONDITION (this process's page is not visible). */
MF_MUST mf_status mf_status_page_answer_path(const char *path, int64_t requester, mf_buf *out);

/* ---- tasks of other hosts ---- */

/* This process's page, to be sent to another host; false: no page. Owns: the caller calls
 * mf_buf_deinit(out). */
MF_MUST bool mf_status_page_copy(mf_buf *out);
/* Show a page that a task of another host has sent, as `task` of this job, whatever name is in it.
 * Malformed pages are ignored. The copy is removed with this process's page. */
void mf_status_page_keep(const char *task, const void *bytes, size_t n);

/* ---- reading: all tasks ---- */

typedef struct mf_status_page_seen {
    mf_status_page page;
    mf_process process; /* from the kernel, when alive */
    bool alive; /* for a task of another host: the process that shows it is alive */
    char *path;
} mf_status_page_seen;

/* The folder: MESHFLOW_RUN_DIR, $XDG_RUNTIME_DIR/meshflow or /dev/shm/meshflow-UID. It may not
 * exist. */
MF_MUST mf_status mf_status_page_dir(mf_buf *out);
/* All status pages, ordered by job and task. A task that shows itself is preferred over a copy of
 * its page. Other files are ignored. Owns: the caller calls mf_status_pages_free(). */
MF_MUST mf_status mf_status_pages_read(mf_status_page_seen **out, int *n);
void mf_status_pages_free(mf_status_page_seen *boards, int n);
/* Remove pages of dead tasks. Fails: UNAVAILABLE (another process keeps the folder locked). */
MF_MUST mf_status mf_status_pages_sweep(void);
/* Is the task still alive? Also for a page that was read earlier. */
bool mf_status_page_is_alive(const mf_status_page_seen *b);
/* Decode and validate a page: strings are terminated, numbers are in range. Fails: DATA_LOSS. */
MF_MUST mf_status mf_status_page_decode(const void *bytes, size_t n, mf_status_page *out);
/* Time by use, with the current use counted until `now`. */
void mf_status_page_page_used(const mf_status_page *p, int64_t now, int64_t ns[MF_USES]);
/* The flight recorder of a task, oldest event first: at most MF_STATUS_PAGE_EVENTS. *n 0: no
 * recorder, or a task of another host. */
MF_MUST mf_status mf_status_page_events_read(const mf_status_page_seen *b,
                                             mf_status_page_event *out, int *n);
/* The same from the bytes of a recorder; malformed events are skipped. */
void mf_status_page_events_decode(const void *bytes, size_t size, mf_status_page_event *out,
                                  int *n);
/* "step 7 is done". */
void mf_status_page_event_text(const mf_status_page_event *e, mf_buf *out);
/* Ask a task to use this number of threads, from its next step on. */
MF_MUST mf_status mf_status_page_request_threads(const mf_status_page_seen *b, int threads);
/* Ask its job, if it is on a mesh, to continue under this layout. */
MF_MUST mf_status mf_status_page_request_layout(const mf_status_page_seen *b,
                                                const mf_status_page_layout *layout);
/* The outcome as text, once the task has reported it. */
MF_MUST mf_status mf_status_page_layout_answer(const mf_status_page_seen *b,
                                               mf_variable_request *state,
                                               char words[MF_VARIABLE_REQUEST_TEXT]);

/* Query this task, which answers between two steps; asker 0 withdraws the query. */
MF_MUST mf_status mf_status_page_ask(const mf_status_page_seen *b,
                                     const mf_status_page_question *question);

#endif
