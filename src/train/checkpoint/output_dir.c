/* SPDX-License-Identifier: Apache-2.0 */
/* output_dir.c - writes the chief's checkpoints and ledger of used samples to the output directory.
 */
#include "train/checkpoint/output_dir.h"

#include "base/log.h"

#include <stdio.h>

/* ---- the ledger ---- */

static void check_ledger(mf_output_dir *o, mf_status st)
{
    if (st == MF_OK)
        return;
    MF_WARN("used samples are no longer recorded; training continues: %s", mf_error_message());
    if (mf_ledger_close(o->ledger) != MF_OK)
        MF_WARN("%s", mf_error_message());
    o->ledger = NULL;
}

static mf_status begin_ledger(mf_output_dir *o, const char *dir, const char *run,
                              const mf_output_dir_data *data, int64_t last_step)
{
    char name[64];

    (void)snprintf(name, sizeof name, "train, run %s", run);
    return mf_ledger_open(dir, name, data->set, data->order, last_step, &o->ledger);
}

static void output_dir_open_ledger(mf_output_dir *o, const char *dir, const mf_trainer *t,
                                   const mf_output_dir_data *data, bool continues)
{
    mf_status st = begin_ledger(o, dir, t->run, data, continues ? t->step : -1);

    if (st != MF_OK && continues) {
        MF_WARN("the ledger of samples restarts at step %lld: %s", (long long)t->step,
                mf_error_message());
        st = begin_ledger(o, dir, t->run, data, -1);
    }
    check_ledger(o, st);
}

/* The group of this sample had ended before the step. */
static bool output_dir_is_left_out(const mf_trainer *t, int64_t step, int64_t samples,
                                   int64_t place)
{
    const mf_train_progress *s = &t->progress;

    for (int g = 0; g < s->groups; g++) {
        if (s->left_at[g] > 0 && s->left_at[g] < step && place >= mf_group_begin(t, g, samples) &&
            place < mf_group_begin(t, g + 1, samples))
            return true;
    }
    return false;
}

/* Skipped samples come last. Returns their number. */
static int64_t sort_ids(const mf_trainer *t, int64_t step, const mf_batch *batch, int64_t *out)
{
    int64_t used = 0, left = batch->whole;

    for (int64_t i = batch->whole - 1; i >= 0; i--) {
        if (output_dir_is_left_out(t, step, batch->whole, i))
            out[--left] = batch->whole_ids[i];
    }
    for (int64_t i = 0; i < batch->whole; i++) {
        if (!output_dir_is_left_out(t, step, batch->whole, i))
            out[used++] = batch->whole_ids[i];
    }
    return batch->whole - used;
}

/* All samples of a step. */
static mf_status output_dir_add(mf_ledger *l, const mf_trainer *t, int64_t step,
                                const mf_batch *batch)
{
    mf_batch whole = *batch;
    int64_t *ids, left_out;
    mf_status st;

    whole.n = batch->whole;
    whole.first -= batch->place;
    whole.ids = batch->whole_ids;
    if (t->progress.groups == 0)
        return mf_ledger_add(l, step, &whole, 0);
    ids = mf_calloc(whole.n, sizeof *ids);
    if (!ids)
        return MF_NOMEM("a ledger");
    left_out = sort_ids(t, step, batch, ids);
    whole.ids = ids;
    st = mf_ledger_add(l, step, &whole, left_out);
    mf_free(ids);
    return st;
}

