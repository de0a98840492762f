/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - see pace.h. */
#include "train/pace.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

enum {
    WARM = 2, /* steps that are not looked at: the first one is compiled in */
    SHORTEST = 8, /* steps between two looks, to begin with */
    LONGEST = 512, /* and when they have changed nothing for long */
    SHORTEST_NS = 100000000 /* of time, below which parts of it say little */
};

#define MUCH 0.10 /* of the time is waited for input: it needs another thread */
#define NOTHING 0.01 /* is waited: it can do with fewer */
#define HELPS 0.9 /* or less of what was waited before: the last thread was worth it */

void mf_pace_init(mf_pace *p, int threads)
{
    *p = (mf_pace){ .threads = threads > 0 ? threads : 1,
                    .least = threads > 0 ? threads : 1,
                    .most = threads > 0 ? threads : mf_usable_cores(),
                    .pause = SHORTEST,
                    .steps = -WARM };
}

void mf_pace_look(mf_pace *p, double waited)
{
    const bool in_vain = p->change > 0 && waited > HELPS * p->before;
    const int last = p->change;

    p->change = 0;
    if (in_vain || (waited < NOTHING && p->threads > p->least))
        p->change = -1;
    else if (waited > MUCH && p->threads < p->most)
        p->change = 1;
    p->before = waited;
    p->threads += p->change;
    if (p->change > 0 && last >= 0) /* else it goes to and fro, so slower and slower */
        p->pause = SHORTEST;
    else
        p->pause = p->pause < LONGEST ? 2 * p->pause : LONGEST;
}

mf_status mf_pace_step(mf_pace *p, mf_iterator *it, int64_t step)
{
    const int64_t now = mf_clock_ns(), waited = mf_iterator_waited_ns(it);
    double part;

    if (p->least == p->most)
        return MF_OK; /* there is nothing to decide */
    if (++p->steps > 0 && (p->steps < p->pause || now - p->begun_ns < SHORTEST_NS))
        return MF_OK;
    if (p->steps > 0) {
        part = (double)(waited - p->waited_ns) / (double)(now - p->begun_ns + 1);
        mf_pace_look(p, part);
        p->steps = p->change != 0 ? -1 : 0; /* batches made ahead are made again */
        if (p->change != 0) {
            MF_INFO("until step %lld %.0f %% of the time was waited for input: %d thread%s read%s "
                    "from now on",
                    (long long)step, 100.0 * part, p->threads, p->threads > 1 ? "s" : "",
                    p->threads > 1 ? "" : "s");
            MF_TRY(mf_iterator_set_threads(it, p->threads));
        }
        /* The pool that computes would get the other cores here, if it could change its size. */
    }
    p->begun_ns = now;
    p->waited_ns = waited;
    return MF_OK;
}
