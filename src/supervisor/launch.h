/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the parts of `meshflow launch`: what is started (cmd_launch.c), how (launch_start.c),
 * what becomes of its output (launch_output.c) and of itself (launch_watch.c). */
#ifndef MF_SUPERVISOR_LAUNCH_H
#define MF_SUPERVISOR_LAUNCH_H

#include "base/buf.h"
#include "cluster/resolve/cluster_spec.h"

#include <sys/types.h>

/* One output of a task on its way to ours. */
typedef struct mf_launch_output {
    int from; /* our end of the pipe; -1: closed */
    int to; /* 1 or 2; -1: nobody reads it any more */
    int log; /* a file that gets it too; -1: none */
    const char *prefix; /* put before each line; "" */
    mf_buf line; /* begun and not ended yet */
    const char *whose; /* task */
    int lost; /* errno of what standard output did not take; 0: it has all, or its reader left */
} mf_launch_output;

typedef struct mf_launched {
    mf_role role;
    int index;
    char name[32]; /* "worker 1" */
    char address[32]; /* where it listens, on the loopback */
    int reserved; /* the socket that keeps its port for it */
    pid_t pid; /* 0: does not run */
    bool done; /* ended, and will not be started again */
    bool well; /* ended with exit code 0 */
    int restarts, in_row; /* in all; without having run for a while in between */
    int64_t started_ns; /* the last time */
    int64_t again_ns; /* when it is started again; 0: it is not going to be */
    mf_launch_output out, err;
    char out_prefix[64], err_prefix[64];
} mf_launched;

typedef struct mf_launch {
    mf_launched *tasks;
    int n;
    bool masters; /* there are some */
    bool by_masters; /* they start all other tasks */
    bool trains; /* the command is ours, and of several workers only the chief says something */
    const char *const *command; /* ended by NULL */
    const char *program; /* what is executed: a path, or a name to look for */
    const char *log_dir; /* NULL */
    int threads; /* for MESHFLOW_THREADS; 0: what the environment has is left alone */
    int max_restarts;
    char *store; /* where tasks keep who belongs to the job; NULL: all must stay */
    char *store_dir; /* ours, to be removed; NULL: it is somebody else's */
    int64_t grace_ns;
    bool no_prefix, json;
} mf_launch;

/* The job ends with these, and the others follow: masters; without them, all but servers. */
static inline bool mf_launch_leads(const mf_launch *l, const mf_launched *t)
{
    return l->masters ? t->role == MF_ROLE_MASTER : t->role != MF_ROLE_PS;
}

/* How long to wait before a task is started again that was started at `since_ns` and has failed:
 * hardly at all the first time, then twice as long each time in a row. One that had run for a while
 * was well. */
static inline int64_t mf_launch_pause_ns(int64_t since_ns, int64_t now_ns, int *in_row)
{
    const int64_t well_ns = INT64_C(5000000000);

    const int before = now_ns - since_ns >= well_ns || *in_row < 0 ? 0 : *in_row;

    *in_row = before < 9 ? before + 1 : 9;
    return INT64_C(25000000) << (unsigned)*in_row;
}

/* ---- launch_start.c ---- */

/* Keep a port on the loopback for each task; `base` 0: any that are free. */
MF_MUST mf_status mf_launch_reserve(mf_launch *l, int base);
/* Start, or start again, one task. Its signals are as if nobody had changed them. Fails: NOT_FOUND
 * and the like, naming the program. */
MF_MUST mf_status mf_launch_start(mf_launch *l, mf_launched *t);

/* ---- launch_store.c ---- */

/* A store of this job's own, unless the environment has one. */
MF_MUST mf_status mf_launch_store_make(mf_launch *l);
/* Have tasks come together there? Then they go on without one that is lost. */
bool mf_launch_has_members(const mf_launch *l);
void mf_launch_store_remove(mf_launch *l);

/* ---- launch_output.c ---- */

MF_MUST mf_status mf_launch_output_open(mf_launch *l, mf_launched *t);
/* Take what is there. False at its end, when the pipe is closed. */
bool mf_launch_output_read(mf_launch_output *lines);
/* Nobody will write any more: what is left is a line. */
void mf_launch_output_close(mf_launch_output *lines);
/* UNAVAILABLE: some of what tasks print on standard output could not be written. Closes it. */
MF_MUST mf_status mf_launch_output_end(mf_launch *l);

/* ---- launch_watch.c ---- */

/* Start all, and wait until all have ended. *exit_code: what the launcher ends with; not 0 comes
 * with a failure that says why. */
MF_MUST mf_status mf_launch_run(mf_launch *l, int *exit_code);

#endif
