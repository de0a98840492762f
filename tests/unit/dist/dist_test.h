/* SPDX-License-Identifier: Apache-2.0 */
/* dist_test.h - a job whose workers, and parameter servers, are threads of the test. */
#ifndef MF_TESTS_JOB_H
#define MF_TESTS_JOB_H

#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { JOB_MOST = 8 };

typedef struct job_worker {
    const char *strategy;
    int n, rank; /* workers; servers have the ranks behind theirs */
    int servers;
    mf_strategy *s;
    void (*run)(struct job_worker *w);
    void *arg; /* the caller's */
    char sha[65]; /* for its results */
    mf_status st; /* of opening, or of run() if it fails */
    char message[400];
} job_worker;

static inline void job_note(job_worker *w, mf_status st)
{
    w->st = st;
    (void)snprintf(w->message, sizeof w->message, "%s", st == MF_OK ? "" : mf_error_message());
}

static inline void *job_start(void *arg)
{
    job_worker *w = arg;
    char cluster[600] = "{\"worker\":[";
    size_t at = strlen(cluster);
    char index[16];
    mf_strategy_options o = { .cluster = cluster,
                              .job_name = w->rank < w->n ? "worker" : "ps",
                              .task_index = index,
                              .timeout_ms = 20000 };

    for (int i = 0; i < w->n + w->servers; i++)
        at += (size_t)snprintf(cluster + at, sizeof cluster - at, "%s\"t%d:%d\"",
                               i == 0      ? ""
                               : i == w->n ? "],\"ps\":["
                                           : ",",
                               (int)getpid(), 1000 + i);
    (void)snprintf(cluster + at, sizeof cluster - at, "]}");
    (void)snprintf(index, sizeof index, "%d", w->rank < w->n ? w->rank : w->rank - w->n);
    job_note(w, mf_strategy_open(w->strategy, &o, &w->s));
    if (w->st == MF_OK)
        w->run(w);
    mf_strategy_close(w->s);
    return NULL;
}

/* run() on n workers and these servers concurrently. */
static inline void job_run_served(job_worker *workers, int n, int servers, const char *strategy,
                                  void (*run)(job_worker *w), void *arg)
{
    pthread_t threads[JOB_MOST];

    for (int i = 0; i < n + servers; i++) {
        workers[i] = (job_worker){
            .strategy = strategy, .n = n, .rank = i, .servers = servers, .run = run, .arg = arg
        };
        T_EQ(pthread_create(&threads[i], NULL, job_start, &workers[i]), 0);
    }
    for (int i = 0; i < n + servers; i++)
        pthread_join(threads[i], NULL);
}

static inline void job_run(job_worker *workers, int n, const char *strategy,
                           void (*run)(job_worker *w), void *arg)
{
    job_run_served(workers, n, 0, strategy, run, arg);
}

#endif
