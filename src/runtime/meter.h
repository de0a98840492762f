/* SPDX-License-Identifier: Apache-2.0 */
/* meter.h - how long a processor of a mesh is at work: at least one of its items runs. What waits
 * for others (asynchronous kernels, once they have begun) does not count. Two looks at the clock
 * for an item, which may be a whole plan. Under the run's lock. */
#ifndef MF_RUNTIME_METER_H
#define MF_RUNTIME_METER_H

#include "base/clock.h"
#include "compile/program.h"
#include "graph/mesh.h"

enum { MF_METER_GAP_NS = 20000 };

/* Returns when that was. */
static inline int64_t mf_meter_begin(mf_mesh_meter *m)
{
    const int64_t now = mf_clock_ns();

    if (m->running++ == 0)
        m->since = now;
    return now;
}

/* An item of a micro-batch has run; those that follow each other are one turn. */
static inline void mf_meter_turn(mf_mesh_meter *m, const mf_item *item, int64_t began, int64_t now)
{
    mf_mesh_turn *last = m->n_turns > 0 ? &m->turns[m->n_turns - 1] : NULL;
    const int64_t is_back = item->is_back + item->is_late;

    if (last && last->micro_batch == item->turn && last->is_back == is_back &&
        began - m->begin - last->end_ns < MF_METER_GAP_NS)
        last->end_ns = now - m->begin;
    else if (m->n_turns < MF_MESH_TURNS)
        m->turns[m->n_turns++] =
            (mf_mesh_turn){ item->turn, is_back, began - m->begin, now - m->begin };
}

static inline void mf_meter_end(mf_mesh_meter *m, const mf_item *item, int64_t began)
{
    const int64_t now = mf_clock_ns();

    if (--m->running == 0)
        m->busy_ns += now - m->since;
    if (item->turn > 0)
        mf_meter_turn(m, item, began, now);
}

#endif
