/* SPDX-License-Identifier: Apache-2.0 */
/* fit_members.c - the loop, when others have come, left or been lost. */
#include "observe/status_page.h"
#include "train/loop/fit_private.h"

/* The chief writes; what there is may be another worker's. */
static mf_status write_as_chief(mf_fit_ctx *f)
{
    const mf_output_dir_data data = { f->train, &f->order, f->per_epoch,
                                      .leased = f->t->team->kind->lease != NULL };
    const mf_hook *events;

    if (!data.leased)
        mf_output_dir_catch_up(&f->dir, f->o.out, f->t, &data);
    if (!f->out || f->o.out)
        return MF_OK;
    MF_TRY(mf_fit_claim(f));
    f->o.out = f->out;
    f->saves = true;
    MF_TRY(mf_output_dir_take_over(&f->dir, f->out, f->o.keep, f->t, &data));
    MF_TRY(mf_fit_add_events(f));
    for (int i = 0; i < f->o.n_hooks; i++) {
        if (f->hooks[i].take_over)
            MF_TRY(f->hooks[i].take_over(f->hooks[i].ctx, f->t));
    }
    events = &f->hooks[f->loop.n_hooks - 1];
    return events->after_create_session(events->ctx, &f->loop);
}

/* We may have been given another state than we had, other shards, other duties. */
mf_status mf_fit_take_note(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    mf_dist_worker *team = t->team;

    if (!team || f->meetings == team->meetings)
        return MF_OK;
    f->meetings = team->meetings;
    f->progress = -1;
    f->stop = t->standing.stop != 0;
    if (f->followed > t->step) /* what not all had done is done once more */
        f->followed = t->step;
    mf_replica_check_forget(&f->agreement);
    mf_status_page_shards(team->first_shard, team->n_shards);
    mf_dist_worker_trace_deinit(&f->trace, t);
    if (!f->it) /* all is still to be made */
        return MF_OK;
    MF_TRY(mf_fit_share(f));
    MF_TRY(mf_iterator_seek(f->it, t->epoch, t->first));
    if (mf_dist_worker_is_chief(team))
        return write_as_chief(f);
    mf_output_dir_hand_over(&f->dir);
    return MF_OK;
}
