/* SPDX-License-Identifier: Apache-2.0 */
/* fit_private.h - shared by the files of mf_fit(): fit_prepare.c (before the first step), fit.c
 * (the loop), fit_save.c (checkpoints), fit_rows.c (which rows of a batch are read). */
#ifndef MF_TRAIN_LOOP_FIT_PRIVATE_H
#define MF_TRAIN_LOOP_FIT_PRIVATE_H

#include "data/dataset.h"
#include "data/sample_subset.h"
#include "train/checkpoint/output_dir.h"
#include "train/checkpoint/output_lock.h"
#include "train/loop/dist_trace.h"
#include "train/loop/input_autotune.h"
#include "train/loop/loop.h"
#include "train/loop/replica_check.h"
#include "train/loop/straggler.h"

typedef struct mf_fit_ctx {
    mf_trainer *t;
    mf_dataset *train, *validation;
    mf_fit_options o;
    mf_iterator *it;
    const char *out; /* the output directory of the chief, also while this worker is not the chief
                      */
    mf_output_lock *claim; /* of `out`, while this worker writes there; NULL: it does not */
    mf_output_dir dir;
    mf_replica_check agreement; /* with the other workers */
    mf_hook_loop loop;
    mf_hook *hooks; /* the caller's, then the built-in ones */
    int64_t total; /* steps of the training */
    int64_t restored; /* step of the checkpoint that training continues from; -1: none */
    int64_t saved; /* step of the last checkpoint, of any worker */
    int64_t written; /* of the last checkpoint that this worker has written or begun; -1: none */
    bool saves; /* the job writes checkpoints, possibly on another worker */
    bool stop; /* a worker asked to stop, or no batch is left */
    mf_input_autotune feeding; /* of threads */
    int64_t waited_ns; /* for the last batch */
    mf_dist_trace trace; /* of all workers */
    mf_straggler straggler; /* of the chief */
    int64_t batch, per_epoch; /* samples of a batch; batches of an epoch */
    mf_iterator_options order;
    int64_t cut_sizes[MF_NEEDED]; /* sizes of the batches of which only needed rows are read */
    int64_t cuts; /* mf_dist_rows.version, then */
    int64_t followed; /* the last step after which everything that follows a step was done */
    int64_t
        progress; /* batches that all workers had done after this worker's last step; -1: unknown */
    int64_t reported_step,
        reported_epoch; /* the last step that hooks got, and the last as the end of an epoch */
    int64_t rendezvous_count; /* of mf_dist, the last that the loop has followed */
    mf_result results[MF_MAX_RESULTS]; /* of the last step */
} mf_fit_ctx;

/* Everything before the first step. */
MF_MUST mf_status mf_fit_prepare(mf_fit_ctx *f);
/* Steps that all workers have done, with leased batches; otherwise the trainer's. */
int64_t mf_fit_progress(const mf_fit_ctx *f);
/* Write a checkpoint of the current state, if the job has checkpoints; last: no other will follow.
 */
MF_MUST mf_status mf_fit_save(mf_fit_ctx *f, bool last);
/* Wait until the last checkpoint is on disk. All workers get the same answer. Collective. Fails: as
 * writing did, at the chief; elsewhere RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_fit_confirm(mf_fit_ctx *f);
/* After a rendezvous: state, shards and role of this worker may have changed. */
MF_MUST mf_status mf_fit_follow_rendezvous(mf_fit_ctx *f);
/* Read this worker's part of a batch, which may change from step to step. */
MF_MUST mf_status mf_fit_share(mf_fit_ctx *f);
/* Which rows of the next batches the strategy needs here. Owns: mf_ranges_deinit() of each, or
 * mf_iterator_need(). */
MF_MUST mf_status mf_fit_find_rows(mf_fit_ctx *f, mf_needed needed[MF_NEEDED], int *n);
/* Read other rows, if they have changed. */
MF_MUST mf_status mf_fit_read_rows(mf_fit_ctx *f);
/* The next step is of this batch. */
void mf_fit_note_rows(mf_fit_ctx *f, const mf_batch *batch);
/* One more hook: that which writes events. */
MF_MUST mf_status mf_fit_add_events(mf_fit_ctx *f);
/* From here on this worker writes to the output directory, if there is one. */
MF_MUST mf_status mf_fit_claim(mf_fit_ctx *f);
/* Does training continue from the output directory's checkpoint? */
static inline bool mf_fit_continues(const mf_fit_ctx *f)
{
    return (f->claim && mf_output_lock_continues(f->claim)) ||
           (f->t->dist && f->t->dist->history.trained && f->t->dist->history.saved);
}

#endif
