/* SPDX-License-Identifier: Apache-2.0 */
/* job_members.c - registers the tasks of an elastic job, and connects and disconnects the members
 * of a view. */
#include "dist/job_members.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/param.h"
#include "dist/job_numerics.h"
#include "dist/orphan_output.h"
#include "dist/step_flags.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

MF_PARAM_FROM(lease_ms, 3000, 100,
              "a task whose lease is not renewed for this time in ms is considered lost");

#define SETTINGS "settings" /* in the store: the identity of the first tasks */

static const char *store_of(const mf_strategy_options *o)
{
    const char *store = o->store ? o->store : getenv("MESHFLOW_STORE");

    return store && store[0] != '\0' ? store : NULL;
}

bool mf_job_is_elastic(const mf_strategy_options *o, const mf_cluster *cluster)
{
    return store_of(o) && cluster->addresses && cluster->n_tasks > 0 &&
           !(o->transport && strcmp(o->transport, "mpi") == 0);
}

/* ---- making and freeing ---- */

/* Workers, then servers. */
static mf_status copy_first_tasks(const mf_strategy_call *call, mf_job_members *j, int n,
                                  const char **addresses)
{
    const mf_cluster *c = call->cluster;
    const int self = c->rank >= 0 ? c->rank : c->size + mf_cluster_self(c)->index;

    for (int i = 0; i < n; i++) {
        const mf_cluster_task *t =
            i < c->size ? mf_cluster_rank(c, i) : mf_cluster_find(c, MF_ROLE_PS, i - c->size);
        mf_buf name = { 0 };

        if (!t)
            return MF_FAIL(MF_INVALID_ARGUMENT, "the cluster does not list all of its tasks");
        mf_buf_printf(&name, "%s %d", mf_role_name(t->role), t->index);
        MF_TRY(mf_buf_finish(&name));
        j->first[j->n_first++] = name.data;
        addresses[i] = t->address;
    }
    j->name = mf_strdup(j->first[self]);
    j->address = mf_strdup(addresses[self]);
    return j->name && j->address ? MF_OK : MF_NOMEM("members");
}

static mf_status copy_strategy_call(const mf_strategy_call *call, mf_job_members *j, int n,
                                    const char **addresses)
{
    mf_buf identity = { 0 };
    mf_status st = mf_job_identity(call, &identity);

    j->identity = identity.data;
    MF_TRY(st);
    j->store = mf_strdup(store_of(call->o));
    j->collective = mf_strdup(call->settings->collective);
    if (!j->store || !j->collective)
        return MF_NOMEM("members");
    j->timeout_ns = call->timeout_ns;
    MF_TRY(copy_first_tasks(call, j, n, addresses));
    return mf_job_transport(call, addresses, n, j->name, &j->way);
}

mf_status mf_job_members_init(const mf_strategy_call *call, const mf_recovery_hooks *hooks,
                              mf_job_members *out)
{
    const int n = call->cluster->size + mf_cluster_count(call->cluster, MF_ROLE_PS);
    const char **addresses = mf_calloc(n, sizeof *addresses);
    mf_status st;

    *out = (mf_job_members){ .first = mf_calloc(n, sizeof *out->first), .recovery.hooks = hooks };
    pthread_mutex_init(&out->lock, NULL);
    st =
        addresses && out->first ? copy_strategy_call(call, out, n, addresses) : MF_NOMEM("members");
    mf_free(addresses);
    return st;
}

void mf_job_members_deinit(mf_job_members *j)
{
    if (!j->first)
        return;
    mf_job_members_disconnect(j, MF_OK);
    mf_members_close(j->members);
    for (int i = 0; i < j->n_first; i++)
        mf_free(j->first[i]);
    mf_free(j->first);
    mf_free(j->store);
    mf_free(j->name);
    mf_free(j->address);
    mf_free(j->identity);
    mf_free(j->collective);
    mf_free(j->way.paths);
    pthread_mutex_destroy(&j->lock);
    *j = (mf_job_members){ 0 };
}

/* ---- registering ---- */

void mf_job_members_check(mf_job_members *j)
{
    mf_status st;

    pthread_mutex_lock(&j->lock);
    st = j->net ? mf_members_check(j->members) : MF_OK;
    if (st != MF_OK)
        mf_net_abort(j->net, st);
    pthread_mutex_unlock(&j->lock);
}

static void hear_news(void *ctx)
{
    mf_job_members_check(ctx);
}

static void hear_excluded(void *ctx, int64_t ns)
{
    mf_recovery_log_excluded(ctx, ns);
}

/* The death of a launcher ends its tasks, except elastic ones: they need the launcher no more than
 * they need any single task. */
static void outlive_launcher(void)
{
    const char *launcher = getenv("MESHFLOW_LAUNCHER");

    if (!launcher || atoi(launcher) != (int)getppid())
        return;
    (void)prctl(PR_SET_PDEATHSIG, 0);
    mf_job_keep_output();
}

