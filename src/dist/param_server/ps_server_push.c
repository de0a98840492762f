/* SPDX-License-Identifier: Apache-2.0 */
/* ps_server_push.c - what a server does with a push: it collects pushes, updates the weights, keeps
 * replicas and replies. A push that arrives twice is recognized by its seq (last_seq), or, if
 * another worker repeats the batch, by ps_dedup.c. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/param_server/ps_quorum.h"

#include <string.h>

static mf_status answer_push(server *s, push *p, const mf_buf *out)
{
    mf_buf *kept = &s->last_reply[p->of->from];
    const int64_t start = mf_clock_ns();
    mf_status st = mf_ps_send_reply(s, p->of, out->data, out->len);

    mf_ps_note(s, "acknowledge", mf_net_name(s->o.net, p->of->from), start);
    s->last_seq[p->of->from] = p->of->frame.seq;
    s->pulled[p->of->from] = s->version;
    mf_buf_clear(kept);
    mf_buf_bytes(kept, out->data, out->len);
    mf_mail_free(p->of);
    p->of = NULL;
    return st;
}

/* The workers report the error; nothing was changed. */
static void write_failure(mf_status st, mf_buf *out)
{
    const mf_ps_reply head = { .status = st, .in_lane = -1 };

    mf_buf_clear(out);
    mf_buf_bytes(out, &head, sizeof head);
    mf_buf_str(out, mf_error_message());
}

/* The push is invalid, which affects its worker only. */
static mf_status refuse_push(server *s, push *p)
{
    mf_buf out = { 0 };
    mf_status st;

    MF_WARN("a push was refused: %s", mf_error_message());
    write_failure(MF_INVALID_ARGUMENT, &out);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = answer_push(s, p, &out);
    mf_buf_deinit(&out);
    return st;
}

/* All replies are written before the first is sent, which frees the push. One reply serves all
 * workers that get messages, except where workers have different rows already. */
static mf_status answer_all(server *s, mf_status st, push *const *all, int n_all)
{
    const bool same = s->o.mode.sync;
    mf_buf *out = mf_calloc(n_all, sizeof *out);
    mf_status sent = MF_OK;
    int common = -1;

    if (!out)
        return MF_NOMEM("answers");
    for (int i = 0; i < n_all && sent == MF_OK; i++) {
        const int worker = all[i]->of->from;
        const int64_t start = mf_clock_ns();
        const bool in_lane = s->lanes[worker].memory && all[i]->head.answer >= 0;

        if (!in_lane && same && common >= 0)
            continue;
        common = in_lane ? common : i;
        if (st == MF_OK)
            st = mf_ps_write_reply(s, all, n_all, same ? -1 : worker, in_lane ? all[i] : NULL,
                                   &out[i]);
        if (st != MF_OK) {
            mf_buf_deinit(&out[i]); /* it may have failed, which stays */
            write_failure(st, &out[i]);
        }
        sent = mf_buf_finish(&out[i]);
        mf_ps_note(s, "pull", mf_net_name(s->o.net, worker), start);
    }
    for (int i = 0; i < n_all && sent == MF_OK; i++)
        sent = answer_push(s, all[i], &out[out[i].len > 0 ? i : common]);
    for (int i = 0; i < n_all; i++)
        mf_buf_deinit(&out[i]);
    mf_free(out);
    return sent;
}

/* Each push is one batch: then a batch that is in the weights, whose worker was lost before it got
 * the reply, is not needed again. */
static bool counts_batches(const server *s)
{
    return !s->o.mode.sync && s->o.mode.period <= 1;
}

/* The batches of these pushes need not be done again. */
static mf_status note_done(server *s, push *const *all, int n_all, int64_t *batches)
{
    for (int i = 0; i < n_all && !s->o.mode.sync; i++) {
        *batches += all[i]->head.batches;
        if (counts_batches(s))
            MF_TRY(mf_ps_dedup_add(&s->done, all[i]->head.step));
    }
    return MF_OK;
}

/* No reply reports a state that could be lost with this server. */
static mf_status keep_and_answer(server *s, push *const *all, int n_all)
{
    const int64_t start = mf_clock_ns();

    MF_TRY(mf_ps_keep_copy(s));
    if (s->o.copies)
        mf_ps_note(s, "copy", "to other servers", start);
    return answer_all(s, MF_OK, all, n_all);
}

