/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - deadline and cancellation of the step that the current thread runs. */
#include "base/stop.h"

#include "base/clock.h"

#include <limits.h>

enum { WORK_BETWEEN = 1 << 20 };

static _Thread_local mf_stop here;
static _Thread_local int64_t work_left; /* until the next check */

/* Tests: checks until one fails; 0: the failing check was reached. */
static atomic_llong checks_left = LLONG_MAX;
static atomic_bool injecting;

void mf_stop_fail_at(int64_t nth)
{
    atomic_store(&checks_left, nth > 0 ? nth : LLONG_MAX);
    atomic_store(&injecting, nth > 0);
}

bool mf_stop_has_failed(void)
{
    return atomic_load(&checks_left) <= 0;
}

/* Only inside a step. */
static bool injected(void)
{
    return atomic_load_explicit(&injecting, memory_order_relaxed) &&
           atomic_fetch_sub(&checks_left, 1) <= 1;
}

mf_stop mf_stop_enter(mf_stop stop)
{
    const mf_stop before = here;

    here = stop;
    work_left = 0;
    return before;
}

mf_stop mf_stop_here(void)
{
    return here;
}

bool mf_stopped(void)
{
    if (!here.cancel)
        return false;
    return injected() || mf_cancel_is_raised(here.cancel) ||
           (here.deadline_ns > 0 && mf_clock_ns() > here.deadline_ns);
}

mf_status mf_stop_check(void)
{
    if (!mf_stopped())
        return MF_OK;
    if (here.deadline_ns > 0 && mf_clock_ns() > here.deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "the step ran past its deadline");
    return MF_FAIL(MF_CANCELLED, "the step was cancelled");
}

/* With no work left in the budget every call checks; after a stop it stays that way. */
bool mf_stopped_after(int64_t work)
{
    work_left -= work < WORK_BETWEEN ? work : WORK_BETWEEN;
    if (work_left > 0)
        return false;
    if (mf_stopped())
        return true;
    work_left = atomic_load_explicit(&injecting, memory_order_relaxed) ? 0 : WORK_BETWEEN;
    return false;
}

mf_status mf_stop_after(int64_t work)
{
    return mf_stopped_after(work) ? mf_stop_check() : MF_OK;
}
