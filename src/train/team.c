/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - what all workers do together besides steps. */
#include "train/team.h"

#include "base/clock.h"
#include "train/trainer.h"

#include <stdio.h>
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

mf_status mf_team_give(mf_team *team, int root, const mf_trained *v, int64_t step)
{
    const mf_collective c = mf_team_call(team, step, v->name);
    mf_tensor value = { 0 }, mine = { 0 };
    mf_status st;

    st = mf_variable_read(v->variable, &value);
    if (st == MF_OK) /* others may hold the value */
        st = mf_tensor_alloc(&mine, value.dtype, &value.shape);
    if (st == MF_OK) {
        const size_t size = (size_t)value.count * mf_dtype_cell(value.dtype);

        memcpy(mine.data, value.data, size);
        st = mf_broadcast(team->group, &c, root, mine.data, (int64_t)size);
    }
    if (st == MF_OK && team->rank != root)
        st = mf_variable_assign(v->variable, &mine, true);
    mf_tensor_clear(&mine);
    mf_tensor_clear(&value);
    return st;
}

/* ---- what is kept ---- */

enum { NAME_MAX_BYTES = 4096 };

typedef struct extra_head {
    int64_t name, rank, dims[MF_MAX_RANK];
} extra_head;

/* The chief's i-th tensor to everybody. `name` has room for NAME_MAX_BYTES. */
static mf_status align_one(mf_team *team, const mf_collective *c, int64_t i, char *name)
{
    extra_head h = { 0 };
    mf_extra *k = team->rank == 0 ? &team->extra.at[i] : NULL;
    mf_tensor value = { 0 };
    mf_shape shape;
    mf_status st;

    if (k) {
        h.name = (int64_t)strlen(k->name);
        h.rank = k->value.shape.rank;
        memcpy(h.dims, k->value.shape.dims, sizeof h.dims);
        (void)snprintf(name, NAME_MAX_BYTES, "%s", k->name);
    }
    MF_TRY(mf_broadcast(team->group, c, 0, &h, sizeof h));
    if (h.name <= 0 || h.name >= NAME_MAX_BYTES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a name of %lld bytes", (long long)h.name);
    MF_TRY(mf_shape_from_dims(h.dims, h.rank, &shape));
    MF_TRY(mf_broadcast(team->group, c, 0, name, h.name));
    name[h.name] = '\0';
    if (k)
        mf_tensor_set(&value, &k->value);
    else
        MF_TRY(mf_tensor_alloc(&value, MF_DTYPE_F32, &shape));
    st = mf_broadcast(team->group, c, 0, value.data, value.count * (int64_t)sizeof(float));
    if (st == MF_OK && !k)
        st = mf_extra_add(&team->extra, name, &value);
    mf_tensor_clear(&value);
    return st;
}

static mf_status align_extra(mf_team *team, int64_t step)
{
    const mf_collective c = mf_team_call(team, step, "what codecs keep");
    char *name = mf_calloc(NAME_MAX_BYTES, 1);
    int64_t n = team->restored ? team->extra.n : -1; /* -1: all goes on as it is */
    mf_status st = name ? MF_OK : MF_NOMEM("a name");

    if (st == MF_OK)
        st = mf_broadcast(team->group, &c, 0, &n, sizeof n);
    if (team->rank != 0 || n < 0)
        mf_extra_clear(&team->extra);
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = align_one(team, &c, i, name);
    mf_free(name);
    team->restored = team->collected = false;
    return st == MF_OK && n >= 0 ? team->kind->restore(team, step) : st;
}

/* Whoever has the samples in another order than the chief would train on others. */
static mf_status compare_order(const mf_sliced *own, const mf_sliced *chief)
{
    if (own->by == chief->by && own->batch == chief->batch && own->files == chief->files)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "this worker's data is cut otherwise than the chief's: %s; let all workers have "
                   "the same files, or use --slice element",
                   own->by != chief->by ? "by file here, not there, or the other way round"
                   : own->batch != chief->batch
                       ? "batches have another size"
                       : "there are other files, or other samples in them");
}

mf_status mf_team_align(mf_team *team, mf_trainer *t)
{
    int64_t place[] = {
        t->step, t->epoch, t->first, t->sliced.by, t->sliced.batch, t->sliced.files
    };
    /* Of step 0: who has not read the checkpoint does not know better. */
    const mf_collective c = mf_team_call(team, 0, "the place to begin");

    if (!team->group)
        return MF_OK;
    MF_TRY(mf_broadcast(team->group, &c, 0, place, sizeof place));
    t->step = place[0];
    t->epoch = place[1];
    t->first = place[2];
    MF_TRY(compare_order(&t->sliced, &(mf_sliced){ place[3], place[4], place[5] }));
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!(team->one_updates && mf_trained_is_slot(&t->trained[i])))
            MF_TRY(mf_team_give(team, 0, &t->trained[i], t->step));
    }
    if (mf_team_keeps(team))
        MF_TRY(align_extra(team, t->step));
    return team->kind->aligned ? team->kind->aligned(team, t) : MF_OK;
}
