/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_param_server.c - strategy parameter_server: workers compute, servers hold and update the
 * weights. */
#include "dist/param_server/strategy_param_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/data_parallel/load_balance.h"
#include "dist/data_parallel/shard_owners.h"
#include "dist/param_server/ps_host_aggregate.h"
#include "dist/param_server/ps_replication.h"
#include "dist/step_flags.h"
#include "observe/status_page.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/variable_query.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

enum {
    IDLE_NS = 100000000, /* how often one that has nothing to do asks whether that is still so */
    MOST_COPIES = 63, /* of a slice on other servers */
};

typedef struct ps_job {
    mf_strategy strategy; /* first */
    mf_dist_worker team;
    mf_net *net;
    int n_workers, n_servers, index; /* index: among the servers; -1: a worker */
    mf_job_members members; /* where tasks come and go: the team's, and whose the net is */
    mf_ps_replication copies; /* a server's */
    int n_copies; /* on so many other servers */
    bool by_host;
    bool balances; /* shards go to who is fast; synchronous workers' only */
    mf_balance balance;
    mf_ps_mode mode;
    double *weights; /* of workers, for mode.aggregation */
    mf_ps_client *client;
    mf_ps_host_aggregate crew;
    int64_t sent; /* bytes to other hosts, by each worker on average */
    int64_t pushed, pulled; /* bytes, by clients of earlier meetings */
    mf_traffic done; /* by the servers, in the end */
    bool began; /* servers wait for what we say */
    bool stop; /* somebody wants to */
    int n_slices; /* of what asynchronous servers hold, each a server's; as many as servers at first
                   */
    bool marked; /* the store knows that a step was done */
    int64_t start; /* batches that were done before this training was begun or resumed */
} ps_job;

/* In the store: asynchronous workers have done steps. */
static const char TRAINED[] = "trained";

static ps_job *strategy_param_server_of_team(mf_dist_worker *team)
{
    return (ps_job *)(void *)((char *)team - offsetof(ps_job, team));
}

/* ---- a worker ---- */

static mf_status ps_join(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);
    mf_placement place;

    MF_TRY(mf_aggregation_join(&j->mode.aggregation, t));
    /* Checked by every task before it connects: workers would wait for servers that have ended. */
    MF_TRY(mf_ps_place(t, j->n_servers, &j->mode, &place));
    mf_dist_worker_deal_shards(team, t->options.shards);
    if (j->index >= 0 || !j->net) /* they meet when all is ready */
        return MF_OK;
    if (j->mode.sync) {
        MF_TRY(mf_balance_init(&j->balance, team, t->options.shards, 1, mf_pool_threads(t->pool),
                               j->balances));
    } else { /* a batch is one worker's */
        team->first_shard = 0;
        team->n_shards = team->shards;
    }
    mf_ps_client_free(j->client);
    MF_TRY(mf_ps_client_new(j->net, j->n_workers, j->n_servers, t, &j->mode, team->first_shard,
                            team->n_shards, team->timeout_ns, &j->client));
    if (team->rank == 0 && j->mode.partition.kind != MF_WEIGHT_PARTITION_EVEN)
        mf_ps_say_placement(mf_ps_client_placement(j->client), &j->mode.partition);
    mf_ps_client_join_crew(j->client, &j->crew);
    mf_session_set_exchange(t->session, mf_push_pull_exchange(mf_ps_client_rounds(j->client)));
    return MF_OK;
}

static mf_status ps_begin_step(mf_dist_worker *team, int64_t step, int64_t samples, bool wants_stop)
{
    ps_job *j = strategy_param_server_of_team(team);
    const int votes = j->team.members ? mf_job_members_votes(&j->members, team, wants_stop)
                      : wants_stop    ? MF_STEP_FLAG_STOP
                                      : 0;
    float factor;

    MF_TRY(mf_shard_owners_factor(&j->mode.aggregation, j->balance.shares, team->size, team->rank,
                                  team->shards, samples, &factor));
    mf_ps_client_weigh(j->client, factor);
    return mf_push_pull_begin_step(mf_ps_client_rounds(j->client), step, samples, votes);
}