/* Pushes that are in the weights already are only answered. */
static mf_status do_step(server *s, push *const *all, int n_all)
{
    push *news[MF_REDUCTION_TREE_LEAVES];
    mf_status st = MF_OK;
    int n = 0;

    for (int i = 0; i < n_all; i++) {
        if (!all[i]->is_repeated)
            news[n++] = all[i];
    }
    if (n > 0)
        st = mf_ps_apply(s, news, n);
    if (st != MF_OK)
        return answer_all(s, st, all, n_all);
    MF_TRY(note_done(s, news, n, &s->batches));
    return keep_and_answer(s, all, n_all);
}

/* How many pushes make an update; a synchronous push may be of several workers. */
static int wanted(const server *s)
{
    const int quorum = (int)s->o.mode.quorum;

    if (s->o.mode.sync)
        return s->o.n_workers;
    return quorum < 1 ? 1 : quorum < s->active ? quorum : s->active;
}

/* Other pushes were enough: its batch is done, without an update. */
static mf_status throw_away(server *s, push *p)
{
    s->late++;
    MF_TRY(note_done(s, &p, 1, &s->late_batches));
    return keep_and_answer(s, &p, 1);
}

/* The decisions of the first server whose pushes have arrived. */
static mf_status follow_decisions(server *s)
{
    push *all[MF_REDUCTION_TREE_LEAVES];
    bool discards;
    int n;

    while (mf_ps_quorum_next(s, all, &n, &discards)) {
        if (!discards)
            MF_TRY(do_step(s, all, n));
        for (int i = 0; i < n && discards; i++)
            MF_TRY(throw_away(s, all[i]));
    }
    return MF_OK;
}

mf_status mf_ps_take_decision(server *s, mf_mail *r)
{
    mf_ps_quorum_take(s, r);
    return follow_decisions(s);
}

/* Apply the pushes that were computed with the current weights, if they are enough. */
mf_status mf_ps_try_step(server *s)
{
    push *all[MF_REDUCTION_TREE_LEAVES];
    int64_t workers = 0;
    int n = 0;

    if (mf_ps_quorum_follows(s))
        return follow_decisions(s);
    for (int w = 0; w < s->o.n_workers && n < MF_REDUCTION_TREE_LEAVES; w++) {
        if (!s->pushes[w].of)
            continue;
        workers += s->o.mode.sync ? s->pushes[w].head.workers : 1;
        all[n++] = &s->pushes[w];
    }
    if (n == 0 || workers < wanted(s))
        return MF_OK;
    MF_TRY(mf_ps_quorum_decide(s, all, n, false));
    return do_step(s, all, n);
}

/* It is in the weights already: its worker gets the current ones. With a quorum it waits for other
 * pushes and counts as one: servers that have different pushes in their weights when a worker is
 * lost would otherwise wait for different workers, each of which waits for the other server. */
static mf_status pass_over(server *s, push *p)
{
    s->repeated++;
    p->is_repeated = true;
    return s->o.mode.quorum > 0 ? mf_ps_try_step(s) : answer_all(s, MF_OK, &p, 1);
}

/* Were other pushes enough? The first server knows. */
static bool is_late_push(const server *s, const push *p)
{
    return s->o.mode.quorum > 0 && !mf_ps_quorum_follows(s) && p->head.version < s->version;
}

mf_status mf_ps_take_push(server *s, mf_mail *r)
{
    const int64_t start = mf_clock_ns();
    mf_status st;

    if (r->from < 0 || r->from >= s->o.n_workers) {
        mf_mail_free(r);
        return MF_OK; /* not a worker's business */
    }
    if (s->last_reply[r->from].len > 0 && r->frame.seq <= s->last_seq[r->from]) {
        st = mf_ps_send_reply(s, r, s->last_reply[r->from].data, s->last_reply[r->from].len);
        mf_mail_free(r); /* it was applied already */
        return st;
    }
    if (s->pushes[r->from].of) {
        mf_mail_free(r);
        return MF_OK;
    }
    st = mf_ps_look_at(s, r, &s->pushes[r->from]);
    if (st == MF_OK && counts_batches(s))
        st = mf_ps_dedup_check(&s->done, s->pushes[r->from].head.step);
    mf_ps_note(s, "push", mf_net_name(s->o.net, r->from), start);
    if (st != MF_OK)
        return refuse_push(s, &s->pushes[r->from]);
    if (counts_batches(s) && mf_ps_dedup_has(&s->done, s->pushes[r->from].head.step))
        return pass_over(s, &s->pushes[r->from]);
    if (is_late_push(s, &s->pushes[r->from])) {
        push *late = &s->pushes[r->from];

        MF_TRY(mf_ps_quorum_decide(s, &late, 1, true));
        return throw_away(s, late);
    }
    return mf_ps_try_step(s);
}
