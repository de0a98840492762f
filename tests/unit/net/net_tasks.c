/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/net_tasks.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

mf_status test_task_open(const test_tasks *t, int self, mf_net **out)
{
    mf_net_task tasks[TEST_TASKS_MAX];
    char names[TEST_TASKS_MAX][16], addresses[TEST_TASKS_MAX][80], host[32];

    for (int i = 0; i < t->n; i++) {
        (void)snprintf(names[i], sizeof names[i], "worker %d", i);
        if (t->tag)
            (void)snprintf(addresses[i], sizeof addresses[i], "test-%.60s-%d", t->tag, i);
        else
            (void)snprintf(addresses[i], sizeof addresses[i], "test-%d-%d", (int)getpid(), i);
        tasks[i] = (mf_net_task){ names[i], addresses[i] };
    }
    if (t->hosts > 0)
        (void)snprintf(host, sizeof host, "host %d",
                       t->in_turn ? self % t->hosts : self * t->hosts / t->n);
    return mf_net_open(&(mf_net_options){ .tasks = tasks,
                                          .n_tasks = t->n,
                                          .self = self,
                                          .star = t->star,
                                          .hub = t->n - 1,
                                          .transport = t->transport,
                                          .host = t->hosts > 0 ? host : NULL,
                                          .timeout_ns = 30000000000 },
                       out);
}

static bool run_task(const test_tasks *t, int self)
{
    mf_net *net = NULL;
    const bool ok = test_task_open(t, self, &net) == MF_OK && t->run(net, t->arg);

    if (!ok)
        fprintf(stderr, "# worker %d: %s\n", self, mf_error_message());
    mf_net_close(net);
    return ok;
}

typedef struct one {
    const test_tasks *tasks;
    int self;
    bool ok;
} one;

static void *run_one(void *arg)
{
    one *o = arg;

    o->ok = run_task(o->tasks, o->self);
    return NULL;
}

bool test_tasks_as_threads(const test_tasks *t)
{
    one tasks[TEST_TASKS_MAX];
    pthread_t threads[TEST_TASKS_MAX];
    bool ok = true;

    for (int i = 0; i < t->n; i++) {
        tasks[i] = (one){ t, i, false };
        if (pthread_create(&threads[i], NULL, run_one, &tasks[i]) != 0)
            return false;
    }
    for (int i = 0; i < t->n; i++) {
        pthread_join(threads[i], NULL);
        ok &= tasks[i].ok;
    }
    return ok;
}

void test_tasks_start(const test_tasks *t, pid_t *pids)
{
    for (int i = 0; i < t->n; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(run_task(t, i) ? 0 : 1);
    }
}

bool test_tasks_as_processes(const test_tasks *t)
{
    test_tasks named = *t;
    pid_t pids[TEST_TASKS_MAX] = { 0 };
    char tag[32];
    bool ok = true;

    (void)snprintf(tag, sizeof tag, "%d", (int)getpid());
    named.tag = t->tag ? t->tag : tag;
    test_tasks_start(&named, pids);
    for (int i = 0; i < t->n; i++) {
        int status = -1;

        (void)waitpid(pids[i], &status, 0);
        ok &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return ok;
}
