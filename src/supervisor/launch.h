/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the parts of `meshflow launch`: which tasks (cmd_launch.c), starting them
 * (launch_start.c), forwarding their output (launch_output.c), supervising them (launch_watch.c).
 */
#ifndef MF_SUPERVISOR_LAUNCH_H
#define MF_SUPERVISOR_LAUNCH_H

#include "base/buf.h"
#include "cluster/resolve/cluster_spec.h"

#include <sys/types.h>

/* An output stream of a task, forwarded to an output of the launcher. */
typedef struct mf_launch_output {
    int from; /* read end of the pipe; -1: closed */
    int to; /* 1 or 2; -1: its reader has closed it */
    int log; /* a file that receives a copy; -1: none */
    const char *prefix; /* put before each line; "" */
    mf_buf line; /* an incomplete line */
    const char *whose; /* task */
    int lost; /* errno of a failed write to standard output; 0: no write failed, or the reader has
                 closed it */
} mf_launch_output;

typedef struct mf_launched {
    mf_role role;
    int index;
    char name[32]; /* "worker 1" */
    char address[32]; /* where it listens, on the loopback */
    int reserved; /* the socket that reserves its port */
    pid_t pid; /* 0: not running */
    bool done; /* ended, and is not restarted */
    bool succeeded; /* ended with exit code 0 */
    int restarts, in_row; /* in all; in a row, each after a short run */
    int code; /* of the failure after which it is restarted */
    int64_t started_ns; /* the last time */
    int64_t again_ns; /* when it is restarted; 0: it is not */
    mf_launch_output out, err;
    char out_prefix[64], err_prefix[64];
} mf_launched;

typedef struct mf_launch {
    mf_launched *tasks;
    int n;
    bool masters; /* the job has masters */
    bool by_masters; /* the masters start all other tasks */
    bool trains; /* the command is meshflow: of several workers only the chief prints results */
    const char *const *command; /* ended by NULL */
    const char *program; /* the file to execute: a path, or a name to look up in PATH */
    const char *log_dir; /* NULL */
    int threads; /* for MESHFLOW_THREADS; 0: the environment is not changed */
    int max_restarts;
    char *store; /* the membership store of the job; NULL: all tasks must stay */
    char *store_dir; /* the launcher's own store, removed at the end; NULL: the store is not ours */
    int64_t grace_ns;
    bool no_prefix, json;
} mf_launch;

/* The job ends when these tasks end: masters; without masters, all but servers. */
static inline bool mf_launch_leads(const mf_launch *l, const mf_launched *t)
{
    return l->masters ? t->role == MF_ROLE_MASTER : t->role != MF_ROLE_PS;
}

/* The delay before a failed task, started at `since_ns`, is restarted: very short the first time,
 * then doubled for each failure in a row. A task that ran for a while resets the row. */
static inline int64_t mf_launch_pause_ns(int64_t since_ns, int64_t now_ns, int *in_row)
{
    const int64_t well_ns = INT64_C(5000000000);

    const int before = now_ns - since_ns >= well_ns || *in_row < 0 ? 0 : *in_row;

    *in_row = before < 9 ? before + 1 : 9;
    return INT64_C(25000000) << (unsigned)*in_row;
}

/* ---- launch_start.c ---- */

/* Reserves a loopback port for each task, from `base` on; 0: any free ports. */
MF_MUST mf_status mf_launch_reserve(mf_launch *l, int base);
/* Starts or restarts a task, with default signal dispositions. Fails: NOT_FOUND and similar codes,
 * naming the program. */
MF_MUST mf_status mf_launch_start(mf_launch *l, mf_launched *t);

/* ---- launch_store.c ---- */

/* Creates a store for this job, unless the environment names one. */
MF_MUST mf_status mf_launch_store_make(mf_launch *l);
/* True once tasks have registered in the store: they then survive the loss of a task. */
bool mf_launch_has_members(const mf_launch *l);
void mf_launch_store_remove(mf_launch *l);

/* ---- launch_output.c ---- */

MF_MUST mf_status mf_launch_output_open(mf_launch *l, mf_launched *t);
/* Forwards what is readable. False at end of file, when the pipe is closed. */
bool mf_launch_output_read(mf_launch_output *lines);
/* Closes the pipe; an incomplete line is forwarded as a line. */
void mf_launch_output_close(mf_launch_output *lines);
/* UNAVAILABLE: some standard output of the tasks could not be written. Closes it. */
MF_MUST mf_status mf_launch_output_end(mf_launch *l);

/* ---- launch_watch.c ---- */

/* Starts all tasks, and waits until all have ended. *exit_code: the exit code of the launcher; if
 * it is not 0, the function fails and says why. */
MF_MUST mf_status mf_launch_run(mf_launch *l, int *exit_code);

#endif
