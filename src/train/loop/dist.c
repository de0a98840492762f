/* SPDX-License-Identifier: Apache-2.0 */
/* dist.c - calls of the distributed-training interface with their defaults, and the loop's
 * collectives. */
#include "train/loop/dist.h"

#include "base/clock.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "train/step/trainer.h"

#include <string.h>

/* ---- references of a strategy ---- */

void mf_strategy_ref(mf_strategy *strategy)
{
    atomic_fetch_add(&strategy->refs, 1);
}

void mf_strategy_unref(mf_strategy *strategy)
{
    const bool shown = strategy->shown;
    mf_error before; /* the caller may be about to report it */

    if (atomic_fetch_sub(&strategy->refs, 1) > 1)
        return;
    mf_error_save(MF_UNKNOWN, &before);
    strategy->close(strategy);
    (void)mf_error_restore(&before);
    if (shown)
        mf_status_page_close();
}

/* ---- calls ---- */

mf_status mf_dist_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    return dist ? dist->ops.step->begin_step(dist, step, samples, wants_stop) : MF_OK;
}

mf_status mf_dist_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    return dist ? dist->ops.step->end_step(dist, step, stop) : MF_OK;
}

mf_status mf_dist_settle(mf_dist *dist, bool *stop)
{
    return MF_DIST_HAS(dist, step, settle) ? dist->ops.step->settle(dist, stop) : MF_OK;
}

mf_status mf_dist_finish(mf_dist *dist, mf_trainer *t)
{
    return MF_DIST_HAS(dist, lifecycle, finish) ? dist->ops.lifecycle->finish(dist, t) : MF_OK;
}

mf_status mf_dist_over(mf_dist *dist)
{
    return MF_DIST_HAS(dist, lifecycle, over) ? dist->ops.lifecycle->over(dist) : MF_OK;
}

void mf_dist_failed(mf_dist *dist, mf_status why)
{
    if (dist)
        dist->ops.lifecycle->failed(dist, why);
}

void mf_dist_step_done(mf_dist *dist, int64_t step)
{
    if (MF_DIST_HAS(dist, membership, step_done))
        dist->ops.membership->step_done(dist, step);
}

void mf_dist_traffic(const mf_dist *dist, mf_traffic *out)
{
    *out = (mf_traffic){ 0 };
    if (MF_DIST_HAS(dist, trace, traffic))
        dist->ops.trace->traffic(dist, out);
}

mf_status mf_dist_rendezvous(mf_dist *dist, mf_trainer *t, mf_status why)
{
    MF_TRY(dist->ops.membership->rendezvous(dist, t, why));
    dist->rendezvous_count++;
    dist->rendezvous_due = false;
    return MF_OK;
}

/* ---- collectives ---- */

mf_collective mf_dist_collective(const mf_dist *dist, int64_t step, const char *what)
{
    return (mf_collective){ .step = step,
                            .deadline_ns = mf_clock_ns() + dist->timeout_ns,
                            .what = what };
}

mf_status mf_dist_barrier(mf_dist *dist, int64_t step, const char *what)
{
    const mf_collective c = mf_dist_collective(dist, step, what);

    return mf_barrier(dist->group, &c);
}

mf_status mf_dist_all_gather(mf_dist *dist, int64_t step, const char *what, const void *mine,
                             int64_t size, void *all)
{
    const mf_collective c = mf_dist_collective(dist, step, what);
    int64_t *sizes = mf_calloc(dist->size, sizeof *sizes);
    mf_status st;

    if (!sizes)
        return MF_NOMEM("workers");
    for (int r = 0; r < dist->size; r++)
        sizes[r] = size;
    st = mf_all_gather(dist->group, &(mf_gather){ c, mine, sizes, all });
    mf_free(sizes);
    return st;
}
