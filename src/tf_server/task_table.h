/* SPDX-License-Identifier: Apache-2.0 */
/* task_table.h - the tasks of a cluster of servers. Job names are arbitrary, as in TensorFlow;
 * tasks of a training job have roles (cluster/resolve/cluster_spec.h). */
#ifndef MF_TF_SERVER_TASK_TABLE_H
#define MF_TF_SERVER_TASK_TABLE_H

#include "base/mem.h"
#include "graph/device_name.h"

typedef struct mf_server_task {
    const char *job;
    int index;
    const char *address;
    const char *name; /* "/job:worker/replica:0/task:0" */
    const char *device; /* the same, and "/device:CPU:0" */
} mf_server_task;

typedef struct mf_server_tasks {
    mf_arena *arena;
    mf_server_task *all; /* in the order given, job by job */
    int n;
    int self;
} mf_server_tasks;

/* text: JSON like TF_CONFIG's "cluster", or a whole TF_CONFIG, or the name of a file with it; NULL:
 * TF_CONFIG of the environment, or else a single task at a free port of the loopback interface.
 * job, index: this task; NULL: as in the text, or the only one.
 * Owns: mf_server_tasks_deinit(), even after a failure. Fails: INVALID_ARGUMENT naming the place
 * and the fix. */
MF_MUST mf_status mf_server_tasks_read(const char *text, const char *job, const char *index,
                                       mf_server_tasks *out);
/* The same for a process that is none of the tasks: self is -1. */
MF_MUST mf_status mf_server_tasks_list(const char *text, mf_server_tasks *out);
void mf_server_tasks_deinit(mf_server_tasks *t);
/* Sets the address of a task, with the port it was assigned. No other thread may use the table,
 * unless the address does not change. */
MF_MUST mf_status mf_server_tasks_move(mf_server_tasks *t, int task, const char *address);
/* Its device, parsed. */
mf_device_name mf_server_task_device(const mf_server_task *t);
/* Attributes the thread's error to this task: prepends "From /job:...:" unless it is there. */
mf_status mf_server_task_failed(const mf_server_task *t, mf_status st);
/* -1: not found. */
int mf_server_tasks_find(const mf_server_tasks *t, const char *job, int index);

#endif
