/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - what all workers do together besides steps. */
#include "train/loop/team.h"

#include "base/clock.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "train/step/trainer.h"

#include <stdio.h>
#include <string.h>

void mf_strategy_ref(mf_strategy *strategy)
{
    atomic_fetch_add(&strategy->refs, 1);
}

void mf_strategy_unref(mf_strategy *strategy)
{
    const bool shown = strategy->shown;
    mf_error before; /* the caller may be about to tell it */

    if (atomic_fetch_sub(&strategy->refs, 1) > 1)
        return;
    mf_error_save(MF_UNKNOWN, &before);
    strategy->close(strategy);
    (void)mf_error_restore(&before);
    if (shown)
        mf_status_page_close();
}

mf_collective mf_dist_worker_call(const mf_dist_worker *team, int64_t step, const char *what)
{
    return (mf_collective){ .step = step,
                            .deadline_ns = mf_clock_ns() + team->timeout_ns,
                            .what = what };
}

mf_status mf_dist_worker_meet(mf_dist_worker *team, int64_t step, const char *what)
{
    const mf_collective c = mf_dist_worker_call(team, step, what);

    return mf_barrier(team->group, &c);
}

mf_status mf_dist_worker_gather(mf_dist_worker *team, int64_t step, const char *what,
                                const void *mine, int64_t size, void *all)
{
    const mf_collective c = mf_dist_worker_call(team, step, what);
    int64_t *sizes = mf_calloc(team->size, sizeof *sizes);
    mf_status st;

    if (!sizes)
        return MF_NOMEM("workers");
    for (int r = 0; r < team->size; r++)
        sizes[r] = size;
    st = mf_all_gather(team->group, &(mf_gather){ c, mine, sizes, all });
    mf_free(sizes);
    return st;
}

/* `root`'s value of a variable, in memory of its own. */
static mf_status team_receive(mf_dist_worker *team, int root, const mf_train_var *v, int64_t step,
                              mf_tensor *out)
{
    const mf_collective c = mf_dist_worker_call(team, step, v->name);
    mf_tensor value = { 0 };
    /* Others may hold the value; who is given one need not have any. */
    mf_status st = mf_tensor_alloc(out, v->variable->dtype, &v->variable->declared);

    if (st == MF_OK && team->rank == root)
        st = mf_variable_read(v->variable, &value);
    if (st == MF_OK) {
        const size_t size = (size_t)out->count * mf_dtype_cell(out->dtype);

        if (value.data)
            memcpy(out->data, value.data, size);
        st = mf_broadcast(team->group, &c, root, out->data, (int64_t)size);
    }
    mf_tensor_clear(&value);
    return st;
}

mf_status mf_dist_worker_give(mf_dist_worker *team, int root, const mf_train_var *v, int64_t step)
{
    mf_tensor value = { 0 };
    mf_status st = team_receive(team, root, v, step, &value);

    if (st == MF_OK && team->rank != root)
        st = mf_variable_assign(v->variable, &value, true);
    mf_tensor_clear(&value);
    return st;
}

/* The optimizer's state may be kept by one worker only, or by servers, whose copies are the newer
 * ones. */
static mf_status receive_all(mf_dist_worker *team, int root, mf_trainer *t, int64_t step,
                             mf_tensor *values)
{
    const bool elsewhere =
        team->one_updates || (team->pulls && mf_dist_worker_meets(team) && !team->anew);

    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!(elsewhere && mf_train_var_is_slot(&t->trained[i])))
            MF_TRY(team_receive(team, root, &t->trained[i], step, &values[i]));
    }
    return MF_OK;
}

/* Who has received some, when `root` dies, still has what it had before, and no mixture. */
mf_status mf_dist_worker_give_all(mf_dist_worker *team, int root, mf_trainer *t, int64_t step)
{
    mf_tensor *values = mf_calloc(t->n_trained, sizeof *values);
    mf_status st = values ? receive_all(team, root, t, step, values) : MF_NOMEM("variables");

    for (int64_t i = 0; values && i < t->n_trained; i++) {
        if (st == MF_OK && values[i].data && team->rank != root)
            st = mf_variable_assign(t->trained[i].variable, &values[i], true);
        mf_tensor_clear(&values[i]);
    }
    mf_free(values);
    return st;
}

/* ---- what is kept ---- */

enum { NAME_MAX_BYTES = 4096 };

typedef struct extra_head {
    int64_t name, rank, dims[MF_MAX_RANK];
} extra_head;

/* The chief's i-th tensor to everybody. `name` has room for NAME_MAX_BYTES. */
static mf_status align_one(mf_dist_worker *team, const mf_collective *c, int64_t i, char *name)
{
    extra_head h = { 0 };
    mf_aux_state *k = team->rank == 0 ? &team->extra.at[i] : NULL;
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
        st = mf_aux_state_add(&team->extra, name, &value);
    mf_tensor_clear(&value);
    return st;
}

