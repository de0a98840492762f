/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/trace.h"

#include "base/clock.h"
#include "base/file.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

typedef struct event {
    const char *name, *op; /* of the node, which outlives the step */
    int64_t start, end;
    int thread;
} event;

struct mf_trace {
    pthread_mutex_t lock;
    event *events; /* guarded by lock */
    int64_t n, cap, begin;
    bool lost; /* memory ran out: the trace is incomplete */
};

mf_status mf_trace_new(mf_trace **out)
{
    mf_trace *t = mf_calloc(1, sizeof *t);

    *out = t;
    if (!t)
        return MF_NOMEM("a trace");
    pthread_mutex_init(&t->lock, NULL);
    t->begin = mf_clock_ns();
    return MF_OK;
}

void mf_trace_free(mf_trace *trace)
{
    if (!trace)
        return;
    pthread_mutex_destroy(&trace->lock);
    mf_free(trace->events);
    mf_free(trace);
}

int64_t mf_trace_now(void)
{
    return mf_clock_ns();
}

void mf_trace_add(mf_trace *trace, const mf_node *node, int64_t start)
{
    const event e = { .name = node->name,
                      .op = node->op_name,
                      .start = start,
                      .end = mf_clock_ns(),
                      .thread = gettid() };

    pthread_mutex_lock(&trace->lock);
    if (mf_grow(&trace->events, &trace->cap, trace->n + 1, sizeof e) == MF_OK)
        trace->events[trace->n++] = e;
    else
        trace->lost = true;
    pthread_mutex_unlock(&trace->lock);
}

mf_status mf_trace_write(mf_trace *trace, const char *path)
{
    const int pid = getpid();
    mf_buf out = { 0 };
    mf_status st;

    mf_buf_str(&out, "{\"traceEvents\":[\n");
    for (int64_t i = 0; i < trace->n; i++) {
        const event *e = &trace->events[i];

        mf_buf_str(&out, i ? ",\n{\"name\":" : "{\"name\":");
        mf_buf_json(&out, e->op, strlen(e->op));
        mf_buf_str(&out, ",\"args\":{\"node\":");
        mf_buf_json(&out, e->name, strlen(e->name));
        mf_buf_printf(&out, "},\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}", pid,
                      e->thread, (double)(e->start - trace->begin) / 1000.0,
                      (double)(e->end - e->start) / 1000.0);
    }
    mf_buf_printf(&out, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"complete\":%s}}\n",
                  trace->lost ? "false" : "true");
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_file_write(path, out.data, out.len);
    mf_buf_deinit(&out);
    return st;
}
