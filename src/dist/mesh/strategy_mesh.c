/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_mesh.c - a training whose steps run on a mesh of devices (strategy mesh): each device
 * holds slices of variables and computes its pieces. Devices are threads of this process, or of all
 * workers, which have equally many each.
 *
 * The trainer's own variables are the source and destination of weights: a value written there is
 * sent to the devices before the next step, and the copy is freed; all variables are gathered
 * before they are read. In an elastic job they are gathered periodically, and every worker keeps
 * the result. When a worker is lost or joins, the devices are assigned to the new set of workers;
 * they continue from the variables that were gathered last, and do the steps since then again: the
 * bits do not depend on which worker runs a device. */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/mesh/mesh_private.h"
#include "dist/step_flags.h"
#include "train/loop/variable_query.h"

#include <stdio.h>
#include <string.h>

/* Devices are assigned evenly, neighbours to one worker: the first of this rank. */
static int strategy_mesh_first_of(const mf_job_mesh *m, int rank)
{
    return m->setup.meshes.devices * rank / m->dist.size;
}

/* ---- sessions ---- */

/* Worker 0 draws it. */
static mf_status share_seed(mf_job_mesh *m)
{
    const uint64_t mine = mf_random_seed() | 1;
    uint64_t *all = mf_calloc(m->dist.size, sizeof *all);
    mf_status st = all ? mf_dist_all_gather(&m->dist, 0, "the seed", &mine, sizeof mine, all)
                       : MF_NOMEM("seeds");

    if (st == MF_OK)
        m->setup.seed = all[0];
    mf_free(all);
    return st;
}

static mf_status make_wire(mf_job_mesh *m)
{
    const int workers = m->dist.size;
    int *first = mf_calloc(workers + 1, sizeof *first);
    mf_status st = MF_OK;

    if (!first)
        return MF_NOMEM("a mesh");
    for (int i = 0; i <= workers; i++)
        first[i] = strategy_mesh_first_of(m, i);
    if (mf_job_mesh_net(m) && workers > 1)
        st = mf_mesh_wire_net_new(mf_job_mesh_net(m), first, workers, m->dist.timeout_ns, &m->wire);
    mf_free(first);
    m->setup.wire = m->wire;
    return st;
}

/* In an elastic job surplus workers end, and the others rendezvous without them. */
static mf_status check_seats(const mf_job_mesh *m)
{
    const int n = m->setup.meshes.devices;

    if (m->dist.size <= n)
        return MF_OK;
    if (m->dist.members && m->dist.rank < n)
        return MF_FAIL(MF_ABORTED, "%d workers joined a mesh of %d devices", m->dist.size, n);
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "the mesh has %d devices and the job %d workers: some workers would have no device", n,
        m->dist.size);
}

mf_status mf_job_mesh_begin_session(mf_job_mesh *m)
{
    MF_TRY(check_seats(m));
    m->setup.first = strategy_mesh_first_of(m, m->dist.rank);
    m->setup.n = strategy_mesh_first_of(m, m->dist.rank + 1) - m->setup.first;
    if (m->dist.size > 1)
        MF_TRY(share_seed(m));
    MF_TRY(make_wire(m));
    mf_mesh_balance_restart(&m->balance, m->trainer->step);
    m->dist.rows.version++;
    for (int64_t i = 0; i < m->trainer->n_trained; i++) /* nothing was sent yet */
        m->handed[i] = mf_variable_writes(m->trainer->trained[i].variable) - 1;
    return mf_mesh_session_make(m->graph, &m->setup, &m->session);
}

void mf_job_mesh_end_session(mf_job_mesh *m)
{
    mf_session_free(m->session);
    mf_mesh_wire_net_free(m->wire);
    m->session = NULL;
    m->wire = m->setup.wire = NULL;
}

/* Where a loss compares all samples, no micro-batch can go backward before all have gone forward.
 */