static mf_status align_extra(mf_dist_worker *team, int64_t step)
{
    const mf_collective c = mf_dist_worker_call(team, step, "what codecs keep");
    char *name = mf_calloc(NAME_MAX_BYTES, 1);
    int64_t n = team->restored ? team->extra.n : -1; /* -1: all goes on as it is */
    mf_status st = name ? MF_OK : MF_NOMEM("a name");

    if (st == MF_OK)
        st = mf_broadcast(team->group, &c, 0, &n, sizeof n);
    if (team->rank != 0 || n < 0)
        mf_aux_state_clear(&team->extra);
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = align_one(team, &c, i, name);
    mf_free(name);
    team->restored = team->collected = false;
    return st == MF_OK && n >= 0 ? team->kind->restore(team, step) : st;
}

/* ---- how far everybody is ---- */

/* Whoever has the samples in another order than the others would train on others. */
static mf_status compare_order(const mf_sliced *own, const mf_sliced *others)
{
    if (own->by == others->by && own->batch == others->batch && own->files == others->files)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "this worker's data is cut otherwise than the chief's: %s; let all workers have "
                   "the same files, or use --slice element",
                   own->by != others->by ? "by file here, not there, or the other way round"
                   : own->batch != others->batch
                       ? "batches have another size"
                       : "there are other files, or other samples in them");
}

/* Everybody's steps and evaluations, two numbers by rank. */
static mf_status gather_progress(mf_dist_worker *team, const mf_train_progress *mine, int64_t *all)
{
    /* Of step 0: who has nothing yet does not know better. */
    const int64_t own[2] = { mine->steps, mine->evaluations };

    return mf_dist_worker_gather(team, 0, "how far everybody is", own, sizeof own, all);
}

static bool team_is_behind(const int64_t a[2], const int64_t b[2])
{
    return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

static int team_find_furthest(const mf_dist_worker *team, const int64_t *all)
{
    int root = 0;

    for (int r = 1; r < team->size; r++) {
        if (team_is_behind(&all[2 * root], &all[2 * r]))
            root = r;
    }
    return root;
}

void mf_trainer_stand(mf_trainer *t, const mf_train_progress *s)
{
    t->standing = *s;
    t->step = s->steps;
    t->epoch = s->epoch;
    t->first = s->first;
    t->has_state = true;
}

mf_train_progress mf_trainer_standing(const mf_trainer *t)
{
    mf_train_progress s = t->standing;

    s.steps = t->has_state ? t->step : -1;
    s.epoch = t->epoch;
    s.first = t->first;
    s.sliced = t->sliced;
    return s;
}

/* Nobody has anything: the first one begins. */
static mf_status team_begin(mf_dist_worker *team, mf_trainer *t)
{
    if (team->rank != 0)
        return MF_OK;
    if (team->begin)
        MF_TRY(team->begin(team->begin_ctx));
    t->has_state = true;
    return MF_OK;
}

static bool all_are_equal(const mf_dist_worker *team, const int64_t *all)
{
    for (int r = 0; r < team->size; r++) {
        if (all[2 * r] < 0 || all[2 * r] != all[0])
            return false;
    }
    return true;
}

static mf_status align_with(mf_dist_worker *team, mf_trainer *t, const int64_t *all)
{
    const int root = team_find_furthest(team, all);
    const mf_collective c = mf_dist_worker_call(team, 0, "the place to begin");
    mf_sliced own;
    mf_train_progress s;

    team->anew = all[2 * root] < 0;
    if (team->anew)
        MF_TRY(team_begin(team, t));
    own = t->sliced;
    s = mf_trainer_standing(t);
    MF_TRY(mf_broadcast(team->group, &c, root, &s, sizeof s));
    MF_TRY(compare_order(&own, &s.sliced));
    if (!all_are_equal(team, all))
        MF_TRY(mf_dist_worker_give_all(team, root, t, s.steps));
    mf_trainer_stand(t, &s);
    if (mf_dist_worker_keeps(team))
        MF_TRY(align_extra(team, t->step));
    return team->kind->aligned ? team->kind->aligned(team, t) : MF_OK;
}

mf_status mf_dist_worker_align(mf_dist_worker *team, mf_trainer *t)
{
    const mf_train_progress mine = mf_trainer_standing(t);
    int64_t *all;
    mf_status st;

    if (!team->group)
        return MF_OK;
    all = mf_calloc(team->size, 2 * sizeof *all);
    st = all ? gather_progress(team, &mine, all) : MF_NOMEM("workers");
    if (st == MF_OK)
        st = align_with(team, t, all);
    mf_free(all);
    return st;
}

mf_status mf_dist_worker_gather_round(mf_dist_worker *team, mf_trainer *t, mf_status why)
{
    do {
        MF_TRY(team->kind->meet(team, t, why));
        why = mf_dist_worker_align(team, t);
    } while (why != MF_OK);
    team->meetings++;
    team->changes = false;
    return MF_OK;
}
