/* SPDX-License-Identifier: Apache-2.0 */
/* roll_back.c - rolls the weights back to an earlier checkpoint after too many skipped steps. */
#include "train/loop/roll_back.h"

#include "base/log.h"
#include "train/loop/dist.h"

#include <string.h>

/* Consecutive skipped steps, up to the last step. */
typedef struct roll_back_row {
    int64_t n, first;
    int64_t times; /* roll-backs because of it, including this one */
} roll_back_row;

/* ---- one number of the trainer ---- */

typedef struct kept {
    int64_t step, epoch, first;
    mf_sliced sliced;
    mf_tensor counts[3];
} kept;

static const char *const count_names[] = { "global_step", "skipped_steps", "skipped_steps_in_row" };

/* State that does not go back. */
static mf_status roll_back_keep(const mf_trainer *t, kept *k)
{
    *k = (kept){ .step = t->step, .epoch = t->epoch, .first = t->first, .sliced = t->sliced };
    for (int i = 0; i < MF_COUNT(count_names); i++)
        MF_TRY(mf_variable_read(mf_trainer_find(t, count_names[i])->variable, &k->counts[i]));
    return MF_OK;
}

static mf_status roll_back_put_back(mf_trainer *t, const kept *k)
{
    t->step = k->step;
    t->epoch = k->epoch;
    t->first = k->first;
    t->sliced = k->sliced;
    for (int i = 0; i < MF_COUNT(count_names); i++)
        MF_TRY(
            mf_variable_assign(mf_trainer_find(t, count_names[i])->variable, &k->counts[i], true));
    return MF_OK;
}

static void roll_back_forget(kept *k)
{
    for (int i = 0; i < MF_COUNT(count_names); i++)
        mf_tensor_clear(&k->counts[i]);
}

/* ---- the chief ---- */

/* A checkpoint made right before the row, or in it, has the current weights. If these already came
 * from the newest one before that, that one does not help. */
static bool is_of_use(const roll_back_row *r, int64_t step, bool *passed_over)
{
    if (step >= r->first - 1)
        return false;
    if (r->times == 1 || *passed_over)
        return true;
    *passed_over = true;
    return false;
}

static mf_status restore_newest(mf_trainer *t, const char *dir, const roll_back_row *r,
                                int64_t *taken)
{
    bool passed_over = false;
    int64_t *steps, n;
    mf_status st = mf_checkpoints_list(dir, &steps, &n);

    *taken = -1;
    for (int64_t i = n - 1; st == MF_OK && *taken < 0 && i >= 0; i--) {
        char *prefix;

        if (!is_of_use(r, steps[i], &passed_over))
            continue;
        st = mf_checkpoints_prefix(dir, steps[i], &prefix);
        if (st != MF_OK)
            break;
        if (mf_trainer_restore(t, prefix) == MF_OK)
            *taken = steps[i];
        else
            MF_WARN("checkpoint %s cannot be used: %s", prefix, mf_error_message());
        mf_free(prefix);
    }
    mf_free(steps);
    return st;
}

static mf_status roll_back_restore(mf_trainer *t, const char *dir, mf_checkpoints *c,
                                   const roll_back_row *r, int64_t *taken)
{
    kept k = { 0 };
    mf_status st;

    *taken = -1;
    if (!dir || !c)
        return MF_OK;
    /* Which one is the newest must not depend on how fast it is written. */
    if (mf_checkpoints_wait(c) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    st = roll_back_keep(t, &k);
    if (st == MF_OK)
        st = restore_newest(t, dir, r, taken);
    if (st == MF_OK)
        st = roll_back_put_back(t, &k);
    if (st == MF_OK && *taken >= 0)
        st = mf_checkpoints_drop_after(c, *taken);
    roll_back_forget(&k);
    return st;
}

/* ---- all ---- */

static mf_status no_way_back(const roll_back_row *r)
{
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "%lld consecutive steps (%lld to %lld) had a loss or gradients with NaN/Inf, and there "
        "is no earlier checkpoint to go back to; lower --lr, clip gradients (--clip), check the "
        "data, or save more often (--out, --save-steps)",
        (long long)r->n, (long long)r->first, (long long)(r->first + r->n - 1));
}

mf_status mf_roll_back_if_due(mf_trainer *t, const char *dir, mf_checkpoints *checkpoints)
{
    const int64_t limit = t->graph.guard.in_row;
    const int64_t n = limit > 0 ? mf_guard_skipped_in_row(t) : 0;
    const roll_back_row r = { n, t->step - n + 1, limit > 0 ? n / limit : 0 };
    mf_dist *dist = t->dist;
    int64_t taken = -1;

    if (n == 0 || n % limit != 0 || t->progress.rolled_back == t->step)
        return MF_OK;
    if (mf_dist_is_chief(dist))
        MF_TRY(roll_back_restore(t, dir, checkpoints, &r, &taken));
    if (dist && dist->group) {
        const mf_collective c = mf_dist_collective(dist, t->step, "the checkpoint to restore");

        MF_TRY(mf_broadcast(dist->group, &c, 0, &taken, sizeof taken));
    }
    if (taken < 0)
        return no_way_back(&r);
    if (mf_dist_is_chief(dist))
        MF_WARN("%lld consecutive steps (%lld to %lld) had a loss or gradients with NaN/Inf: "
                "weights are those of step %lld again, and training continues with step %lld",
                (long long)n, (long long)r.first, (long long)t->step, (long long)taken,
                (long long)t->step + 1);
    if (dist && dist->group)
        MF_TRY(mf_dist_broadcast_state(dist, 0, t, t->step));
    /* If a worker is lost from here on, workers that lack the weights get them from this one. */
    t->progress.rolled_back = t->step;
    return dist && dist->group ? mf_dist_align_state(dist, t) : MF_OK; /* auxiliary state, too */
}