static mf_status strategy_param_server_balance(ps_job *j, int64_t step)
{
    mf_push_pull *rounds = mf_ps_client_rounds(j->client);
    bool changed;

    MF_TRY(
        mf_balance_step(&j->balance, &j->team, step, mf_push_pull_computed_ns(rounds), &changed));
    if (!changed)
        return MF_OK;
    mf_push_pull_deal(rounds, j->team.first_shard, j->team.n_shards);
    mf_session_set_exchange(mf_ps_client_trainer(j->client)->session,
                            mf_push_pull_exchange(rounds));
    return MF_OK;
}

/* A run that starts later and finds nothing of it must know that it is lost. */
static mf_status strategy_param_server_note_step(ps_job *j)
{
    if (j->marked || !j->team.members || j->mode.sync)
        return MF_OK;
    j->marked = true;
    return mf_members_mark(j->members.members, TRAINED);
}

static mf_status ps_end_step(mf_dist_worker *team, int64_t step, bool *stop)
{
    ps_job *j = strategy_param_server_of_team(team);

    mf_job_take_votes(team, mf_ps_client_votes(j->client), stop);
    j->stop |= *stop;
    *stop = j->stop;
    return j->mode.sync ? strategy_param_server_balance(j, step)
                        : strategy_param_server_note_step(j);
}

static void ps_failed(mf_dist_worker *team, mf_status why)
{
    if (strategy_param_server_of_team(team)->net)
        mf_net_abort(strategy_param_server_of_team(team)->net, why);
}

/* What servers had cannot be had any more. All begin anew, with what the first of them can find. */
static mf_status strategy_param_server_begin_anew(ps_job *j, mf_trainer *t)
{
    mf_status st;

    t->has_state = false;
    j->team.lost = true;
    st = MF_FAIL(MF_ABORTED, "no servers are left that have all of the weights");
    mf_net_abort(j->net, st); /* and meet again */
    return st;
}

/* The chief does this, and all hear what it has found. */
static mf_status tell_found(ps_job *j, const mf_trainer *t, bool *found)
{
    const mf_collective c = mf_dist_worker_call(&j->team, t->step, "what servers had");

    return mf_broadcast(j->team.group, &c, 0, found, sizeof *found);
}

/* The chief brings together what servers had after the last step, if training has begun. */
static mf_status recover(ps_job *j, mf_trainer *t)
{
    bool found = true;

    if (!j->team.members || j->team.anew)
        return MF_OK;
    if (j->team.rank == 0)
        MF_TRY(mf_ps_client_recover(j->client, t->step, &found));
    MF_TRY(tell_found(j, t, &found));
    return found ? MF_OK : strategy_param_server_begin_anew(j, t);
}

/* The chief's variables are those of the job: servers begin with them. */
static mf_status begin_servers(ps_job *j, mf_trainer *t)
{
    mf_ps_client_begin(j->client);
    if (j->team.rank == 0)
        MF_TRY(mf_ps_client_set(j->client));
    j->start = t->step;
    return MF_OK;
}

/* Asynchronous servers have what the job has come to, and we get it. */
static mf_status strategy_param_server_go_on(ps_job *j)
{
    mf_ps_standing *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_stand(j->client, each) : MF_NOMEM("parameter servers");

    if (st == MF_OK) {
        j->start = each[0].start;
        st = mf_ps_client_get(j->client);
    }
    mf_free(each);
    return st;
}

/* Without servers, their copies and a checkpoint, a training that has done steps is lost. */
static mf_status check_lost(ps_job *j, const mf_trainer *t)
{
    bool trained = false;

    if (!j->team.members || t->step > 0)
        return MF_OK;
    MF_TRY(mf_members_marked(j->members.members, TRAINED, &trained));
    if (!trained)
        return MF_OK;
    return MF_FAIL(MF_DATA_LOSS, "the parameter servers that had the weights are lost with all "
                                 "copies, and there is no checkpoint to go on from; give --out "
                                 "and --save-steps, or more parameter servers");
}