static mf_status check_pipeline(const mf_job_mesh *m, const mf_trainer *t)
{
    if (!t->graph.whole.loss || m->setup.meshes.n <= 1 || t->options.micro_batches <= 1 ||
        m->setup.pipeline == MF_PIPELINE_GPIPE)
        return MF_OK;
    return MF_FAIL(MF_UNIMPLEMENTED,
                   "the loss '%s' compares all samples of a step, so all micro-batches go "
                   "forward before the first one goes backward; use --pipeline gpipe",
                   t->graph.whole.loss);
}

/* On a mesh the unit is the micro-batch: with slices of a batch results would depend on the layout.
 */
static mf_status check_aggregation(const mf_job_mesh *m, const mf_trainer *t)
{
    const char *name = mf_aggregate_name(m->aggregation.how);

    if (m->aggregation.how == MF_AGGREGATE_MEAN)
        return MF_OK;
    if (t->options.micro_batches < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mesh: aggregation=%s combines the gradients of micro-batches, and there "
                       "is only one; give --micro-batches N, or remove aggregation",
                       name);
    if (m->n_weights > 0 && m->n_weights != t->options.micro_batches)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mesh: %lld weights for %d micro-batches: give one for each",
                       (long long)m->n_weights, t->options.micro_batches);
    return mf_aggregation_check(&m->aggregation, t);
}

static mf_status mesh_join(mf_dist *dist, mf_trainer *t)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    if (m->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    MF_TRY(check_pipeline(m, t));
    MF_TRY(check_aggregation(m, t));
    m->trainer = t;
    m->kept.steps = -1;
    m->joined = true;
    dist->shards.total = dist->shards.n = t->options.shards; /* of all shards, rows() selects the
                                                                samples */
    MF_TRY(mf_job_mesh_make_graph(m));
    m->setup.pool = t->pool;
    m->setup.micro_batches = t->options.micro_batches;
    m->setup.session.disable = t->options.disable;
    return dist->members ? MF_OK
                         : mf_job_mesh_begin_session(m); /* the first rendezvous makes the session
                                                          */
}

static void mesh_leave(mf_dist *dist, mf_trainer *t)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    if (m->trainer != t)
        return; /* a second trainer, which was refused */
    mf_job_mesh_end_session(m);
    mf_graph_free(m->graph);
    m->graph = NULL;
    m->trainer = NULL;
}

static mf_status mesh_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    (void)step;
    m->samples = samples;
    m->wants_stop = wants_stop;
    if (mf_job_mesh_keeps(m) && m->trainer->step >= m->kept.steps + m->keep_steps)
        MF_TRY(mf_job_mesh_gather(m));
    MF_TRY(mf_job_mesh_send_written(m));
    if (!mf_job_mesh_keeps(m))
        mf_job_mesh_free_copies(m);
    m->whole_bytes = mf_job_mesh_whole_bytes(m);
    return MF_OK;
}

static mf_status strategy_mesh_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                                   const mf_loop_call *call)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);
    mf_status st;

    mf_mesh_session_feed_rows(m->session, dist->rows.n_feeds, m->samples);
    st = mf_trainer_call_at(t, m->session, mf_job_mesh_timeout(m).timeout_ms, options, call);
    mf_mesh_session_feed_rows(m->session, 0, 0);
    return st;
}

static mf_status mesh_rows(mf_dist *dist, const mf_loop_call *call, int n, int64_t whole,
                           mf_ranges *out)
{
    const mf_run_names names = { call->feed_names, call->fetches,   call->targets,
                                 call->n_feeds,    call->n_fetches, call->n_targets };

    if (!mf_job_mesh_of(dist)->session)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the workers of the mesh are not connected");
    return mf_mesh_session_rows(mf_job_mesh_of(dist)->session, &names, call->feeds, n, whole, out);
}

static mf_status mesh_infer(mf_dist *dist, const mf_names *names)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);
    const mf_run_options o = mf_job_mesh_timeout(m);

    if (!m->session) /* nothing was trained: workers are not connected yet */
        MF_TRY(mf_dist_rendezvous(dist, m->trainer, MF_OK));
    MF_TRY(mf_job_mesh_send_written(m));
    return mf_session_run(m->session, &o, names->feeds, names->values, names->n_feeds,
                          names->fetches, names->n_fetches, NULL, 0, names->results);
}

