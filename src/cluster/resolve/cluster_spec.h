/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_spec.h - the description of a cluster: its tasks, their addresses, which task this
 * process is, and the source of each of these facts.
 *
 * `tasks` is sorted by role and index: the chief, workers, parameter servers, evaluators, masters.
 * Three numberings come from it:
 *
 *   - (role, index)     TensorFlow's "/job:worker/task:1"
 *   - place in `tasks`  the launcher's rank where there is one (RANK, SLURM_PROCID, ...)
 *   - rank              of the tasks that train together: the chief, then workers. They come first,
 *     so it is the place in the list; -1 for the other tasks
 *
 * Launchers that only number processes (torchrun, MPI, Slurm) give tasks without addresses, and one
 * address where all of them connect: `rendezvous`. With a full list that is rank 0's own.
 *
 * resolve.h makes a description, which does not change afterwards. Thread: any. */
#ifndef MF_CLUSTER_RESOLVE_CLUSTER_SPEC_H
#define MF_CLUSTER_RESOLVE_CLUSTER_SPEC_H

#include "base/buf.h"
#include "base/mem.h"

typedef enum mf_role {
    MF_ROLE_CHIEF,
    MF_ROLE_WORKER,
    MF_ROLE_PS,
    MF_ROLE_EVALUATOR, /* not part of the training: it may be the only task */
    MF_ROLE_MASTER, /* watches and assigns; does not train */
    MF_ROLES,
} mf_role;

enum {
    MF_CLUSTER_MAX_TASKS = 65536,
    MF_CLUSTER_MAX_BYTES = 16 << 20, /* of a description */
};

typedef struct mf_cluster_task {
    mf_role role;
    int index;
    const char *address; /* "host:port"; NULL: not known */
    const char *host; /* NULL: not known. Without the brackets of an IPv6 address */
    int port; /* 0: not known */
    const char *from; /* the source: "TF_CONFIG cluster.worker[2]" */
} mf_cluster_task;

/* A value that is used, and its source. */
typedef struct mf_fact {
    const char *what; /* "rank" */
    const char *value; /* "1" */
    const char *from; /* "RANK" */
} mf_fact;

/* An error: no task may start. */
typedef struct mf_mistake {
    const char *place; /* "TF_CONFIG cluster.worker[2]" */
    const char *problem; /* "port '22x' is not a number" */
    const char *fix; /* how to fix it */
} mf_mistake;

typedef struct mf_cluster {
    mf_arena *arena; /* everything below lives here */
    const char *convention; /* "flags", "TF_CONFIG", "torchrun", "Open MPI", "MPICH", "Slurm",
                               "hostfile" or "none" */
    mf_cluster_task *tasks; /* by role, then index */
    int n_tasks;
    int self; /* place of this process in tasks; -1: it is a client */
    int rank, size; /* among the tasks that train together; rank is -1 for others */
    int local_rank, local_size; /* among this job's processes on this host; -1: not known */
    const char *host; /* this one's name */
    const char *rendezvous; /* "host:port" of rank 0; NULL: one process, or rank 0 is not listed */
    bool addresses; /* every task's is known */
    bool sparse; /* TensorFlow's sparse map lacks an index: not all tasks are listed */

    mf_fact *facts;
    mf_mistake *mistakes;
    const char **notes; /* warnings, which prevent nothing */
    int n_facts, n_mistakes, n_notes;

    /* while the description is made */
    int64_t cap_tasks, cap_facts, cap_mistakes, cap_notes;
    bool no_memory; /* sticky: checked once, at the end */
    bool own_known; /* own_* are set: which task this process is */
    mf_role own_role;
    int own_index;
    const char *own_from;
} mf_cluster;

void mf_cluster_free(mf_cluster *cluster);

/* "worker"; TensorFlow's name. */
const char *mf_role_name(mf_role role);
/* False: there is no such role. */
bool mf_role_find(const char *name, mf_role *out);
/* Is it a role that trains: chief or worker? */
static inline bool mf_role_trains(mf_role role)
{
    return role == MF_ROLE_CHIEF || role == MF_ROLE_WORKER;
}

/* NULL when absent. */
const mf_cluster_task *mf_cluster_find(const mf_cluster *cluster, mf_role role, int index);
/* This process; NULL for a client. */
const mf_cluster_task *mf_cluster_self(const mf_cluster *cluster);
/* The task with this rank among the tasks that train together; NULL: out of range. */
const mf_cluster_task *mf_cluster_rank(const mf_cluster *cluster, int rank);
/* The number of tasks of a role. */
int mf_cluster_count(const mf_cluster *cluster, mf_role role);
/* The chief, or worker 0 when there is no chief. */
bool mf_cluster_is_chief(const mf_cluster *cluster, const mf_cluster_task *task);

/* TF_CONFIG for the task (role, index) of a cluster of these, which are sorted by role. */
void mf_cluster_write_tf_config(const mf_cluster_task *tasks, int n, mf_role role, int index,
                                mf_buf *out);

/* "/job:worker/task:1". */
enum { MF_TASK_NAME_MAX = 48 };
const char *mf_cluster_task_name(const mf_cluster_task *task, char text[MF_TASK_NAME_MAX]);

#endif
