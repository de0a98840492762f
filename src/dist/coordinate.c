/* SPDX-License-Identifier: Apache-2.0 */
/* coordinate.c - what workers do together at a caller's wish: wait for each other, stop, give up.
 */
#include "base/host_state.h"
#include "base/mem.h"
#include "dist/strategies.h"

#include <string.h>

enum { NAME = 64 }; /* bytes of a barrier's name */

/* Everybody tells its barrier. */
static mf_status compare_names(const mf_dist_worker *team, const char *names)
{
    const char *mine = names + (size_t)team->rank * NAME;

    for (int r = 0; r < team->size; r++) {
        const char *theirs = names + (size_t)r * NAME;

        if (memcmp(mine, theirs, NAME) != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s came to the barrier '%.63s', %s to '%.63s'",
                           team->group->names[team->rank], mine, team->group->names[r], theirs);
    }
    return MF_OK;
}

mf_status mf_strategy_barrier(mf_strategy *strategy, const char *name)
{
    MF_ENTRY;
    MF_NEED(name);

    mf_dist_worker *team = strategy ? strategy->team : NULL;
    char mine[NAME] = "";
    int64_t *sizes;
    char *names;
    mf_status st;

    if (strlen(name) > NAME - 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the name of a barrier is too long: '%.80s'", name);
    if (!team || !team->group)
        return MF_OK;
    memcpy(mine, name, strlen(name));
    sizes = mf_calloc(team->size, sizeof *sizes);
    names = mf_calloc(team->size, NAME);
    st = sizes && names ? MF_OK : MF_NOMEM("a barrier");
    for (int r = 0; st == MF_OK && r < team->size; r++)
        sizes[r] = NAME;
    if (st == MF_OK) {
        const mf_collective c = mf_dist_worker_call(team, 0, "the barrier");

        st = mf_all_gather(team->group, &(mf_gather){ c, mine, sizes, names });
    }
    if (st == MF_OK)
        st = compare_names(team, names);
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
    const mf_dist_worker *team = strategy ? strategy->team : NULL;

    if (mf_dist_worker_meets(team) || (team && team->members && team->kind->serve))
        atomic_store(&strategy->team->leaves, true);
    else
        mf_strategy_stop(strategy);
}

bool mf_strategy_has_left(const mf_strategy *strategy)
{
    return strategy && strategy->team && strategy->team->left;
}

void mf_strategy_abort(mf_strategy *strategy, mf_status why)
{
    MF_ENTRY_OR();

    if (strategy && strategy->team && strategy->team->kind->failed && why != MF_OK)
        strategy->team->kind->failed(strategy->team, why);
}
