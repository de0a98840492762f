/* SPDX-License-Identifier: Apache-2.0 */
/* net_tasks.h - a small cluster for tests: tasks with a net each, as threads or as processes. */
#ifndef MF_TEST_COMM_TASKS_H
#define MF_TEST_COMM_TASKS_H

#include "net/net.h"

#include <sys/types.h>

enum { TEST_TASKS_MAX = 8 };

typedef struct test_tasks {
    int n;
    const char *tag; /* of addresses; NULL: of this process */
    int hosts; /* tasks are spread over this many simulated hosts; 0: this host */
    bool in_turn; /* hosts alternate; else neighbours are on one host */
    bool star; /* the last one is the hub */
    const mf_transport_kind *transport; /* NULL: local */
    bool (*run)(mf_net *net, void *arg);
    void *arg;
} test_tasks;

/* Task `self` of these. */
MF_MUST mf_status test_task_open(const test_tasks *t, int self, mf_net **out);
/* run() on all tasks concurrently; true: all returned true. */
bool test_tasks_as_threads(const test_tasks *t);
bool test_tasks_as_processes(const test_tasks *t);
/* Starts them; exit status 0: run() was true. tag must be given. */
void test_tasks_start(const test_tasks *t, pid_t *pids);

#endif