/* Was this task asked to end while it waits for a view? */
static bool wants_to_end(void *ctx)
{
    const mf_recovery *r = &((const mf_job_members *)ctx)->recovery;

    return r->may_leave &&
           (atomic_load(&r->dist->leave_requested) || mf_trainer_wants_stop(r->trainer));
}

mf_status mf_job_members_register(mf_job_members *j)
{
    outlive_launcher();
    return mf_members_open(&(mf_members_options){ .store = j->store,
                                                  .security = j->way.security,
                                                  .name = j->name,
                                                  .address = j->address,
                                                  .first = (const char *const *)j->first,
                                                  .n_first = j->n_first,
                                                  .lease_ns = MF_PARAM(lease_ms) * 1000000,
                                                  .timeout_ns = j->timeout_ns,
                                                  .news = hear_news,
                                                  .excluded = hear_excluded,
                                                  .stops = wants_to_end,
                                                  .ctx = j },
                           &j->members);
}

/* How long a registered peer may be silent while tasks connect. Several leases: a busy peer listens
 * a little later. */
static int64_t silence_ns(const mf_job_members *j)
{
    const int64_t leases = 3 * MF_PARAM(lease_ms) * 1000000;

    return leases < j->timeout_ns ? leases : j->timeout_ns;
}

static mf_status is_worth_it(void *ctx)
{
    return mf_members_check(ctx);
}

static bool is_server_member(const mf_member *m)
{
    const char *role = mf_role_name(MF_ROLE_PS);

    return strncmp(m->name, role, strlen(role)) == 0 && m->name[strlen(role)] == ' ';
}

/* Members of a role, in the order of the view, appended to tasks[]. */
static void list_role(mf_job_members *j, bool servers, mf_net_task *tasks, int *n)
{
    for (int i = 0; i < j->view->n; i++) {
        const mf_member *m = &j->view->members[i];

        if (is_server_member(m) != servers)
            continue;
        if (i == j->view->self)
            j->self = *n;
        tasks[(*n)++] = (mf_net_task){ m->name, m->address };
    }
}

/* The place of a task in the view. */
int mf_job_members_place_of(const mf_job_members *j, int task)
{
    const bool server = task >= j->n_workers;
    int left = server ? task - j->n_workers : task, i = 0;

    while (is_server_member(&j->view->members[i]) != server || left-- > 0)
        i++;
    return i;
}

static mf_status open_net(mf_job_members *j, mf_net **out, int *missing)
{
    const mf_view *v = j->view;
    mf_net_task *tasks = mf_calloc(v->n, sizeof *tasks);
    mf_status st;

    if (!tasks)
        return MF_NOMEM("members");
    j->n_workers = 0;
    list_role(j, false, tasks, &j->n_workers);
    j->n_servers = j->n_workers;
    list_role(j, true, tasks, &j->n_servers);
    j->n_servers -= j->n_workers;
    st = mf_net_open(&(mf_net_options){ .tasks = tasks,
                                        .n_tasks = v->n,
                                        .self = j->self,
                                        .identity = j->identity,
                                        .note = mf_job_numerics_note(),
                                        .transport = j->way.transport,
                                        .security = j->way.security,
                                        .timeout_ns = j->timeout_ns,
                                        .silence_ns = silence_ns(j),
                                        .missing = missing,
                                        .epoch = (uint32_t)v->epoch,
                                        .check = is_worth_it,
                                        .check_ctx = j->members },
                     out);
    mf_free(tasks);
    return st;
}

mf_status mf_job_members_connect(mf_job_members *j, int *missing)
{
    mf_net *net;

    MF_TRY(open_net(j, &net, missing));
    pthread_mutex_lock(&j->lock);
    j->net = net;
    pthread_mutex_unlock(&j->lock);
    mf_job_members_check(j); /* the view may have changed while the tasks connected */
    return MF_OK;
}

/* Lost peers accept no data: an abort would wait for them. */
static void drop_lost(mf_job_members *j, mf_net *net)
{
    if (mf_members_look(j->members) != MF_OK) /* peers may have reported the loss before the store
                                                 shows it */
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    for (int i = 0; i < j->n_workers + j->n_servers; i++) {
        if (i != j->self && mf_members_is_lost(j->members, mf_job_members_place_of(j, i)))
            mf_net_drop(net, i);
    }
}

void mf_job_members_disconnect(mf_job_members *j, mf_status why)
{
    mf_net *net;

    pthread_mutex_lock(&j->lock);
    net = j->net;
    j->net = NULL;
    pthread_mutex_unlock(&j->lock);
    if (net && why != MF_OK) {
        mf_error e;

        mf_error_save(why, &e);
        drop_lost(j, net);
        mf_net_abort(net, mf_error_restore(&e));
    }
    if (net)
        mf_net_close(net);
}

/* ---- the end of a job ---- */

