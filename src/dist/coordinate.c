/* SPDX-License-Identifier: Apache-2.0 */
/* coordinate.c - what workers do together on request of the caller: barrier, stop, leave, abort. */
#include "base/host_state.h"
#include "base/mem.h"
#include "dist/strategies.h"

#include <string.h>

enum { NAME = 64 }; /* bytes of a barrier's name */

/* Every worker names its barrier. */
static mf_status compare_names(const mf_dist *dist, const char *names)
{
    const char *mine = names + (size_t)dist->rank * NAME;

    for (int r = 0; r < dist->size; r++) {
        const char *theirs = names + (size_t)r * NAME;

        if (memcmp(mine, theirs, NAME) != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s is at the barrier '%.63s', %s at '%.63s'",
                           dist->group->names[dist->rank], mine, dist->group->names[r], theirs);
    }
    return MF_OK;
}

mf_status mf_strategy_barrier(mf_strategy *strategy, const char *name)
{
    MF_ENTRY;
    MF_NEED(name);

    mf_dist *dist = strategy ? strategy->dist : NULL;
    char mine[NAME] = "";
    int64_t *sizes;
    char *names;
    mf_status st;

    if (strlen(name) > NAME - 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the name of a barrier is too long: '%.80s'", name);
    if (!dist || !dist->group)
        return MF_OK;
    memcpy(mine, name, strlen(name));
    sizes = mf_calloc(dist->size, sizeof *sizes);
    names = mf_calloc(dist->size, NAME);
    st = sizes && names ? MF_OK : MF_NOMEM("a barrier");
    for (int r = 0; st == MF_OK && r < dist->size; r++)
        sizes[r] = NAME;
    if (st == MF_OK) {
        const mf_collective c = mf_dist_collective(dist, 0, "the barrier");

        st = mf_all_gather(dist->group, &(mf_gather){ c, mine, sizes, names });
    }
    if (st == MF_OK)
        st = compare_names(dist, names);
    mf_free(sizes);
    mf_free(names);
    return st;
}

void mf_strategy_stop(mf_strategy *strategy)
{
    if (strategy)
        atomic_store(&strategy->stop, true);
}

void mf_strategy_leave(mf_strategy *strategy)
{
    const mf_dist *dist = strategy ? strategy->dist : NULL;

    if (mf_dist_may_recover(dist) || (dist && dist->members && mf_dist_serves(dist)))
        atomic_store(&strategy->dist->leave_requested, true);
    else
        mf_strategy_stop(strategy);
}

bool mf_strategy_has_left(const mf_strategy *strategy)
{
    return strategy && strategy->dist && strategy->dist->state == MF_DIST_LEFT;
}

void mf_strategy_abort(mf_strategy *strategy, mf_status why)
{
    MF_ENTRY_OR();

    if (strategy && why != MF_OK)
        mf_dist_failed(strategy->dist, why);
}