/* Workers come and go while asynchronous servers have the training, even if all workers are new. */
static mf_status follow_servers(ps_job *j, mf_trainer *t)
{
    bool found = false;

    if (j->team.members && j->team.rank == 0)
        MF_TRY(mf_ps_client_restore(j->client, &found));
    if (j->team.members)
        MF_TRY(tell_found(j, t, &found));
    if (found)
        return strategy_param_server_go_on(j);
    if (j->team.members && !j->team.anew)
        return strategy_param_server_begin_anew(j, t);
    MF_TRY(check_lost(j, t));
    return begin_servers(j, t);
}

static mf_status ps_aligned(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);

    if (j->mode.sync)
        MF_TRY(recover(j, t));
    MF_TRY(j->mode.sync ? begin_servers(j, t) : follow_servers(j, t));
    team->lockstep = j->mode.sync;
    j->stop = false;
    j->began = true;
    return mf_dist_worker_meet(team, t->step, "the servers' beginning");
}

static int64_t ps_progress(const mf_dist_worker *team)
{
    return mf_ps_client_done(
        strategy_param_server_of_team((mf_dist_worker *)(uintptr_t)team)->client);
}

/* What servers have is never less than what they had said to have done before. */
static mf_status ps_before_save_leased(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);
    mf_ps_standing *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_stand(j->client, each) : MF_NOMEM("parameter servers");

    (void)t;
    mf_free(each);
    return st == MF_OK ? mf_ps_client_get(j->client) : st;
}

static mf_status ps_before_save(mf_dist_worker *team, mf_trainer *t)
{
    (void)t;
    return mf_ps_client_get(strategy_param_server_of_team(team)->client);
}

static mf_status ps_lease(mf_dist_worker *team, mf_dist_worker_lease *l)
{
    ps_job *j = strategy_param_server_of_team(team);
    mf_ps_lease lease = { .start = j->start, .total = l->total, .n_near = team->n_near };

    lease.save_every = team->saves_between ? l->save_every : 0;
    memcpy(lease.near, team->near, sizeof lease.near);
    MF_TRY(mf_ps_client_lease(j->client, &lease, &l->batch));
    while (l->batch == MF_PS_NO_BLOCK) {
        mf_status_page_phase(MF_PHASE_IDLE);
        (void)nanosleep(&(struct timespec){ 0, IDLE_NS }, NULL);
        MF_TRY(mf_net_check(j->net));
        MF_TRY(mf_ps_client_lease(j->client, &lease, &l->batch));
    }
    l->save = l->batch == MF_PS_SAVE_FIRST;
    l->over = (l->batch < 0 && !l->save) || j->stop;
    return MF_OK;
}

static mf_status ps_save_parts(mf_dist_worker *team, mf_trainer *t, const char *prefix,
                               mf_snapshot *s)
{
    (void)t;
    return mf_ps_client_save(strategy_param_server_of_team(team)->client, prefix, s);
}

static mf_status ps_trace_begin(mf_dist_worker *team, int64_t origin)
{
    return mf_ps_client_trace_begin(strategy_param_server_of_team(team)->client, origin);
}

static mf_status ps_trace_end(mf_dist_worker *team, mf_buf *events)
{
    return mf_ps_client_trace_end(strategy_param_server_of_team(team)->client, events);
}

static void strategy_param_server_widen(int64_t range[2], int64_t n)
{
    range[0] = n < range[0] ? n : range[0];
    range[1] = n > range[1] ? n : range[1];
}

/* What servers have done, now that no step comes any more. */
static mf_status count_updates(ps_job *j)
{
    mf_ps_standing *each = mf_calloc(j->n_servers, sizeof *each);
    mf_status st = each ? mf_ps_client_stand(j->client, each) : MF_NOMEM("parameter servers");

    for (int s = 0; s < j->n_servers && st == MF_OK; s++) {
        if (s == 0)
            j->done = (mf_traffic){ .updates = { INT64_MAX, 0 },
                                    .batches = { each[0].batches, each[0].batches },
                                    .staleness = j->mode.sync ? -1 : each[0].staleness };
        strategy_param_server_widen(j->done.updates, each[s].steps - each[s].start);
        strategy_param_server_widen(j->done.batches, each[s].batches);
        j->done.late_pushes =
            each[s].late > j->done.late_pushes ? each[s].late : j->done.late_pushes;
    }
    mf_free(each);
    return st;
}

