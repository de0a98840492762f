/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_spec.h - the description of a cluster: which tasks there are, where they listen, which
 * one this process is, and where each of these facts was said.
 *
 * Tasks stand in one list, sorted by role and index: the chief, workers, parameter servers,
 * evaluators, masters. Three numberings come from it:
 *
 *   - (role, index)     TensorFlow's "/job:worker/task:1"
 *   - place in `tasks`  the engine's rank where there is one (RANK, SLURM_PROCID, ...)
 *   - rank              of the tasks that train together: the chief, then workers. They come first,
 *                       so it is the place in the list; -1 for the others
 *
 * Engines that only number processes (torchrun, MPI, Slurm) give tasks without addresses, and one
 * address where all of them meet: `rendezvous`. With a full list that is rank 0's own.
 *
 * A description is made by resolve.h and never changes afterwards. Thread: any. */
#ifndef MF_CLUSTER_RESOLVE_CLUSTER_SPEC_H
#define MF_CLUSTER_RESOLVE_CLUSTER_SPEC_H

#include "base/buf.h"
#include "base/mem.h"

typedef enum mf_role {
    MF_ROLE_CHIEF,
    MF_ROLE_WORKER,
    MF_ROLE_PS,
    MF_ROLE_EVALUATOR, /* outside of the training: it may stand alone */
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
    const char *from; /* who said so: "TF_CONFIG cluster.worker[2]" */
} mf_cluster_task;

/* Something that was taken, and from where. */
typedef struct mf_fact {
    const char *what; /* "rank" */
    const char *value; /* "1" */
    const char *from; /* "RANK" */
} mf_fact;

/* Something that is wrong: nothing may start. */
typedef struct mf_mistake {
    const char *place; /* "TF_CONFIG cluster.worker[2]" */
    const char *problem; /* "port '22x' is no number" */
    const char *fix; /* what to do */
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
    bool sparse; /* TensorFlow's sparse map left out an index: not all tasks are listed */

    mf_fact *facts;
    mf_mistake *mistakes;
    const char **notes; /* what is worth knowing, but stops nobody */
    int n_facts, n_mistakes, n_notes;

    /* while it is made */
    int64_t cap_tasks, cap_facts, cap_mistakes, cap_notes;
    bool no_memory; /* sticky: looked at once, at the end */
    bool own_known; /* own_* say which task this process is */
    mf_role own_role;
    int own_index;
    const char *own_from;
} mf_cluster;

void mf_cluster_free(mf_cluster *cluster);

/* "worker"; TensorFlow's name. */
const char *mf_role_name(mf_role role);
/* False when there is none. */
bool mf_role_find(const char *name, mf_role *out);
/* It is one of those that train together: a chief or a worker. */
static inline bool mf_role_trains(mf_role role)
{
    return role == MF_ROLE_CHIEF || role == MF_ROLE_WORKER;
}

/* NULL when absent. */
const mf_cluster_task *mf_cluster_find(const mf_cluster *cluster, mf_role role, int index);
/* This process; NULL for a client. */
const mf_cluster_task *mf_cluster_self(const mf_cluster *cluster);
/* The task with this rank among those that train together; NULL: out of range. */
const mf_cluster_task *mf_cluster_rank(const mf_cluster *cluster, int rank);
/* How many tasks of a role there are. */
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
