/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - what all workers do together besides steps. */
#include "train/team.h"

#include "base/clock.h"
#include "train/trainer.h"

#include <string.h>

mf_collective mf_team_call(const mf_team *team, int64_t step, const char *what)
{
    return (mf_collective){ .step = step,
                            .deadline_ns = mf_clock_ns() + team->timeout_ns,
                            .what = what };
}

mf_status mf_team_meet(mf_team *team, int64_t step, const char *what)
{
    const mf_collective c = mf_team_call(team, step, what);

    return mf_barrier(team->group, &c);
}

static mf_status align_variable(mf_team *team, const mf_trained *v, int64_t step)
{
    const mf_collective c = mf_team_call(team, step, v->name);
    mf_tensor value = { 0 }, mine = { 0 };
    mf_status st;

    if (team->one_updates && mf_trained_is_slot(v))
        return MF_OK;
    st = mf_variable_read(v->variable, &value);

    if (st == MF_OK) /* others may hold the value */
        st = mf_tensor_alloc(&mine, value.dtype, &value.shape);
    if (st == MF_OK) {
        const size_t size = (size_t)value.count * mf_dtype_cell(value.dtype);

        memcpy(mine.data, value.data, size);
        st = mf_broadcast(team->group, &c, 0, mine.data, (int64_t)size);
    }
    if (st == MF_OK && team->rank != 0)
        st = mf_variable_assign(v->variable, &mine, true);
    mf_tensor_clear(&mine);
    mf_tensor_clear(&value);
    return st;
}

mf_status mf_team_align(mf_team *team, mf_trainer *t)
{
    int64_t place[] = { t->step, t->epoch, t->first };
    /* Of step 0: who has not read the checkpoint does not know better. */
    const mf_collective c = mf_team_call(team, 0, "the place to begin");

    if (!team->group)
        return MF_OK;
    MF_TRY(mf_broadcast(team->group, &c, 0, place, sizeof place));
    t->step = place[0];
    t->epoch = place[1];
    t->first = place[2];
    for (int64_t i = 0; i < t->n_trained; i++)
        MF_TRY(align_variable(team, &t->trained[i], t->step));
    return team->kind->aligned ? team->kind->aligned(team, t) : MF_OK;
}