/* No step comes any more. */
static mf_status ps_leave(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);
    const mf_collective c = mf_dist_worker_call(team, 0, "the bytes that were sent");
    int64_t *sent = mf_calloc(team->size, sizeof *sent);
    mf_status st = sent ? mf_ps_client_leave(j->client) : MF_NOMEM("workers");

    (void)t;
    if (st == MF_OK)
        st = mf_group_sizes(team->group, &c, mf_net_sent_away(j->net), sent);
    j->sent = 0;
    for (int r = 0; st == MF_OK && r < team->size; r++)
        j->sent += sent[r] / team->size;
    mf_free(sent);
    return st == MF_OK ? count_updates(j) : st;
}

/* All have done their last step: everybody gets what has come of it. */
static mf_status ps_finish(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);

    const mf_collective c = mf_dist_worker_call(team, 0, "the last step of all workers");
    int64_t mine = t->step, *steps = mf_calloc(team->size, sizeof *steps);
    mf_status st = steps ? mf_ps_client_flush(j->client) : MF_NOMEM("workers");

    if (st == MF_OK)
        st = ps_leave(team, t);

    if (st == MF_OK)
        st = mf_group_sizes(team->group, &c, mine, steps);

    for (int r = 0; st == MF_OK && r < team->size; r++)
        t->step = steps[r] > t->step ? steps[r] : t->step;
    if (st == MF_OK) /* who was told that no batch is left does not know why */
        st = mf_group_sizes(team->group, &c, j->stop, steps);
    for (int r = 0; st == MF_OK && r < team->size; r++)
        t->standing.stop |= steps[r];
    mf_free(steps);
    MF_TRY(st);
    MF_TRY(mf_ps_client_get(j->client));
    team->lockstep = true;
    return mf_dist_worker_meet(team, t->step, "the last weights");
}

/* A server that is told to end serves as long as there are workers. */
static bool may_leave(ps_job *j)
{
    return j->n_workers == 0 && atomic_load(&j->team.leaves);
}

static bool somebody_waits(void *ctx)
{
    ps_job *j = ctx;

    return may_leave(j) || mf_members_wait_for_next(j->members.members);
}

/* kept: see mf_ps_server_options. */
static mf_status serve_once(ps_job *j, mf_trainer *t, struct server **kept)
{
    return mf_ps_serve(
        &(mf_ps_server_options){ .net = j->net,
                                 .n_workers = j->n_workers,
                                 .index = j->index,
                                 .n_servers = j->n_servers,
                                 .mode = j->mode,
                                 .timeout_ns = j->team.timeout_ns,
                                 .copies = j->team.members ? &j->copies : NULL,
                                 .n_copies = j->n_copies,
                                 .kept = kept,
                                 .generation = j->team.members ? j->members.view->epoch : 0,
                                 .wait_for_next = j->team.members ? somebody_waits : NULL,
                                 .ctx = j },
        t);
}

static void ps_traffic(const mf_dist_worker *team, mf_traffic *out)
{
    const ps_job *j = strategy_param_server_of_team((mf_dist_worker *)(uintptr_t)team);

    *out = j->done;
    out->bytes = out->plain_bytes = j->sent;
    if (j->client)
        mf_ps_client_traffic(j->client, &out->pushed_bytes, &out->pulled_bytes);
    out->pushed_bytes += j->pushed;
    out->pulled_bytes += j->pulled;
}

/* ---- tasks that come and go ---- */

