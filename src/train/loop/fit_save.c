/* SPDX-License-Identifier: Apache-2.0 */
/* fit_save.c - the loop's checkpoints, written by the chief, and by other tasks that hold a part of
 * them. */
#include "observe/status_page.h"
#include "train/loop/fit_private.h"

static bool is_leased(const mf_fit_ctx *f)
{
    return mf_dist_leases_batches(f->t->dist);
}

/* The checkpoint continues from this batch. global_step of servers counts updates, which are fewer
 * where several pushes make one. */
static mf_status stand_at(mf_fit_ctx *f, int64_t step)
{
    mf_trainer *t = f->t;
    mf_tensor value = { 0 };
    mf_status st;

    t->step = step;
    t->epoch = step / f->per_epoch;
    t->first = step % f->per_epoch * f->batch;
    MF_TRY(mf_tensor_alloc(&value, MF_DTYPE_I64, &MF_SCALAR));
    ((int64_t *)value.data)[0] = step;
    st = mf_variable_assign(mf_trainer_find(t, "global_step")->variable, &value, true);
    mf_tensor_clear(&value);
    return st;
}

/* Other tasks write the variables that they hold, this one the rest. *out NULL: no other task does.
 */
static mf_status save_with_others(mf_fit_ctx *f, mf_snapshot **out)
{
    mf_dist *dist = f->t->dist;
    char *prefix;
    mf_status st;

    if (is_leased(f))
        MF_TRY(stand_at(f, f->t->step));
    MF_TRY(mf_checkpoints_prefix(f->o.out, f->t->step, &prefix));
    st = mf_snapshot_take(f->t, out);
    if (st == MF_OK)
        st = dist->ops.state->save_parts(dist, f->t, prefix, *out);
    if (st != MF_OK || !mf_snapshot_has_parts(*out)) {
        mf_snapshot_free(*out);
        *out = NULL;
    }
    mf_free(prefix);
    return st;
}

static bool others_save_the_last(const mf_fit_ctx *f)
{
    return MF_DIST_HAS(f->t->dist, state, save_parts);
}

/* The last checkpoint is on the disk by the time of the next one. */
static mf_status note_saved(mf_fit_ctx *f)
{
    mf_dist *dist = f->t->dist;

    if (!MF_DIST_HAS(dist, state, note_saved) || dist->history.saved || f->written < 0)
        return MF_OK;
    dist->history.saved = true;
    return dist->ops.state->note_saved(dist);
}

/* Pull the servers' variables; with leased batches, the job is ahead of this worker. */
static mf_status bring_together(mf_fit_ctx *f, bool last)
{
    mf_dist *dist = f->t->dist;

    if (MF_DIST_HAS(dist, state, before_save))
        MF_TRY(dist->ops.state->before_save(dist, f->t));
    return is_leased(f) ? stand_at(f, last ? f->t->step : mf_fit_progress(f)) : MF_OK;
}

static mf_status fit_save_write(mf_fit_ctx *f, bool last)
{
    mf_snapshot *s = NULL;

    MF_TRY(mf_output_lock_check(f->claim));
    if (last && others_save_the_last(f))
        MF_TRY(save_with_others(f, &s));
    if (!s)
        MF_TRY(bring_together(f, last));
    mf_output_dir_flush(&f->dir);
    mf_hook_loop_flush(&f->loop); /* a resumed run has the events up to here */
    MF_TRY(s ? mf_checkpoints_put(f->dir.checkpoints, s)
             : mf_checkpoints_save(f->dir.checkpoints, f->t));
    f->written = f->t->step;
    return MF_OK;
}

/* The chief's part of it. */
static mf_status write_and_go_on(mf_fit_ctx *f, bool last)
{
    mf_trainer *t = f->t;
    const int64_t step = t->step, epoch = t->epoch, first = t->first;
    const mf_status st = fit_save_write(f, last);

    t->step = step;
    t->epoch = epoch;
    t->first = first;
    return st;
}

/* Before its end: the chief knows the reason. */
static bool fit_save_was_stopped(const mf_fit_ctx *f)
{
    const mf_trainer *t = f->t;

    if (t->decided)
        return false;
    return is_leased(f) ? t->progress.stop != 0 : t->step < f->total;
}

mf_status mf_fit_confirm(mf_fit_ctx *f)
{
    mf_dist *dist = f->t->dist;
    const mf_status st = f->dir.checkpoints && mf_dist_is_chief(dist)
                             ? mf_checkpoints_wait(f->dir.checkpoints)
                             : MF_OK;
    int64_t end[] = { st != MF_OK, fit_save_was_stopped(f) }; /* failed, stopped */
    mf_error why;

    if (dist)
        dist->stopped = end[1] != 0;
    if (!dist || !dist->group || dist->size == 1)
        return st;
    mf_error_save(st, &why);
    const mf_collective c =
        mf_dist_collective(dist, f->t->step, "the last checkpoint to be on disk");

    MF_TRY(mf_broadcast(dist->group, &c, 0, end, sizeof end));
    dist->stopped = end[1] != 0;
    if (st != MF_OK)
        return mf_error_restore(&why);
    return end[0] ? MF_FAIL(MF_RESOURCE_EXHAUSTED, "%s could not write the last checkpoint",
                            dist->group->names[0])
                  : MF_OK;
}

mf_status mf_fit_save(mf_fit_ctx *f, bool last)
{
    const int64_t step = last ? f->t->step : mf_fit_progress(f);

    if (!f->saves || f->saved == step)
        return MF_OK;
    if (!last && others_save_the_last(f) && step >= f->total)
        return MF_OK; /* the last checkpoint follows soon */
    MF_TRY(note_saved(f));
    mf_status_page_phase(MF_PHASE_SAVE);
    if (mf_dist_has_aux_state(f->t->dist))
        MF_TRY(f->t->dist->ops.state->collect(f->t->dist, f->t->step));
    if (f->dir.checkpoints && mf_dist_is_chief(f->t->dist))
        MF_TRY(write_and_go_on(f, last)); /* repeated if others were lost meanwhile */
    f->saved = step;
    return MF_OK;
}