/* All workers can change the layout, or none does. */
static mf_status agree_to_change(mf_job_mesh *m, int64_t step, mf_status mine)
{
    const int32_t own = (int32_t)mine;
    int32_t *all = mf_calloc(m->dist.size, sizeof *all);
    mf_error why;
    mf_status st = MF_OK;

    mf_error_save(mine, &why);
    if (!all)
        return MF_NOMEM("workers");
    if (m->dist.group)
        st = mf_dist_all_gather(&m->dist, step, "the check of the new layout", &own, sizeof own,
                                all);
    for (int i = 0; st == MF_OK && mine == MF_OK && m->dist.group && i < m->dist.size; i++) {
        if (all[i] != (int32_t)MF_OK)
            st = MF_FAIL(MF_INVALID_ARGUMENT, "worker %d refuses; see its log", i);
    }
    mf_free(all);
    return st == MF_OK ? mf_error_restore(&why) : st;
}

/* The layout is not possible: the training continues as before. */
static void strategy_mesh_refuse(mf_job_mesh *m, const mf_mesh_agreed *a)
{
    char words[MF_VARIABLE_REQUEST_TEXT];

    (void)snprintf(words, sizeof words, "mesh '%s', layout '%s' cannot be: %s", a->to.mesh,
                   a->to.layout, mf_error_message());
    MF_WARN("%s", words);
    mf_relayout_request_answer(&m->wish, a, MF_VARIABLE_REQUEST_REFUSED, words);
}

/* Between two steps: what devices hold goes where the new layout wants it. It is no failure that it
 * cannot be. */
static mf_status strategy_mesh_change(mf_job_mesh *m, int64_t step, const mf_mesh_agreed *a,
                                      const mf_mesh_spec *to)
{
    const mf_run_options o = mf_job_mesh_timeout(m);
    const int64_t begin = mf_clock_ns();
    mf_mesh_setup next = m->setup;
    mf_mesh_change *c = NULL;
    char words[MF_VARIABLE_REQUEST_TEXT];
    int64_t bytes = 0;
    mf_status st = mf_mesh_spec_expand(to, &next.meshes);

    next.rules = to->rules;

    memset(next.layers, 0, sizeof next.layers); /* shares along the axes are assigned again */
    if (st == MF_OK)
        st = mf_mesh_change_new(m->session, &next, &c);
    st = agree_to_change(m, step, st);
    if (st == MF_OK)
        st = mf_mesh_change_make(c, &o, &bytes);
    mf_mesh_change_free(c);
    if (st == MF_INVALID_ARGUMENT) {
        strategy_mesh_refuse(m, a);
        return MF_OK;
    }
    if (st != MF_OK) { /* the remaining workers may succeed */
        mf_relayout_request_answer(&m->wish, a, MF_VARIABLE_REQUEST_MADE, "");
        return st;
    }
    m->setup = next;
    m->now = *to;
    m->changes++;
    m->dist.rows.version++;
    mf_mesh_balance_restart(&m->balance, step);
    (void)snprintf(words, sizeof words,
                   "after step %lld the mesh is '%s', the layout '%s': %lld bytes were sent to "
                   "devices here, %.1f ms",
                   (long long)step, a->to.mesh, a->to.layout, (long long)bytes,
                   (double)(mf_clock_ns() - begin) * 1e-6);
    MF_INFO("%s", words);
    mf_relayout_request_answer(&m->wish, a, MF_VARIABLE_REQUEST_DONE, words);
    return MF_OK;
}

/* The layout that the workers agreed on, which they received as text. */
static mf_status strategy_mesh_change_agreed(mf_job_mesh *m, int64_t step, const mf_mesh_agreed *a)
{
    mf_mesh_spec to;
    mf_status st = mf_mesh_spec_parse(a->to.mesh, a->to.layout, &to);

    if (st == MF_OK)
        return strategy_mesh_change(m, step, a, &to);
    if (st != MF_INVALID_ARGUMENT)
        return st;
    strategy_mesh_refuse(m, a); /* on all workers: they have the same text */
    return MF_OK;
}

