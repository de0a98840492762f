/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - records when each node of a step ran, in Chrome's trace format: the trace of one
 * process. train/loop/dist_trace.h merges the traces of all workers. */
#ifndef MF_OBSERVE_TRACE_H
#define MF_OBSERVE_TRACE_H

#include "base/buf.h"

typedef struct mf_trace mf_trace;

MF_MUST mf_status mf_trace_new(mf_trace **out);
void mf_trace_free(mf_trace *trace);
int64_t mf_trace_now(void);
/* The node ran from `start` until now, on this thread. Both texts outlive the trace. Thread: any.
 */
void mf_trace_add(mf_trace *trace, const char *node, const char *op, int64_t start);
/* The same for a node that ran asynchronously, without holding a thread. */
void mf_trace_add_async(mf_trace *trace, const char *node, const char *op, int64_t start);

/* The same for work that is not a node: what was done, and with which task or object. Both texts
 * outlive the trace. */
void mf_trace_add_note(mf_trace *trace, const char *what, const char *about, int64_t start);

/* All events, in the order of their ends. thread 0: asynchronous. */
typedef void mf_trace_fn(void *ctx, const char *node, const char *op, int64_t start, int64_t end,
                         int thread);
void mf_trace_each(mf_trace *trace, mf_trace_fn *fn, void *ctx);

/* One process of a trace. */
typedef struct mf_trace_process {
    int id;
    const char *name; /* "worker 1 (pid 4711)" */
    int64_t origin; /* time 0 of the file, by this process's clock */
} mf_trace_process;
/* When the trace began. */
int64_t mf_trace_begin(const mf_trace *trace);
/* Appends its events, comma-separated: at least one. */
MF_MUST mf_status mf_trace_put(mf_trace *trace, const mf_trace_process *p, mf_buf *out);
/* Writes {"traceEvents":[...]} with events of one or several processes. */
MF_MUST mf_status mf_trace_write_events(const mf_buf *events, const char *path);
/* For this process alone. */
MF_MUST mf_status mf_trace_write(mf_trace *trace, const char *path);

#endif
