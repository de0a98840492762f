/* SPDX-License-Identifier: Apache-2.0 */
/* busy_meter.h - measures how long a device of a mesh is busy: at least one of its items runs.
 * Asynchronous kernels count until they are started. Reads the clock twice per item, which may be a
 * complete plan. The caller holds the run's lock. */
#ifndef MF_RUNTIME_BUSY_METER_H
#define MF_RUNTIME_BUSY_METER_H

#include "base/clock.h"
#include "compiler/program.h"
#include "graph/spmd_op.h"

enum { MF_BUSY_METER_GAP_NS = 20000 };

/* Returns the time. */
static inline int64_t mf_busy_meter_begin(mf_mesh_meter *m)
{
    const int64_t now = mf_clock_ns();

    if (m->running++ == 0)
        m->since = now;
    return now;
}

/* No free slot for another interval: extend the last one of that micro-batch and direction. */
static inline void mf_busy_meter_prolong(mf_mesh_meter *m, const mf_mesh_interval *t)
{
    int64_t i = m->n_intervals - 1;

    while (i >= 0 &&
           (m->intervals[i].micro_batch != t->micro_batch || m->intervals[i].is_back != t->is_back))
        i--;
    if (i >= 0)
        m->intervals[i].end_ns = t->end_ns;
}

/* An item of a micro-batch has run; consecutive items are one interval. */
static inline void mf_busy_meter_interval(mf_mesh_meter *m, const mf_item *item, int64_t began,
                                          int64_t now)
{
    mf_mesh_interval *last = m->n_intervals > 0 ? &m->intervals[m->n_intervals - 1] : NULL;
    const mf_mesh_interval t = { item->micro_batch, item->is_back + item->is_late, began - m->begin,
                                 now - m->begin };

    if (last && last->micro_batch == t.micro_batch && last->is_back == t.is_back &&
        t.begin_ns - last->end_ns < MF_BUSY_METER_GAP_NS)
        last->end_ns = t.end_ns;
    else if (m->n_intervals < MF_MESH_INTERVALS)
        m->intervals[m->n_intervals++] = t;
    else
        mf_busy_meter_prolong(m, &t);
}

static inline void mf_busy_meter_end(mf_mesh_meter *m, const mf_item *item, int64_t began)
{
    const int64_t now = mf_clock_ns();

    if (--m->running == 0)
        m->busy_ns += now - m->since;
    if (item->micro_batch > 0 &&
        item->kind != MF_ITEM_ASYNC) /* sends run whenever they are ready */
        mf_busy_meter_interval(m, item, began, now);
}

#endif