/* What every worker has read, by rank. */
static mf_status count_workers(mf_job_mesh *m)
{
    const mf_mesh_worker mine = { .samples = m->dist.samples.total,
                                  .samples_read = m->dist.samples.read,
                                  .whole_bytes = m->whole_bytes };
    mf_mesh_worker *all = mf_calloc(m->dist.size, sizeof *all);
    mf_status st = all ? MF_OK : MF_NOMEM("counters");

    if (st == MF_OK && m->dist.size > 1)
        st = mf_dist_all_gather(&m->dist, 0, "the samples read", &mine, (int64_t)sizeof mine, all);
    else if (st == MF_OK)
        all[0] = mine;
    if (st != MF_OK) {
        mf_free(all);
        return st;
    }
    mf_free(m->workers);
    m->workers = all;
    m->n_workers = m->dist.size;
    return MF_OK;
}

/* The counters of all devices: neighbours belong to one worker, in the order of ranks. */
static mf_status strategy_mesh_count(mf_job_mesh *m)
{
    const int64_t each = (int64_t)sizeof *m->counts;
    const mf_collective c = mf_dist_collective(&m->dist, 0, "the counters");
    mf_mesh_counts *mine = mf_calloc(m->setup.n, sizeof *mine);
    int64_t *sizes = mf_calloc(m->dist.size, sizeof *sizes);
    mf_status st = MF_OK;

    if (!m->counts)
        m->counts = mf_calloc(m->setup.meshes.devices, sizeof *m->counts);
    if (!mine || !sizes || !m->counts)
        st = MF_NOMEM("counters");
    for (int i = 0; st == MF_OK && i < m->setup.n; i++)
        st = mf_mesh_session_counts(m->session, m->setup.first + i, &mine[i]);
    for (int i = 0; st == MF_OK && i < m->dist.size; i++)
        sizes[i] = each * (strategy_mesh_first_of(m, i + 1) - strategy_mesh_first_of(m, i));
    if (st == MF_OK && m->dist.size > 1)
        st = mf_all_gather(
            m->dist.group,
            &(mf_gather){ .call = c, .data = mine, .sizes = sizes, .out = m->counts });
    else if (st == MF_OK)
        memcpy(m->counts, mine, (size_t)(each * m->setup.n));
    mf_free(mine);
    mf_free(sizes);
    return st;
}

/* All workers have the same numbers, so all make the same decision. */
static mf_status strategy_mesh_balance(mf_job_mesh *m, int64_t step)
{
    const mf_meshes *meshes = &m->setup.meshes;
    int64_t *busy = mf_calloc(meshes->devices, sizeof *busy);
    mf_mesh_agreed asked = { 0 };
    mf_mesh_spec to;
    mf_mesh next;
    bool better = false;
    mf_status st = busy ? strategy_mesh_count(m) : MF_NOMEM("speeds");

    for (int i = 0; st == MF_OK && i < meshes->devices; i++)
        busy[i] = m->counts[i].busy_ns;
    if (st == MF_OK)
        st = mf_mesh_balance_look(&m->balance, meshes, &m->setup.rules, step, busy, &next, &better);
    mf_free(busy);
    if (st != MF_OK || !better)
        return st;
    mf_mesh_spec_one(&next, &to);
    to.rules = m->now.rules;
    return mf_relayout_request_text(&to, &asked.to) ? strategy_mesh_change(m, step, &asked, &to)
                                                    : MF_OK;
}

static mf_status mesh_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);
    const int flags = mf_job_members_step_flags(&m->members, dist, m->wants_stop);
    mf_mesh_agreed all;

    MF_TRY(mf_relayout_request_agree(
        &m->wish, dist, step, flags | (dist->reads_variables ? MF_STEP_FLAG_READ : 0), &all));
    mf_dist_apply_step_flags(dist, all.flags, stop);
    if (m->trainer->graph.guard.kind == MF_GUARD_SKIP)
        MF_TRY(mf_job_mesh_take_counts(m));
    if (all.flags & MF_STEP_FLAG_READ)
        MF_TRY(mf_job_mesh_gather(m));
    if (all.change)
        return strategy_mesh_change_agreed(m, step, &all);
    if (m->balances && dist->size > 1 &&
        mf_mesh_balance_is_due(&m->balance, &m->setup.meshes, step))
        return strategy_mesh_balance(m, step);
    return MF_OK;
}