static void strategy_param_server_part(mf_dist_worker *team, mf_status why)
{
    ps_job *j = strategy_param_server_of_team(team);
    mf_traffic before;
    mf_error e;

    mf_error_save(why, &e);
    ps_traffic(team, &before);
    j->pushed = before.pushed_bytes;
    j->pulled = before.pulled_bytes;
    if (j->client)
        mf_session_set_exchange(mf_ps_client_trainer(j->client)->session, NULL);
    mf_ps_client_free(j->client);
    mf_ps_host_aggregate_close(&j->crew);
    mf_group_free(j->team.group);
    j->client = NULL;
    j->team.group = NULL;
    j->net = NULL;
    (void)mf_error_restore(&e);
    mf_job_members_part(&j->members, why);
}

static mf_status connect_all(ps_job *j)
{
    MF_TRY(mf_job_members_meet(&j->members));
    j->net = j->members.net;
    j->n_workers = j->members.n_workers;
    j->n_servers = j->members.n_servers;
    return MF_OK;
}

/* How many servers there must be. Slices of asynchronous ones are not cut anew: which batches are
 * in a slice is different for each. */
static int servers_needed(const ps_job *j)
{
    return j->mode.sync ? 1 : j->n_slices;
}

/* Nothing can be done until somebody comes. deadline_ns: of those who are missed; INT64_MAX: nobody
 * is. */
static mf_status await_next(ps_job *j, int64_t deadline_ns)
{
    while (!mf_members_wait_for_next(j->members.members)) {
        MF_TRY(mf_members_check(j->members.members));
        MF_TRY(mf_net_check(j->net));
        if (mf_clock_ns() > deadline_ns)
            return MF_FAIL(MF_FAILED_PRECONDITION,
                           "%d of %d parameter servers are lost and were not started again within "
                           "%.0f s; give `launch --max-restarts`, and --save-steps to go on from a "
                           "checkpoint with --resume",
                           servers_needed(j) - j->n_servers, servers_needed(j),
                           (double)j->team.timeout_ns * 1e-9);
        (void)nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    return MF_FAIL(MF_ABORTED, "a task comes");
}

static mf_status await_server(ps_job *j)
{
    MF_INFO("training waits for a parameter server: there are %d of %d", j->n_servers,
            servers_needed(j));
    return await_next(j, mf_clock_ns() + j->team.timeout_ns);
}

static mf_status strategy_param_server_meet_once(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);

    MF_TRY(connect_all(j));
    MF_TRY(mf_job_describe_view(&j->members, team));
    if (j->n_servers < servers_needed(j))
        return await_server(j);
    if (!j->mode.sync) /* the others stand by */
        j->n_servers = servers_needed(j);
    MF_TRY(mf_job_members_group(&j->members, 1, &team->group));
    if (j->by_host)
        MF_TRY(mf_ps_host_aggregate_open(j->net, j->n_workers, j->n_servers, team->timeout_ns,
                                         &j->crew));
    return ps_join(team, t);
}

static mf_status ps_meet(mf_dist_worker *team, mf_trainer *t, mf_status why)
{
    static const mf_job_meeting meeting = { strategy_param_server_part,
                                            strategy_param_server_meet_once };

    return mf_job_meet(team, t, &meeting, why);
}

/* kept: see mf_ps_server_options. Synchronous servers are set by the workers, which know all. */
static mf_status serve_or_stand_by(ps_job *j, mf_trainer *t, struct server **kept)
{
    if (j->mode.sync)
        return serve_once(j, t, NULL);
    if (j->n_servers < servers_needed(j))
        return await_server(j);
    j->n_servers = servers_needed(j);
    return j->index < j->n_servers ? serve_once(j, t, kept) : await_next(j, INT64_MAX);
}

/* Until it has come in once, a server that is told to end does: those that it waits for may have
 * been told, too, and never come. Later workers need it. */
static mf_status connect_server(ps_job *j, mf_trainer *t)
{
    const bool first = !j->members.view;
    mf_status st;

    j->members.team = first ? &j->team : NULL;
    j->members.trainer = first ? t : NULL;
    st = connect_all(j);
    j->team.left = first && st == MF_CANCELLED;
    return st;
}

