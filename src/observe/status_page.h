/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.h - what a task shows of itself while it trains: a small page in a file that other
 * processes of this user can read at any time, also when the task is stopped or stuck.
 *
 * A process has one board, like it has one standard error: whoever has something to show writes it
 * there, and without an open board nothing happens. Files lie in a folder of this user only, one
 * for each task, and go with it. What a killed task leaves behind is known by its process being
 * gone.
 *
 * Writing. Fields are guarded by a lock of the process; a count that is odd while something changes
 * (a seqlock) lets readers see a whole page. What single threads are at (acts) is written without a
 * lock. Reading trusts nothing.
 *
 * Behind the page is a recorder: the last events of the task. As the file is mapped, both outlive a
 * task that is killed. */
#ifndef MF_OBSERVE_STATUS_PAGE_H
#define MF_OBSERVE_STATUS_PAGE_H

#include "base/buf.h"
#include "base/process.h"

enum {
    MF_STATUS_PAGE_NAME = 64, /* bytes, with the zero */
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

/* What the thread that trains is at. */
typedef enum mf_phase {
    MF_PHASE_START,
    MF_PHASE_LOAD, /* opens data */
    MF_PHASE_INPUT, /* the next batch is not there yet */
    MF_PHASE_STEP,
    MF_PHASE_BETWEEN, /* steps: hooks, events */
    MF_PHASE_EVALUATE,
    MF_PHASE_SAVE,
    MF_PHASE_SERVE, /* a parameter server */
    MF_PHASE_END,
    MF_PHASE_WATCH, /* a master: it sees to it that there are tasks */
    MF_PHASE_IDLE, /* there is no data for this task */
    MF_PHASES,
} mf_phase;
/* "waits for input". */
const char *mf_phase_text(mf_phase phase);

/* What time goes into; at every moment exactly one of them. */
typedef enum mf_use {
    MF_USE_COMPUTE, /* at least one thread runs ops */
    MF_USE_COMMUNICATION, /* none does, because of what other tasks have to send or take */
    MF_USE_INPUT, /* none does, for want of a batch */
    MF_USE_IDLE, /* none does: saving, events, between steps */
    MF_USES,
} mf_use;
extern const char *const mf_use_names[MF_USES];

/* A thread of the task waits for another task. */
typedef struct mf_status_page_wait {
    char whom[MF_STATUS_PAGE_TASK], where[MF_STATUS_PAGE_NAME]; /* where: its address, or "" */
    char what[MF_STATUS_PAGE_TEXT]; /* "the gradients" */
    int64_t step; /* -1: of none */
    int64_t since_ns; /* 0: nobody waits here */
} mf_status_page_wait;

typedef struct mf_status_page_link {
    char to[MF_STATUS_PAGE_TASK];
    int64_t bytes; /* sent so far */
} mf_status_page_link;

/* Of a parameter server: a slice of the weights, its own or a copy of another's. */
typedef struct mf_status_page_slice {
    char of[MF_STATUS_PAGE_TASK]; /* "ps 1"; "": none */
    int64_t version; /* updates that went into it */
} mf_status_page_slice;

/* What one thread is at. */
typedef enum mf_act {
    MF_ACT_NONE,
    MF_ACT_RUN, /* an op */
    MF_ACT_READ, /* a file */
    MF_ACT_WRITE,
    MF_ACTS,
} mf_act;

typedef struct mf_status_page_act {
    int32_t kind; /* mf_act */
    int64_t since_ns;
    char what[MF_STATUS_PAGE_WHAT]; /* the node's name; the end of the file's */
} mf_status_page_act;

/* What has happened. */
typedef enum mf_event {
    MF_EVENT_PHASE, /* one began; amount: which */
    MF_EVENT_STEP, /* is done */
    MF_EVENT_CALL, /* a collective began; amount: bytes */
    MF_EVENT_CALLED, /* it is over; amount: nanoseconds, as below */
    MF_EVENT_WAITED, /* for another task; only what took long */
    MF_EVENT_READ, /* a file; the same */
    MF_EVENT_WROTE,
    MF_EVENT_SAID, /* on standard error: a warning, an error */
    MF_EVENTS,
} mf_event;

typedef struct mf_status_page_event {
    int64_t at_ns, step, amount; /* step -1: of none */
    int32_t kind; /* mf_event */
    char text[60];
} mf_status_page_event;

typedef struct mf_status_page {
    char job[MF_STATUS_PAGE_NAME], task[MF_STATUS_PAGE_TASK], host[MF_STATUS_PAGE_NAME];
    int64_t pid, start; /* mf_process.start */
    /* Of a task on another host, the process that shows it here; 0: it is of this host. */
    int64_t keeper, keeper_start, told_ns; /* when the task has told of itself */
    int64_t opened_ns, changed_ns; /* mf_clock_ns() of this host, as are all times */
    int32_t tasks; /* of the job that take part in training */
    int32_t phase, computing, talking; /* mf_phase; threads that run ops; collectives under way */
    int64_t phase_since_ns;
    int64_t step, steps, epoch; /* done; in all; of the last step */
    int64_t stepped_ns, usual_ns; /* when the last step was done; what a step takes */
    double loss, rate; /* of the last step; samples of the whole job in a second */
    int64_t rate_samples, rate_since_ns; /* of the second that is not over yet */
    int64_t sent; /* bytes, for sums of gradients */
    int64_t first_shard, n_shards; /* of a batch; 0 shards: not known */
    int32_t threads, input_threads; /* that compute, and that make batches */
    int32_t use; /* mf_use of now */
    int64_t began_ns, use_since_ns, used_ns[MF_USES]; /* from began to use_since */
    mf_status_page_wait waits[MF_STATUS_PAGE_WAITS];
    mf_status_page_link links[MF_STATUS_PAGE_LINKS];
    mf_status_page_slice slices[MF_STATUS_PAGE_COPIES]; /* its own first */
    mf_status_page_act acts[MF_STATUS_PAGE_ACTS];
} mf_status_page;

/* Another mesh and layout for a training, as its user writes them. */
typedef struct mf_status_page_layout {
    char mesh[128], layout[384];
} mf_status_page_layout;

/* What becomes of a wish for one. */
typedef enum mf_variable_request {
    MF_VARIABLE_REQUEST_NONE,
    MF_VARIABLE_REQUEST_MADE,
    MF_VARIABLE_REQUEST_TAKEN, /* all tasks are asked */
    MF_VARIABLE_REQUEST_DONE,
    MF_VARIABLE_REQUEST_REFUSED,
} mf_variable_request;
enum { MF_VARIABLE_REQUEST_TEXT = 1024 };

/* ---- writing: the process's own board ---- */

/* A name is 1 to 63 letters, digits, '.', '_' and '-', and no '.' at first. INVALID_ARGUMENT says
 * so. */
MF_MUST mf_status mf_status_page_check_name(const char *job);

/* Show this process as `task` ("worker 1") of `job`. Where the folder cannot be used that is logged
 * once and nobody sees the board, but all else works. A second board of a process is the first one.
 * Fails: INVALID_ARGUMENT (the name), ALREADY_EXISTS (another process is this task of this job). */
MF_MUST mf_status mf_status_page_open(const char *job, const char *task, int tasks);
/* The job is called otherwise: its chief has said so. Fails like mf_status_page_open(). */
MF_MUST mf_status mf_status_page_rename(const char *job);
/* The name of the job; "": there is no board. Thread: one at a time with mf_status_page_rename().
 */
const char *mf_status_page_job(void);
/* Do others see it? Then *task is our name there. Thread: as above. */
bool mf_status_page_is_seen(const char **task);
void mf_status_page_close(void);

/* All of these do nothing without a board. Thread: any. */

void mf_status_page_phase(mf_phase phase);
/* Training begins, or begins again: uses count from now on. steps: in all. */
void mf_status_page_begin(int64_t step, int64_t steps);
/* Which of a batch are this task's. */
void mf_status_page_shards(int64_t first, int64_t n);
/* A step is done. */
void mf_status_page_step(int64_t step, int64_t epoch, int64_t samples, double loss);
void mf_status_page_threads(int threads, int input_threads);
/* So many bytes in all went to others for sums of gradients; by whichever way. */
void mf_status_page_traffic(int64_t bytes);
/* This thread begins to run ops (+1) or ends (-1). */
void mf_status_page_computing(int change);
/* Between the two: which one. Some nanoseconds. */
void mf_status_page_runs(const char *node);
/* This thread begins something that may last; returns a number for mf_status_page_act_end(), which
 * leaves errno as it is. */
int mf_status_page_act_begin(mf_act act, const char *what);
void mf_status_page_act_end(int act);
/* Remember what threads are at also without a board, for mf_status_page_acts_text(). */
MF_MUST mf_status mf_status_page_watch(void);
/* What threads run now, and for how long: "'sum' for 3.2 s, 'x/read' for 0.1 s"; nothing when none
 * runs an op, or nobody has asked to remember. */
void mf_status_page_acts_text(mf_buf *out);
/* A collective begins and ends; the beginning is what the end is told. */
int64_t mf_status_page_call_begin(const char *what, int64_t step, int64_t bytes);
void mf_status_page_call_end(const char *what, int64_t step, int64_t began);
/* For the recorder: something was said. */
void mf_status_page_said(const char *text);
/* A server holds this version of a server's slice; "": only what it is told of from now on. */
void mf_status_page_holds(const char *of, int64_t version);
/* A message over a connection. */
void mf_status_page_sent(const char *to, int64_t bytes);
/* Returns a number for mf_status_page_wait_end(). where may be NULL. */
int mf_status_page_wait_begin(const char *whom, const char *where, const char *what, int64_t step);
void mf_status_page_wait_end(int wait);

/* Times by use until now; false: there is no board. */
bool mf_status_page_used(int64_t ns[MF_USES]);
/* How many threads somebody wishes, once; 0: nobody does. */
int mf_status_page_take_wish(void);

/* The layout that somebody wishes, once; false: nobody does. mf_status_page_answer_layout() is to
 * say what became of it (MF_VARIABLE_REQUEST_MADE: it is wished again), in words, and is of no
 * effect when another wish was made meanwhile. */
bool mf_status_page_take_layout(mf_status_page_layout *out);
void mf_status_page_answer_layout(mf_variable_request state, const char *words);

/* What somebody wants to know of this task's variables. */
typedef struct mf_status_page_question {
    int64_t asker; /* its process; 0: nobody asks */
    char name[192]; /* of a variable; "": which ones are there? */
} mf_status_page_question;
/* Once; false: nobody asks. Whoever takes it is to write the answer to
 * mf_status_page_answer_path(). */
bool mf_status_page_take_question(mf_status_page_question *out);
/* Beside the board of a task (board NULL: our own), where only this user can read it. Fails:
 * FAILED_PRECONDITION (nobody sees our board). */
MF_MUST mf_status mf_status_page_answer_path(const char *board, int64_t asker, mf_buf *out);

/* ---- tasks of other hosts ---- */

/* This process's page, to be sent; false: there is none. Owns: mf_buf_deinit(out). */
MF_MUST bool mf_status_page_copy(mf_buf *out);
/* Show a page that another host's task has sent, as `task` of our job, whoever it says to be; what
 * is none is passed over. It goes with our board. */
void mf_status_page_keep(const char *task, const void *bytes, size_t n);

/* ---- reading: everybody's ---- */

typedef struct mf_status_page_seen {
    mf_status_page page;
    mf_process process; /* of the kernel, when alive */
    bool alive; /* of another host's: the one that shows it is */
    char *path;
} mf_status_page_seen;

/* The folder: MESHFLOW_RUN_DIR, $XDG_RUNTIME_DIR/meshflow or /dev/shm/meshflow-UID. It need not
 * exist. */
MF_MUST mf_status mf_status_page_dir(mf_buf *out);
/* All boards, by job and task; of tasks that show themselves only those. What is no board is passed
 * over. Owns: mf_status_pages_free(). */
MF_MUST mf_status mf_status_pages_read(mf_status_page_seen **out, int *n);
void mf_status_pages_free(mf_status_page_seen *boards, int n);
/* Dead ones go. Fails: UNAVAILABLE (somebody keeps the folder locked). */
MF_MUST mf_status mf_status_pages_sweep(void);
/* Does the task still live? Also of one that was seen a while ago. */
bool mf_status_page_lives(const mf_status_page_seen *b);
/* A page out of a file's bytes: DATA_LOSS unless it is one. Strings end, numbers are in range. */
MF_MUST mf_status mf_status_page_decode(const void *bytes, size_t n, mf_status_page *out);
/* Times by use, with the one of now until `now`. */
void mf_status_page_page_used(const mf_status_page *p, int64_t now, int64_t ns[MF_USES]);
/* The recorder of a task, from old to new: at most MF_STATUS_PAGE_EVENTS. *n 0: it has none, or is
 * of another host. */
MF_MUST mf_status mf_status_page_events_read(const mf_status_page_seen *b,
                                             mf_status_page_event *out, int *n);
/* The same from a recorder's bytes; what is none is passed over. */
void mf_status_page_events_decode(const void *bytes, size_t size, mf_status_page_event *out,
                                  int *n);
/* "step 7 is done". */
void mf_status_page_event_text(const mf_status_page_event *e, mf_buf *out);
/* Let a task use so many threads: it will, after the step at hand. */
MF_MUST mf_status mf_status_page_wish(const mf_status_page_seen *b, int threads);
/* Let its job go on under this layout, if it is one on a mesh. */
MF_MUST mf_status mf_status_page_wish_layout(const mf_status_page_seen *b,
                                             const mf_status_page_layout *layout);
/* What has become of it, in words, where the task has said it. */
MF_MUST mf_status mf_status_page_layout_answer(const mf_status_page_seen *b,
                                               mf_variable_request *state,
                                               char words[MF_VARIABLE_REQUEST_TEXT]);

/* Ask this task, which answers between two steps; with asker 0 the question is taken back. */
MF_MUST mf_status mf_status_page_ask(const mf_status_page_seen *b,
                                     const mf_status_page_question *question);

#endif