static mf_status mesh_settle(mf_dist *dist, bool *stop)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    (void)stop;
    MF_TRY(strategy_mesh_count(m));
    MF_TRY(count_workers(m));
    return mf_job_mesh_gather(m);
}

static void mesh_failed(mf_dist *dist, mf_status why)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    if (mf_job_mesh_net(m))
        mf_net_abort(mf_job_mesh_net(m), why);
}

static void mesh_traffic(const mf_dist *dist, mf_traffic *out)
{
    const mf_job_mesh *m = mf_job_mesh_of((mf_dist *)(uintptr_t)dist);

    if (m->wire)
        out->bytes = out->plain_bytes = mf_mesh_wire_net_bytes(m->wire);
}

/* "[0:392, 0:128]" */
static void box_text(const mf_box *box, int rank, mf_buf *out)
{
    mf_buf_str(out, "[");
    for (int d = 0; d < rank; d++)
        mf_buf_printf(out, "%s%lld:%lld", d > 0 ? ", " : "", (long long)box->begin[d],
                      (long long)box->begin[d] + (long long)box->size[d]);
    mf_buf_str(out, "]");
}

/* Updates the trainer's copy where no other worker is needed for that. */
static mf_status mesh_holders(mf_dist *dist, const mf_trainer *t, int64_t i, mf_holders *out,
                              int64_t *step)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);
    mf_buf slice = { 0 };
    char task[64];
    mf_box box;
    int rank;

    if (dist->size == 1 && m->kept.steps != t->step)
        MF_TRY(mf_job_mesh_gather(m));
    *step = m->kept.steps;
    for (int r = 0; r < dist->size; r++) {
        for (int p = strategy_mesh_first_of(m, r); p < strategy_mesh_first_of(m, r + 1); p++) {
            if (!mf_mesh_session_holds(m->session, t->trained[i].name, p, &box, &rank))
                continue;
            mf_buf_clear(&slice);
            box_text(&box, rank, &slice);
            (void)snprintf(task, sizeof task, "worker %d, device %d", r, p);
            mf_holders_add(out, task, slice.data, t->step);
        }
    }
    mf_buf_deinit(&slice);
    return MF_OK;
}

static const mf_dist_lifecycle_ops mesh_lifecycle = {
    .join = mesh_join, .leave = mesh_leave, .over = mf_job_note_end, .failed = mesh_failed
};

static const mf_dist_step_ops mesh_steps = { .begin_step = mesh_begin_step,
                                             .run = strategy_mesh_run,
                                             .rows = mesh_rows,
                                             .infer = mesh_infer,
                                             .end_step = mesh_end_step,
                                             .settle = mesh_settle };

static const mf_dist_membership_ops mesh_membership = { .rendezvous = mf_recovery_rendezvous,
                                                        .aligned = mf_job_mesh_aligned,
                                                        .step_done = mf_recovery_step_done };

static const mf_dist_state_ops mesh_state = { .holders = mesh_holders,
                                              .each_slice = mf_job_mesh_each_slice,
                                              .note_saved = mf_job_note_saved };

static const mf_dist_trace_ops mesh_trace = { .traffic = mesh_traffic };

/* ---- opening and closing ---- */

static void mesh_close(mf_strategy *s)
{
    mf_job_mesh *m = (mf_job_mesh *)s;

    if (m->joined && mf_job_mesh_net(m) && mf_net_check(mf_job_mesh_net(m)) == MF_OK &&
        mf_dist_barrier(&m->dist, 0, "the end") !=
            MF_OK) /* no worker closes while others still send */
        MF_LOG(m->dist.members ? MF_LOG_DEBUG : MF_LOG_WARNING, "%s", mf_error_message());
    mf_mesh_wire_net_free(m->wire);
    mf_relayout_request_deinit(&m->wish);
    mf_mesh_balance_deinit(&m->balance);
    mf_free(m->counts);
    mf_free(m->workers);
    mf_free(m->weights);
    mf_group_free(m->dist.group);
    if (m->net)
        mf_net_close(m->net);
    if (m->dist.members)
        mf_job_members_deinit(&m->members);
    mf_free(m);
}

