/* SPDX-License-Identifier: Apache-2.0 */
/* align_state.c - all workers get the state of the worker that has done the most steps. */
#include "base/mem.h"
#include "train/loop/dist.h"
#include "train/step/trainer.h"

#include <stdio.h>
#include <string.h>

/* ---- variables ---- */

/* `root`'s value of a variable, in memory of its own. */
static mf_status receive_variable(mf_dist *dist, int root, const mf_train_var *v, int64_t step,
                                  mf_tensor *out)
{
    const mf_collective c = mf_dist_collective(dist, step, v->name);
    mf_tensor value = { 0 };
    /* A slot may be held by other tasks only; a receiver need not have a value. */
    mf_status st = mf_tensor_alloc(out, v->variable->dtype, &v->variable->declared);

    if (st == MF_OK && dist->rank == root)
        st = mf_variable_read(v->variable, &value);
    if (st == MF_OK) {
        const size_t size = (size_t)out->count * mf_dtype_cell(out->dtype);

        if (value.data)
            memcpy(out->data, value.data, size);
        st = mf_broadcast(dist->group, &c, root, out->data, (int64_t)size);
    }
    mf_tensor_clear(&value);
    return st;
}

mf_status mf_dist_broadcast_variable(mf_dist *dist, int root, const mf_train_var *v, int64_t step)
{
    mf_tensor value = { 0 };
    mf_status st = receive_variable(dist, root, v, step, &value);

    if (st == MF_OK && dist->rank != root)
        st = mf_variable_assign(v->variable, &value, true);
    mf_tensor_clear(&value);
    return st;
}

/* Only one worker, or servers, may have the optimizer's state; the servers' copies are newer. */
static mf_status receive_state(mf_dist *dist, int root, mf_trainer *t, int64_t step,
                               mf_tensor *values)
{
    const bool elsewhere = mf_dist_can(dist, MF_DIST_ONE_UPDATER) ||
                           (mf_dist_can(dist, MF_DIST_PULLS_WEIGHTS) && mf_dist_may_recover(dist) &&
                            !dist->history.fresh);

    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!(elsewhere && mf_train_var_is_slot(&t->trained[i])))
            MF_TRY(receive_variable(dist, root, &t->trained[i], step, &values[i]));
    }
    return MF_OK;
}

/* If `root` is lost, a worker that has received some variables still has its previous values, and
 * no mixture. */
mf_status mf_dist_broadcast_state(mf_dist *dist, int root, mf_trainer *t, int64_t step)
{
    mf_tensor *values = mf_calloc(t->n_trained, sizeof *values);
    mf_status st = values ? receive_state(dist, root, t, step, values) : MF_NOMEM("variables");

    for (int64_t i = 0; values && i < t->n_trained; i++) {
        if (st == MF_OK && values[i].data && dist->rank != root)
            st = mf_variable_assign(t->trained[i].variable, &values[i], true);
        mf_tensor_clear(&values[i]);
    }
    mf_free(values);
    return st;
}

/* ---- auxiliary state ---- */

enum { NAME_MAX_BYTES = 4096 };

typedef struct aux_head {
    int64_t name, rank, dims[MF_MAX_RANK];
} aux_head;

/* Broadcast the chief's i-th tensor. `name` has space for NAME_MAX_BYTES. */
static mf_status align_aux_tensor(mf_dist *dist, const mf_collective *c, int64_t i, char *name)
{
    aux_head h = { 0 };
    mf_aux_state *k = dist->rank == 0 ? &dist->aux.list.at[i] : NULL;
    mf_tensor value = { 0 };
    mf_shape shape;
    mf_status st;

    if (k) {
        h.name = (int64_t)strlen(k->name);
        h.rank = k->value.shape.rank;
        memcpy(h.dims, k->value.shape.dims, sizeof h.dims);
        (void)snprintf(name, NAME_MAX_BYTES, "%s", k->name);
    }
    MF_TRY(mf_broadcast(dist->group, c, 0, &h, sizeof h));
    if (h.name <= 0 || h.name >= NAME_MAX_BYTES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a name of %lld bytes", (long long)h.name);
    MF_TRY(mf_shape_from_dims(h.dims, h.rank, &shape));
    MF_TRY(mf_broadcast(dist->group, c, 0, name, h.name));
    name[h.name] = '\0';
    if (k)
        mf_tensor_set(&value, &k->value);
    else
        MF_TRY(mf_tensor_alloc(&value, MF_DTYPE_F32, &shape));
    st = mf_broadcast(dist->group, c, 0, value.data, value.count * (int64_t)sizeof(float));
    if (st == MF_OK && !k)
        st = mf_aux_state_add(&dist->aux.list, name, &value);
    mf_tensor_clear(&value);
    return st;
}

static mf_status align_aux_state(mf_dist *dist, int64_t step)
{
    const mf_collective c = mf_dist_collective(dist, step, "codec state");
    char *name = mf_calloc(NAME_MAX_BYTES, 1);
    int64_t n = dist->aux.restored ? dist->aux.list.n : -1; /* -1: it does not change */
    mf_status st = name ? MF_OK : MF_NOMEM("a name");

    if (st == MF_OK)
        st = mf_broadcast(dist->group, &c, 0, &n, sizeof n);
    if (dist->rank != 0 || n < 0)
        mf_aux_state_clear(&dist->aux.list);
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = align_aux_tensor(dist, &c, i, name);
    mf_free(name);
    dist->aux.restored = dist->aux.collected = false;
    return st == MF_OK && n >= 0 ? dist->ops.state->restore(dist, step) : st;
}

/* ---- progress of all workers ---- */

/* A worker with another sample order would train on other samples. */
static mf_status compare_order(const mf_sliced *own, const mf_sliced *others)
{
    if (own->by == others->by && own->batch == others->batch && own->files == others->files)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "this worker's data is sliced differently from the chief's: %s; give all "
                   "workers the same files, or use --slice element",
                   own->by != others->by         ? "one of them slices by file, the other does not"
                   : own->batch != others->batch ? "batches have another size"
                                                 : "the files, or the samples in them, differ");
}