/* A task that joins a job that is over is not needed. A new training in a used store would end with
 * status 0 and no result: it has other settings. */
mf_status mf_job_members_check_end(const mf_job_members *j, mf_status over)
{
    char *then = NULL;
    mf_buf text = { 0 };
    mf_error why;

    mf_error_save(over, &why);
    if (mf_members_agreed(j->members, SETTINGS, &then) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    if (then)
        mf_net_differences(then, "that job", j->identity, j->name, &text);
    mf_free(then);
    over = mf_error_restore(&why);
    if (text.len > 0)
        over = MF_FAIL(MF_INVALID_ARGUMENT,
                       "the store '%s' belongs to a job that is over and had different settings: "
                       "%s; give every training its own --store",
                       j->store, text.data);
    else if (!getenv("MESHFLOW_LAUNCHER")) /* a launcher's store is used once */
        over = mf_error_wrap(over, "", "; for a new training give another --store");
    mf_buf_deinit(&text);
    return over;
}

/* ---- the current view ---- */

mf_status mf_job_members_group(mf_job_members *j, uint32_t id, mf_group **out)
{
    int *members = mf_calloc(j->n_workers, sizeof *members);
    mf_status st;

    *out = NULL;
    if (!members)
        return MF_NOMEM("members");
    for (int i = 0; i < j->n_workers; i++)
        members[i] = i;
    st = mf_job_group_of(j->net, members, j->n_workers, id, j->collective, out);
    mf_free(members);
    return st;
}

/* ---- step flags ---- */

static void announce_leave(mf_job_members *j, mf_dist *dist)
{
    if (dist->state == MF_DIST_LEAVING)
        return;
    dist->state = MF_DIST_LEAVING;
    MF_INFO("%s leaves the job", j->name);
    if (mf_members_leave(j->members) != MF_OK) {
        MF_WARN("%s cannot leave yet: %s", j->name, mf_error_message());
        dist->state = MF_DIST_ACTIVE;
    }
}

int mf_job_members_step_flags(mf_job_members *j, mf_dist *dist, bool wants_stop)
{
    int flags = wants_stop ? MF_STEP_FLAG_STOP : 0;

    if (!dist->members)
        return flags;
    if (atomic_load(&dist->leave_requested))
        announce_leave(j, dist);
    flags |= dist->state == MF_DIST_LEAVING ? MF_STEP_FLAG_LEAVE : 0;
    return flags | (mf_members_wait_for_next(j->members) ? MF_STEP_FLAG_RENDEZVOUS : 0);
}

void mf_dist_apply_step_flags(mf_dist *dist, int flags, bool *stop)
{
    const int leaving = mf_step_flags_leaving(flags);

    *stop = (flags & MF_STEP_FLAG_STOP) || leaving >= dist->size; /* no worker would remain */
    dist->rendezvous_due = (flags & MF_STEP_FLAG_RENDEZVOUS) || leaving > 0;
}

/* ---- notes in the store ---- */

mf_status mf_job_note_saved(mf_dist *dist)
{
    return dist->members ? mf_members_mark(dist->members->members, "saved") : MF_OK;
}

/* The result is on disk now, even if tasks that join later cannot be notified. */
mf_status mf_job_note_end(mf_dist *dist)
{
    const mf_status st =
        dist->members ? mf_members_end(dist->members->members, dist->stopped) : MF_OK;

    if (st != MF_DATA_LOSS)
        return st;
    MF_WARN("%s", mf_error_message());
    return MF_OK;
}

static mf_status note_settings(mf_job_members *j)
{
    char *text = mf_strdup(j->identity);
    const mf_status st =
        text ? mf_members_agree(j->members, SETTINGS, text, strlen(text) + 1) : MF_NOMEM("members");

    mf_free(text);
    return st;
}

/* The first tasks agree; later ones take what was agreed. */
static mf_status agree_on_numerics(mf_job_members *j)
{
    const mf_isa common = mf_job_numerics_common(j->net);
    char job[32];

    (void)snprintf(job, sizeof job, "%s", mf_isa_name(common));
    MF_TRY(mf_members_agree(j->members, "numerics", job, sizeof job));
    if (strcmp(job, mf_isa_name(common)) == 0) {
        mf_job_numerics_agree(j->net, common);
        return MF_OK;
    }
    return mf_job_numerics_join(j->name, job, j->recovery.trainer->bf16);
}

mf_status mf_job_members_describe_view(mf_job_members *j, mf_dist *dist)
{
    if (!dist->job[0]) {
        mf_job_id(dist->job);
        MF_TRY(mf_members_agree(j->members, "job", dist->job, sizeof dist->job));
        MF_TRY(note_settings(j));
        MF_TRY(agree_on_numerics(j));
    }
    dist->rank = j->self;
    dist->size = j->n_workers;
    dist->history.trained |= j->view->epoch > 1;
    return mf_members_marked(j->members, "saved", &dist->history.saved);
}