/* Serve whoever comes, until all is over. */
static mf_status serve_all(mf_dist_worker *team, mf_trainer *t)
{
    ps_job *j = strategy_param_server_of_team(team);
    struct server *kept = NULL;
    mf_status st = MF_OK;

    do {
        strategy_param_server_part(team, st);
        st = connect_server(j, t);
        j->index = j->members.self - j->n_workers;
        if (st == MF_OK &&
            (may_leave(j) || (j->n_workers == 0 && mf_members_are_done(j->members.members))))
            break;
        if (st == MF_OK)
            st = serve_or_stand_by(j, t, &kept);
    } while (mf_job_others_failed(st));
    mf_ps_server_free(kept);
    team->over = st == MF_OUT_OF_RANGE;
    team->stopped |= team->over && mf_members_were_stopped(j->members.members);
    return st;
}

static mf_status ps_serve(mf_dist_worker *team, mf_trainer *t)
{
    return team->members ? serve_all(team, t)
                         : serve_once(strategy_param_server_of_team(team), t, NULL);
}

static mf_status ps_holders(mf_dist_worker *team, const mf_trainer *t, int64_t i, mf_holders *out,
                            int64_t *step)
{
    (void)step; /* after every step a worker has the weights of all servers */
    mf_ps_client_holders(strategy_param_server_of_team(team)->client, t->trained[i].name, out);
    return MF_OK;
}

static const mf_dist_worker_kind WORKER = { .join = ps_join,
                                            .begin_step = ps_begin_step,
                                            .end_step = ps_end_step,
                                            .failed = ps_failed,
                                            .meet = ps_meet,
                                            .note_saved = mf_job_note_saved,
                                            .aligned = ps_aligned,
                                            .before_save = ps_before_save,
                                            .save_parts = ps_save_parts,
                                            .finish = ps_leave,
                                            .over = mf_job_note_end,
                                            .traffic = ps_traffic,
                                            .holders = ps_holders,
                                            .trace_begin = ps_trace_begin,
                                            .trace_end = ps_trace_end };
static const mf_dist_worker_kind LEASING_WORKER = { .join = ps_join,
                                                    .begin_step = ps_begin_step,
                                                    .end_step = ps_end_step,
                                                    .failed = ps_failed,
                                                    .meet = ps_meet,
                                                    .note_saved = mf_job_note_saved,
                                                    .aligned = ps_aligned,
                                                    .before_save = ps_before_save_leased,
                                                    .save_parts = ps_save_parts,
                                                    .lease = ps_lease,
                                                    .progress = ps_progress,
                                                    .finish = ps_finish,
                                                    .over = mf_job_note_end,
                                                    .traffic = ps_traffic,
                                                    .holders = ps_holders };
static const mf_dist_worker_kind SERVER = { .join = ps_join,
                                            .failed = ps_failed,
                                            .serve = ps_serve };

/* ---- opening and closing ---- */

/* When all workers have done what they wanted the servers may go. */
static void strategy_param_server_say_end(ps_job *j)
{
    int64_t staleness;

    if (!j->began || !j->net || mf_net_check(j->net) != MF_OK)
        return;
    if (mf_dist_worker_meet(&j->team, 0, "the end") != MF_OK)
        MF_LOG(j->team.members ? MF_LOG_DEBUG : MF_LOG_WARNING, "%s", mf_error_message());
    else if (j->team.rank == 0 && mf_ps_client_end(j->client, &staleness) != MF_OK)
        MF_LOG(j->team.members ? MF_LOG_DEBUG : MF_LOG_WARNING,
               "the parameter servers could not be told to end: %s", mf_error_message());
    else if (j->team.rank == 0 && !j->mode.sync)
        MF_INFO("no worker was more than %lld steps ahead of another", (long long)staleness);
}

static void ps_close(mf_strategy *s)
{
    ps_job *j = (ps_job *)s;

    if (j->index < 0)
        strategy_param_server_say_end(j);
    mf_ps_client_free(j->client);
    mf_ps_host_aggregate_close(&j->crew);
    mf_group_free(j->team.group);
    if (j->team.members)
        mf_job_members_deinit(&j->members);
    else
        mf_net_close(j->net);
    mf_ps_replication_deinit(&j->copies);
    mf_balance_deinit(&j->balance);
    mf_free(j->weights);
    mf_free(j);
}

