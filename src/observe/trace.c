/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - records when each node of a step ran in this process, in Chrome's trace format.
 * train/loop/dist_trace.c merges the traces of all workers. */
#include "observe/trace.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

typedef struct trace_event {
    const char *name, *op; /* of the node, which outlives the step; or of a note */
    int64_t start, end;
    int thread; /* 0: none */
} trace_event;

struct mf_trace {
    pthread_mutex_t lock;
    trace_event *events; /* guarded by lock */
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

int64_t mf_trace_begin(const mf_trace *trace)
{
    return trace->begin;
}

static void trace_add_event(mf_trace *trace, const char *name, const char *op, int64_t start,
                            int thread)
{
    const trace_event e = {
        .name = name, .op = op, .start = start, .end = mf_clock_ns(), .thread = thread
    };

    pthread_mutex_lock(&trace->lock);
    if (mf_grow(&trace->events, &trace->cap, trace->n + 1, sizeof e) == MF_OK)
        trace->events[trace->n++] = e;
    else
        trace->lost = true;
    pthread_mutex_unlock(&trace->lock);
}

void mf_trace_add(mf_trace *trace, const char *node, const char *op, int64_t start)
{
    trace_add_event(trace, node, op, start, gettid());
}

void mf_trace_add_note(mf_trace *trace, const char *what, const char *about, int64_t start)
{
    trace_add_event(trace, about, what, start, gettid());
}

void mf_trace_add_async(mf_trace *trace, const char *node, const char *op, int64_t start)
{
    trace_add_event(trace, node, op, start, 0);
}

void mf_trace_each(mf_trace *trace, mf_trace_fn *fn, void *ctx)
{
    pthread_mutex_lock(&trace->lock);
    for (int64_t i = 0; i < trace->n; i++) {
        const trace_event *e = &trace->events[i];

        fn(ctx, e->name, e->op, e->start, e->end, e->thread);
    }
    pthread_mutex_unlock(&trace->lock);
}

/* ---- Chrome trace format ---- */

static void trace_put_names(const trace_event *e, mf_buf *out)
{
    mf_buf_str(out, ",\n{\"name\":");
    mf_buf_json(out, e->op, strlen(e->op));
    mf_buf_str(out, ",\"args\":{\"node\":");
    mf_buf_json(out, e->name, strlen(e->name));
    mf_buf_str(out, "},");
}

static double micros(int64_t ns)
{
    return (double)ns / 1000.0;
}

/* Events without a thread may overlap: each is a pair of events with a common id. */
static void put_async(const trace_event *e, const mf_trace_process *p, int64_t number, mf_buf *out)
{
    const int64_t ends[] = { e->start, e->end };

    for (int i = 0; i < 2; i++) {
        trace_put_names(e, out);
        mf_buf_printf(out,
                      "\"ph\":\"%c\",\"cat\":\"async\",\"id\":\"%d.%lld\",\"pid\":%d,\"tid\":0,"
                      "\"ts\":%.3f}",
                      "be"[i], p -> id, (long long)number, p -> id, micros(ends[i] - p->origin));
    }
}

static void put_event(const trace_event *e, const mf_trace_process *p, mf_buf *out)
{
    trace_put_names(e, out);
    mf_buf_printf(out, "\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}", p->id,
                  e->thread, micros(e->start - p->origin), micros(e->end - e->start));
}

mf_status mf_trace_put(mf_trace *trace, const mf_trace_process *p, mf_buf *out)
{
    mf_buf_printf(out,
                  "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":", p->id);
    mf_buf_json(out, p->name, strlen(p->name));
    mf_buf_printf(out, ",\"complete\":%s}}", trace->lost ? "false" : "true");
    for (int64_t i = 0; i < trace->n; i++) {
        if (trace->events[i].thread == 0)
            put_async(&trace->events[i], p, i, out);
        else
            put_event(&trace->events[i], p, out);
    }
    return mf_buf_finish(out);
}

mf_status mf_trace_write_events(const mf_buf *events, const char *path)
{
    static const char head[] = "{\"traceEvents\":[\n", tail[] = "\n],\"displayTimeUnit\":\"ns\"}\n";
    const mf_file_part parts[] = { { head, sizeof head - 1 },
                                   { events->data, events->len },
                                   { tail, sizeof tail - 1 } };

    return mf_file_write_parts(path, parts, MF_COUNT(parts));
}

mf_status mf_trace_write(mf_trace *trace, const char *path)
{
    const mf_trace_process self = { .id = getpid(), .name = "meshflow", .origin = trace->begin };
    mf_buf events = { 0 };
    mf_status st = mf_trace_put(trace, &self, &events);

    if (st == MF_OK)
        st = mf_trace_write_events(&events, path);
    mf_buf_deinit(&events);
    return st;
}
