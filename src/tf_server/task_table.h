/* SPDX-License-Identifier: Apache-2.0 */
/* task_table.h - the tasks of a cluster of servers. Jobs have any names here, as in TensorFlow;
 * those of a training have roles (cluster/resolve/cluster_spec.h). */
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
    mf_server_task *all; /* as they were given, job by job */
    int n;
    int self;
} mf_server_tasks;

/* text: JSON like TF_CONFIG's "cluster", or a whole TF_CONFIG; else the name of a file with it;
 * NULL: TF_CONFIG of the environment or, without it, a task of its own at any port of the loopback.
 * job, index: which one this is; NULL: what the text says, or the only one.
 * Owns: mf_server_tasks_deinit(), also after a failure. INVALID_ARGUMENT naming the place and the
 * fix. */
MF_MUST mf_status mf_server_tasks_read(const char *text, const char *job, const char *index,
                                       mf_server_tasks *out);
/* The same for somebody who is none of them: self is -1. */
MF_MUST mf_status mf_server_tasks_list(const char *text, mf_server_tasks *out);
void mf_server_tasks_deinit(mf_server_tasks *t);
/* This is where it listens: at the port that it was given. Nobody uses them yet, unless the address
 * is what it was. */
MF_MUST mf_status mf_server_tasks_move(mf_server_tasks *t, int task, const char *address);
/* Its device, in parts. */
mf_device_name mf_server_task_device(const mf_server_task *t);
/* The thread's error is this task's: "From /job:...:" stands before it, unless it does already. */
mf_status mf_server_task_failed(const mf_server_task *t, mf_status st);
/* -1: there is none. */
int mf_server_tasks_find(const mf_server_tasks *t, const char *job, int index);

#endif