static mf_status strategy_param_server_open_all(ps_job *j, const mf_strategy_call *call)
{
    const mf_ps_settings *settings = &call->settings->ps;

    j->mode = settings->mode;
    MF_TRY(mf_aggregation_make(call->settings, "worker", call->cluster->size, &j->mode.aggregation,
                               &j->weights));
    /* The result depends on who has which shards, so nobody may be missing. */
    const bool weighted = j->mode.aggregation.how == MF_AGGREGATE_WEIGHTED;

    if (j->index < 0 && !j->mode.sync)
        j->team.kind = &LEASING_WORKER;
    /* A push that waits for others must not wait for those who wait for a checkpoint. */
    j->team.saves_between = !j->mode.sync && j->mode.quorum == 0;
    j->team.lockstep = j->mode.sync;
    if (j->n_servers < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "parameter_server needs parameter servers: give the cluster tasks of job "
                       "ps, as `meshflow launch --workers 2 --ps 1 -- train ...` does");
    if (settings->copies > MOST_COPIES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "parameter_server: copies=%lld, and %d is the most",
                       (long long)settings->copies, MOST_COPIES);
    j->n_copies = (int)settings->copies;
    j->balances = !weighted && call->settings->balance;
    j->by_host =
        j->mode.sync && !mf_aggregate_is_apart(j->mode.aggregation.how) && settings->by_host;
    if (!weighted && mf_job_may_change(call->o, call->cluster)) {
        j->team.members = &j->members;
        return mf_job_members_init(call, &j->members);
    }
    MF_TRY(mf_job_connect(call, &j->net));
    if (j->index >= 0)
        return MF_OK;
    MF_TRY(mf_job_group(call, j->net, 1, &j->team.group));
    return j->by_host ? mf_ps_host_aggregate_open(j->net, j->n_workers, j->n_servers,
                                                  call->timeout_ns, &j->crew)
                      : MF_OK;
}

mf_status mf_ps_open(const mf_strategy_call *call, mf_strategy **out)
{
    const mf_cluster *c = call->cluster;
    ps_job *j = mf_calloc(1, sizeof *j);
    mf_status st;

    if (!j)
        return MF_NOMEM("parameter servers");
    j->n_workers = c->size;
    j->n_servers = j->n_slices = mf_cluster_count(c, MF_ROLE_PS);
    j->index = c->rank >= 0 ? -1 : mf_cluster_self(c)->index;
    j->strategy = (mf_strategy){ .team = &j->team, .close = ps_close };
    j->team = (mf_dist_worker){ .kind = j->index < 0 ? &WORKER : &SERVER,
                                .rank = j->index < 0 ? c->rank : c->size + j->index,
                                .size = c->size,
                                .pulls = true,
                                .timeout_ns = call->timeout_ns };
    st = strategy_param_server_open_all(j, call);
    if (st == MF_OK) {
        *out = &j->strategy;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    j->began = false;
    ps_close(&j->strategy);
    return mf_error_restore(&why);
}

/* The default settings of parameter_server, for one server. */
mf_status mf_ps_open_central(const mf_strategy_call *call, mf_strategy **out)
{
    const int servers = mf_cluster_count(call->cluster, MF_ROLE_PS);
    mf_strategy_call served = *call;
    mf_strategy_settings settings;

    if (servers != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "central_storage over several workers keeps the variables in one parameter "
                       "server, and this job has %d: start it with `meshflow launch --workers N "
                       "--ps 1`%s",
                       servers, servers > 1 ? ", or use the strategy parameter_server" : "");
    if (call->settings->replicas > 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "central_storage: replicas are for one process, and this job has %d workers",
                       call->cluster->size);
    MF_TRY(mf_strategy_parse("parameter_server", call->arena, &settings));
    settings.aggregation = call->settings->aggregation;
    served.settings = &settings;
    return mf_ps_open(&served, out);
}
