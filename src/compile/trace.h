/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - when each node of a step ran, as Chrome's trace format. */
#ifndef MF_COMPILE_TRACE_H
#define MF_COMPILE_TRACE_H

#include "graph/graph.h"

typedef struct mf_trace mf_trace;

MF_MUST mf_status mf_trace_new(mf_trace **out);
void mf_trace_free(mf_trace *trace);
int64_t mf_trace_now(void);
/* The node ran from `start` until now, on this thread. Thread: any. */
void mf_trace_add(mf_trace *trace, const mf_node *node, int64_t start);
/* {"traceEvents":[...]} */
MF_MUST mf_status mf_trace_write(mf_trace *trace, const char *path);

#endif