/* Which samples a step has used follows from the order: no data is read for it. */
static mf_status output_dir_fill(mf_output_dir *o, const mf_output_dir_data *data,
                                 const mf_trainer *t)
{
    mf_iterator_options order = *data->order;
    const mf_batch *batch;
    mf_iterator *it;
    mf_status st;

    order.first_shard = order.n_shards = order.part_first = order.part_n = 0;
    order.threads = 1;
    MF_TRY(mf_iterator_new(data->set, &order, &it));
    const int64_t done = mf_ledger_last_step(o->ledger) > 0 ? mf_ledger_last_step(o->ledger) : 0;

    st = mf_iterator_seek(it, done / data->per_epoch, done % data->per_epoch * order.batch);
    for (int64_t step = done + 1; st == MF_OK && step <= t->step; step++) {
        st = mf_iterator_next(it, &batch);
        if (st == MF_OK)
            st = output_dir_add(o->ledger, t, step, batch);
    }
    mf_iterator_free(it);
    return st;
}

static void take_ledger_over(mf_output_dir *o, const char *dir, const mf_trainer *t,
                             const mf_output_dir_data *data)
{
    mf_status st = mf_ledger_take_over(dir, "train", data->set, data->order, t->step, &o->ledger);

    if (st != MF_OK) {
        MF_WARN("the ledger of samples restarts here: %s", mf_error_message());
        st = begin_ledger(o, dir, t->run, data, -1);
    }
    if (st == MF_OK)
        st = output_dir_fill(o, data, t);
    check_ledger(o, st);
}

void mf_output_dir_hand_over(mf_output_dir *o)
{
    if (!o->ledger)
        return;
    if (mf_ledger_close(o->ledger) != MF_OK)
        MF_WARN("%s", mf_error_message());
    o->ledger = NULL;
    o->handed_over = true;
}

void mf_output_dir_catch_up(mf_output_dir *o, const char *dir, const mf_trainer *t,
                            const mf_output_dir_data *data)
{
    if (o->handed_over)
        take_ledger_over(o, dir, t, data);
    else if (o->ledger && mf_ledger_last_step(o->ledger) < t->step)
        check_ledger(o, output_dir_fill(o, data, t));
    o->handed_over = false;
}

void mf_output_dir_add(mf_output_dir *o, const mf_trainer *t, const mf_batch *batch)
{
    if (o->ledger && mf_ledger_last_step(o->ledger) < t->step)
        check_ledger(o, output_dir_add(o->ledger, t, t->step, batch));
}

void mf_output_dir_flush(mf_output_dir *o)
{
    if (o->ledger)
        check_ledger(o, mf_ledger_flush(o->ledger, false));
}

/* ---- both ---- */

mf_status mf_output_dir_open(mf_output_dir *o, const char *dir, int keep, mf_trainer *t,
                             const mf_output_dir_data *data, bool continues)
{
    MF_TRY(mf_checkpoints_open(dir, keep, &o->checkpoints));
    if (!data->leased)
        output_dir_open_ledger(o, dir, t, data, continues);
    return MF_OK;
}

mf_status mf_output_dir_take_over(mf_output_dir *o, const char *dir, int keep, mf_trainer *t,
                                  const mf_output_dir_data *data)
{
    MF_TRY(mf_checkpoints_open(dir, keep, &o->checkpoints));
    if (!data->leased)
        take_ledger_over(o, dir, t, data);
    return MF_OK;
}

mf_status mf_output_dir_go_back(mf_output_dir *o, const char *dir, const mf_trainer *t,
                                const mf_output_dir_data *data)
{
    mf_output_dir_flush(o);
    if (o->ledger) {
        if (mf_ledger_close(o->ledger) != MF_OK)
            MF_WARN("%s", mf_error_message());
        o->ledger = NULL;
        output_dir_open_ledger(o, dir, t, data, t->step > 0);
    }
    return o->checkpoints ? mf_checkpoints_drop_after(o->checkpoints, t->step) : MF_OK;
}

mf_status mf_output_dir_close(mf_output_dir *o)
{
    mf_status st;

    mf_output_dir_flush(o);
    if (o->ledger && mf_ledger_close(o->ledger) != MF_OK)
        MF_WARN("%s", mf_error_message());
    st = mf_checkpoints_close(o->checkpoints);
    *o = (mf_output_dir){ 0 };
    return st;
}