/* How far a worker is. A roll-back follows its step, evaluations follow both. */
typedef struct align_state_place {
    int64_t steps, rolled_back, evaluations;
} align_state_place;

/* By rank. */
static mf_status gather_all_progress(mf_dist *dist, const mf_train_progress *mine,
                                     align_state_place *all)
{
    /* Of step 0: a worker without state does not know the step. */
    const align_state_place own = { mine->steps, mine->rolled_back, mine->evaluations };

    return mf_dist_all_gather(dist, 0, "the progress of all workers", &own, sizeof own, all);
}

static bool is_behind(const align_state_place *a, const align_state_place *b)
{
    if (a->steps != b->steps)
        return a->steps < b->steps;
    return a->rolled_back != b->rolled_back ? a->rolled_back < b->rolled_back
                                            : a->evaluations < b->evaluations;
}

static int find_furthest(const mf_dist *dist, const align_state_place *all)
{
    int root = 0;

    for (int r = 1; r < dist->size; r++) {
        if (is_behind(&all[root], &all[r]))
            root = r;
    }
    return root;
}

void mf_trainer_set_progress(mf_trainer *t, const mf_train_progress *s)
{
    t->progress = *s;
    t->step = s->steps;
    t->epoch = s->epoch;
    t->first = s->first;
    t->has_state = true;
}

mf_train_progress mf_trainer_progress(const mf_trainer *t)
{
    mf_train_progress s = t->progress;

    s.steps = t->has_state ? t->step : -1;
    s.epoch = t->epoch;
    s.first = t->first;
    s.sliced = t->sliced;
    return s;
}

/* No worker has state: the chief makes it. */
static mf_status init_fresh_state(mf_dist *dist, mf_trainer *t)
{
    if (dist->rank != 0)
        return MF_OK;
    if (dist->init_state)
        MF_TRY(dist->init_state(dist->init_ctx));
    t->has_state = true;
    return MF_OK;
}

/* Evaluations do not change weights. */
static bool all_have_the_same_weights(const mf_dist *dist, const align_state_place *all)
{
    for (int r = 0; r < dist->size; r++) {
        if (all[r].steps < 0 || all[r].steps != all[0].steps ||
            all[r].rolled_back != all[0].rolled_back)
            return false;
    }
    return true;
}

static mf_status align_to_furthest(mf_dist *dist, mf_trainer *t, const align_state_place *all)
{
    const int root = find_furthest(dist, all);
    const mf_collective c = mf_dist_collective(dist, 0, "the position in the data");
    mf_sliced own;
    mf_train_progress s;

    dist->history.fresh = all[root].steps < 0;
    if (dist->history.fresh)
        MF_TRY(init_fresh_state(dist, t));
    own = t->sliced;
    s = mf_trainer_progress(t);
    MF_TRY(mf_broadcast(dist->group, &c, root, &s, sizeof s));
    MF_TRY(compare_order(&own, &s.sliced));
    if (!all_have_the_same_weights(dist, all))
        MF_TRY(mf_dist_broadcast_state(dist, root, t, s.steps));
    mf_trainer_set_progress(t, &s);
    if (mf_dist_has_aux_state(dist))
        MF_TRY(align_aux_state(dist, t->step));
    return MF_DIST_HAS(dist, membership, aligned) ? dist->ops.membership->aligned(dist, t) : MF_OK;
}

mf_status mf_dist_align_state(mf_dist *dist, mf_trainer *t)
{
    const mf_train_progress mine = mf_trainer_progress(t);
    align_state_place *all;
    mf_status st;

    if (!dist->group)
        return MF_OK;
    all = mf_calloc(dist->size, sizeof *all);
    st = all ? gather_all_progress(dist, &mine, all) : MF_NOMEM("workers");
    if (st == MF_OK)
        st = align_to_furthest(dist, t, all);
    mf_free(all);
    return st;
}