static mf_status strategy_mesh_connect(mf_job_mesh *m, const mf_strategy_call *call)
{
    if (mf_job_is_elastic(call->o, call->cluster)) {
        m->dist.members = &m->members;
        return mf_job_members_init(call, &mf_job_mesh_recovery, &m->members);
    }
    MF_TRY(mf_job_connect(call, &m->net));
    return mf_job_group(call, m->net, 1, &m->dist.group);
}

/* How many micro-batches there are is not known yet. */
static mf_status strategy_mesh_make_aggregation(mf_job_mesh *m, const mf_strategy_settings *s)
{
    m->n_weights = s->aggregation.n_weights;
    MF_TRY(mf_aggregation_make(s, "micro-batch", (int)m->n_weights, &m->aggregation, &m->weights));
    if (m->aggregation.how != MF_AGGREGATE_MEAN)
        m->setup.aggregation = &m->aggregation;
    return MF_OK;
}

static mf_status strategy_mesh_open_mesh(mf_job_mesh *m, const mf_strategy_call *call)
{
    MF_TRY(mf_mesh_settings_setup(call->settings->mesh, &m->setup));
    MF_TRY(strategy_mesh_make_aggregation(m, call->settings));
    m->balances = call->settings->balance;
    m->now = call->settings->mesh->mesh;
    return call->cluster->size > 1 ? strategy_mesh_connect(m, call) : MF_OK;
}

mf_status mf_mesh_open(const mf_strategy_call *call, mf_strategy **out)
{
    mf_job_mesh *m = mf_calloc(1, sizeof *m);
    mf_error why;
    mf_status st;

    if (!m)
        return MF_NOMEM("a mesh");
    m->strategy = (mf_strategy){ .dist = &m->dist, .close = mesh_close };
    m->kept.steps = -1;
    mf_relayout_request_init(&m->wish);
    mf_mesh_balance_init(&m->balance);
    m->dist = (mf_dist){ .ops = { .lifecycle = &mesh_lifecycle,
                                  .step = &mesh_steps,
                                  .membership = &mesh_membership,
                                  .state = &mesh_state,
                                  .trace = &mesh_trace },
                         .caps = MF_DIST_STATE_IN_SLICES |
                                 (call->cluster->size > 1 ? MF_DIST_LOCKSTEP : 0),
                         .rank = call->cluster->size > 1 ? call->cluster->rank : 0,
                         .size = call->cluster->size > 1 ? call->cluster->size : 1,
                         .timeout_ns = call->timeout_ns };
    st = strategy_mesh_open_mesh(m, call);
    if (st == MF_OK) {
        *out = &m->strategy;
        return MF_OK;
    }
    mf_error_save(st, &why);
    mesh_close(&m->strategy);
    return mf_error_restore(&why);
}

mf_status mf_strategy_mesh_relayout_to(mf_strategy *strategy, const mf_mesh_spec *to)
{
    if (!strategy || strategy->close != mesh_close)
        return MF_FAIL(MF_INVALID_ARGUMENT, "only a training on a mesh can change its layout");
    return mf_relayout_request_set(&((mf_job_mesh *)strategy)->wish, to);
}

mf_status mf_strategy_mesh_relayout(mf_strategy *strategy, const char *axes, const char *layout)
{
    MF_ENTRY;

    mf_mesh_spec to;

    MF_TRY(mf_mesh_spec_parse(axes ? axes : "", layout, &to));
    return mf_strategy_mesh_relayout_to(strategy, &to);
}

const mf_job_mesh *mf_job_mesh_of_strategy(const mf_strategy *strategy)
{
    return strategy && strategy->close == mesh_close ? (const mf_job_mesh *)strategy : NULL;
}
