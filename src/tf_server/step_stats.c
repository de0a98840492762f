/* SPDX-License-Identifier: Apache-2.0 */
/* step_stats.c - records and encodes the timeline of a step as StepStats. */
#include "tf_server/step_stats.h"

#include "base/clock.h"
#include "proto/wire.h"
#include "proto/worker.pb-c.h"

typedef struct collecting {
    mf_arena *arena;
    Tensorflow__DeviceStepStats *device;
    int64_t cap;
    int64_t epoch_us; /* of mf_clock_ns() 0 */
    mf_status st;
} collecting;

static void step_stats_count(void *ctx, const char *node, const char *op, int64_t start,
                             int64_t end, int thread)
{
    (void)node;
    (void)op;
    (void)start;
    (void)end;
    (void)thread;
    ++*(int64_t *)ctx;
}

static void step_stats_add(void *ctx, const char *node, const char *op, int64_t start, int64_t end,
                           int thread)
{
    collecting *c = ctx;
    Tensorflow__NodeExecStats *s = MF_ARENA_NEW(c->arena, Tensorflow__NodeExecStats);
    const size_t n = c->device->n_node_stats;

    if (!s || (int64_t)n >= c->cap) {
        c->st = MF_NOMEM("statistics of a step");
        return;
    }
    tensorflow__node_exec_stats__init(s);
    s->node_name = (char *)(uintptr_t)node;
    s->timeline_label = mf_arena_printf(c->arena, "%s = %s()", node, op);
    s->all_start_micros = s->scheduled_micros = c->epoch_us + start / 1000;
    s->op_end_rel_micros = s->all_end_rel_micros = (end - start) / 1000;
    s->thread_id = (uint32_t)thread;
    if (!s->timeline_label)
        c->st = MF_NOMEM("statistics of a step");
    else
        c->device->node_stats[c->device->n_node_stats++] = s;
}

static mf_status step_stats_encode(mf_trace *trace, const char *device, mf_arena *arena,
                                   mf_buf *out)
{
    Tensorflow__StepStats all = TENSORFLOW__STEP_STATS__INIT;
    Tensorflow__DeviceStepStats one = TENSORFLOW__DEVICE_STEP_STATS__INIT, *devices[] = { &one };
    collecting c = { .arena = arena,
                     .device = &one,
                     .epoch_us = (mf_clock_wall_ns() - mf_clock_ns()) / 1000 };

    mf_trace_each(trace, step_stats_count, &c.cap);
    one.device = (char *)(uintptr_t)device;
    one.node_stats = MF_ARENA_ARRAY(arena, Tensorflow__NodeExecStats *, c.cap + 1);
    if (!one.node_stats)
        return MF_NOMEM("statistics of a step");
    mf_trace_each(trace, step_stats_add, &c);
    MF_TRY(c.st);
    all.dev_stats = devices;
    all.n_dev_stats = 1;
    return mf_wire_encode(&all.base, out);
}

mf_status mf_stats_encode(mf_trace *trace, const char *device, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    const mf_status st =
        arena ? step_stats_encode(trace, device, arena, out) : MF_NOMEM("statistics of a step");

    mf_arena_free(arena);
    return st;
}
