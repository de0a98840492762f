/* SPDX-License-Identifier: Apache-2.0 */
/* group_messages.c - what workers exchange when their groups are averaged: step flags, and the
 * losses and weight changes of their groups. */
#include "base/clock.h"
#include "dist/local_sgd/strategy_local_sgd.h"
#include "train/step/update_norms.h"

#include <math.h>
#include <string.h>

/* The head of a worker's message; the notes of the groups that it represents follow. */
typedef struct head {
    int64_t step_flags;
    double seconds; /* since the last average */
    int64_t judged;
    mf_convergence_options rules;
} head;

int64_t mf_local_spoken_for(const mf_local_sgd *l, int rank)
{
    return mf_worker_groups_speaks(&l->groups, rank) ? mf_worker_groups_places(&l->groups, rank).n
                                                     : 0;
}

static int64_t steps_of(const mf_local_sgd *l)
{
    return l->trainer->step - l->commit.step;
}

static int64_t group_size(const mf_local_sgd *l)
{
    return (int64_t)(sizeof(mf_local_group_note) + (size_t)steps_of(l) * sizeof(mf_local_step));
}

static int64_t note_size(const mf_local_sgd *l, int rank)
{
    return (int64_t)sizeof(head) + mf_local_spoken_for(l, rank) * group_size(l);
}

/* ---- ours ---- */

/* The weights of a group, compared with the common ones of the last average. */
static mf_status group_messages_look_at_weights(const mf_local_sgd *l, const mf_local_group *g,
                                                mf_local_group_note *out)
{
    const mf_trainer *t = l->trainer;
    mf_update_norms m = { 0 };

    out->moved = out->norm = NAN;
    if (!l->verdict.on || !l->commit.values)
        return MF_OK;
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_tensor now = { 0 };

        if (!t->trained[i].is_weight || t->trained[i].variable->dtype != MF_DTYPE_F32)
            continue;
        if (g->state)
            mf_tensor_set(&now, &g->state[i]);
        else
            MF_TRY(mf_variable_read(t->trained[i].variable, &now));
        mf_update_norms_add(&m, &now, &l->commit.values[i]);
        mf_tensor_clear(&now);
    }
    out->moved = mf_update_norms_by_size(&m);
    out->norm = mf_update_norms_norm(&m);
    return MF_OK;
}

static mf_status write_group(const mf_local_sgd *l, const mf_local_group *g, mf_buf *out)
{
    mf_local_group_note n = { .samples = g->samples };

    MF_ASSERT(g->n_steps == steps_of(l));
    MF_TRY(group_messages_look_at_weights(l, g, &n));
    mf_buf_bytes(out, &n, sizeof n);
    mf_buf_bytes(out, g->steps, (size_t)g->n_steps * sizeof *g->steps);
    return MF_OK;
}

static mf_status write_notes(mf_local_sgd *l, mf_buf *out)
{
    head h;

    memset(&h, 0, sizeof h);
    h.step_flags = mf_job_members_step_flags(&l->members, &l->dist, l->wants_stop);
    h.seconds = (double)(mf_clock_ns() - l->commit.ns) * 1e-9;
    h.judged = l->watched;
    h.rules = l->verdict.rules;
    mf_buf_bytes(out, &h, sizeof h);
    for (int64_t k = 0; k < mf_local_spoken_for(l, l->dist.rank); k++)
        MF_TRY(write_group(l, &l->own[k], out));
    return mf_buf_finish(out);
}

/* ---- of all workers ---- */

/* Groups are in the order of workers. */
static void read_notes(const mf_local_sgd *l, mf_local_notes *n)
{
    const char *at = n->all;
    int place = 0;

    for (int r = 0; r < l->dist.size; r++) {
        const head *h = (const head *)(const void *)at;

        n->step_flags = mf_step_flags_join(n->step_flags, (int)h->step_flags);
        if (r == 0)
            n->seconds = h->seconds;
        if (h->judged && !n->judged)
            n->rules = h->rules;
        n->judged |= h->judged != 0;
        at += sizeof *h;
        for (int64_t k = 0; k < mf_local_spoken_for(l, r); k++, place++) {
            n->groups[place] = (const mf_local_group_note *)(const void *)at;
            n->samples[place] = n->groups[place]->samples;
            at += group_size(l);
        }
    }
}

static mf_status group_messages_gather(mf_local_sgd *l, const mf_collective *c, const mf_buf *mine,
                                       mf_local_notes *out)
{
    const int n = l->dist.size;
    int64_t *sizes = mf_calloc(n, sizeof *sizes), total = 0;
    mf_status st = MF_OK;

    for (int r = 0; sizes && r < n; r++)
        total += sizes[r] = note_size(l, r);
    out->all = mf_calloc(total, 1);
    if (!sizes || !out->all)
        st = MF_NOMEM("averages");
    if (st == MF_OK)
        st = mf_all_gather(l->dist.group, &(mf_gather){ *c, mine->data, sizes, out->all });
    mf_free(sizes);
    return st;
}

mf_status mf_local_compare_notes(mf_local_sgd *l, const mf_collective *c, mf_local_notes *out)
{
    mf_buf mine = { 0 };
    mf_status st = write_notes(l, &mine);

    *out = (mf_local_notes){ .n_steps = steps_of(l) };
    if (st == MF_OK)
        st = group_messages_gather(l, c, &mine, out);
    mf_buf_deinit(&mine);
    if (st == MF_OK)
        read_notes(l, out);
    return st;
}

void mf_local_notes_deinit(mf_local_notes *n)
{
    mf_free(n->all);
    n->all = NULL;
}
