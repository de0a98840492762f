/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.c - in-process data parallelism: a thread, a session and shards of the batch for each
 * replica. Replicas exchange through memory of this process; the sums of their shards use the same
 * exchange as those of workers, so the bits are the same, too. */
#include "dist/data_parallel/replicas.h"

#include "base/param.h"
#include "base/thread.h"
#include "graph/shard.h"
#include "train/loop/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

MF_PARAM_INT(replica_check_steps, 100,
             "interval in steps of comparing the variables of all replicas; 0: never");

enum { AREA = 1 << 20 }; /* bytes that a replica shares at a time */

typedef struct replicas_replica {
    mf_replicas *all;
    int rank;
    char name[24];
    mf_group *group;
    mf_gradient_allreduce *sums;
    /* All replicas except the first: */
    mf_session *session;
    mf_resources *resources; /* own variables; NULL: those of the trainer */
    mf_variable **variables; /* by the trainer's number; references */
    const char **fetches;
    int n_fetches;
    mf_tensor **results;
    mf_tensor clock;
    pthread_t thread;
    bool started;
    bool busy; /* guarded by lock */
    /* All replicas: */
    mf_tensor *rows; /* of the feeds */
    const mf_tensor **feeds;
} replicas_replica;

struct mf_replicas {
    mf_replicas_options o;
    int n;
    mf_segment *segment;
    replicas_replica *list;
    const char **names;
    mf_share *shares; /* by replica */
    uint64_t *writes; /* by variable: the trainer's writes when the others last got its value */
    int64_t step, samples;
    const mf_loop_call *call; /* in hand */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing; /* guarded by lock */
    mf_error first_error; /* guarded by lock */
};

/* ---- trouble ---- */

static void replicas_give_up(void *ctx, mf_status why)
{
    replicas_replica *p = ctx;
    mf_replicas *r = p->all;
    mf_error e;

    mf_error_save(why, &e);
    pthread_mutex_lock(&r->lock);
    if (r->first_error.status == MF_OK)
        r->first_error = e;
    pthread_mutex_unlock(&r->lock);
    mf_segment_wake(r->segment);
    (void)mf_error_restore(&e);
}

void mf_replicas_abort(mf_replicas *r, mf_status why)
{
    replicas_give_up(&r->list[0], why);
}

/* Waits have no deadline: a replica may compute for any time, and fails by mf_replicas_abort(). */
static mf_status replicas_check(void *ctx, mf_group_wait *w)
{
    replicas_replica *p = ctx;
    mf_status st;

    (void)w;
    pthread_mutex_lock(&p->all->lock);
    st = p->all->first_error.status == MF_OK ? MF_OK : mf_error_restore(&p->all->first_error);
    pthread_mutex_unlock(&p->all->lock);
    return st;
}

/* ---- variables ---- */

static mf_status copy_variable(replicas_replica *p, int64_t i)
{
    mf_tensor value = { 0 };
    mf_status st = mf_variable_read(p->all->o.trainer->trained[i].variable, &value);

    if (st == MF_OK)
        st = mf_variable_assign(p->variables[i], &value, true);
    mf_tensor_clear(&value);
    return st;
}

/* The trainer's variables may have been assigned: copy them to all replicas. */
static mf_status replicas_follow(mf_replicas *r)
{
    const mf_trainer *t = r->o.trainer;

    for (int64_t i = 0; i < t->n_trained && !r->o.one_store; i++) {
        const uint64_t writes = mf_variable_writes(t->trained[i].variable);

        if (writes == r->writes[i])
            continue;
        for (int k = 1; k < r->n; k++)
            MF_TRY(copy_variable(&r->list[k], i));
        r->writes[i] = writes;
    }
    return MF_OK;
}

static void note_writes(mf_replicas *r)
{
    const mf_trainer *t = r->o.trainer;

    for (int64_t i = 0; i < t->n_trained; i++)
        r->writes[i] = mf_variable_writes(t->trained[i].variable);
}

static mf_status compare_variable(const mf_train_var *v, const replicas_replica *p, int64_t i)
{
    mf_tensor a = { 0 }, b = { 0 };
    mf_status st = mf_variable_read(v->variable, &a);

    if (st == MF_OK)
        st = mf_variable_read(p->variables[i], &b);
    if (st == MF_OK && (a.count != b.count || memcmp(a.data, b.data, mf_tensor_bytes(&a)) != 0))
        st = MF_FAIL(MF_INTERNAL, "%s has another '%s' than the first after step %lld", p->name,
                     v->name, (long long)p->all->step);
    mf_tensor_clear(&a);
    mf_tensor_clear(&b);
    return st;
}

mf_status mf_replicas_compare(mf_replicas *r)
{
    const mf_trainer *t = r->o.trainer;

    for (int k = 1; k < r->n && !r->o.one_store; k++) {
        for (int64_t i = 0; i < t->n_trained; i++)
            MF_TRY(compare_variable(&t->trained[i], &r->list[k], i));
    }
    return MF_OK;
}

/* ---- a run ---- */

/* Samples of the batch before this shard. */
static int64_t first_sample(const mf_replicas *r, int64_t shard)
{
    return mf_shard_begin(r->samples, r->o.trainer->options.shards, shard);
}

/* The rows of its shards; then the clock, which has their position in the batch. */
static void replicas_cut(replicas_replica *p, const mf_loop_call *call)
{
    const mf_replicas *r = p->all;
    const int n_batched = (int)r->o.trainer->model->n_inputs + 1;
    const mf_share own = r->shares[p->rank];
    const int64_t from = first_sample(r, own.first), to = first_sample(r, own.first + own.n);

    for (int i = 0; i < call->n_feeds; i++) {
        mf_tensor *v = &p->rows[i];

        p->feeds[i] = call->feeds[i];
        if (i >= n_batched)
            continue;
        *v = *call->feeds[i];
        v->count = mf_shape_span(&v->shape, 1, v->shape.rank);
        v->data = (char *)v->data + (size_t)(from * v->count) * mf_dtype_cell(v->dtype);
        v->shape.dims[0] = to - from;
        v->count *= to - from;
        p->feeds[i] = v;
    }
    if (p->rank > 0) {
        memcpy(p->clock.data, call->feeds[n_batched]->data, 3 * sizeof(int64_t));
        ((int64_t *)p->clock.data)[2] += from;
        p->feeds[n_batched] = &p->clock;
    }
}

static mf_status replicas_run_one(replicas_replica *p, const mf_loop_call *call)
{
    const bool updates = !p->all->o.one_store;
    const mf_status st =
        mf_session_run(p->session, NULL, call->feed_names, p->feeds, call->n_feeds, p->fetches,
                       p->n_fetches, call->targets, updates ? call->n_targets : 0, p->results);

    if (st != MF_OK)
        replicas_give_up(p, st);
    return st;
}

static void *replicas_serve(void *arg)
{
    replicas_replica *p = arg;
    mf_replicas *r = p->all;

    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!p->busy && !r->closing)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->closing)
            break;
        pthread_mutex_unlock(&r->lock);
        (void)!replicas_run_one(p, r->call);
        pthread_mutex_lock(&r->lock);
        p->busy = false;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void start_others(mf_replicas *r, const mf_loop_call *call)
{
    pthread_mutex_lock(&r->lock);
    r->call = call;
    for (int i = 1; i < r->n; i++)
        r->list[i].busy = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* The first failure counts. */
static mf_status replicas_await_others(mf_replicas *r, mf_status own)
{
    mf_error first;

    pthread_mutex_lock(&r->lock);
    for (int i = 1; i < r->n; i++) {
        while (r->list[i].busy)
            pthread_cond_wait(&r->changed, &r->lock);
    }
    first = r->first_error;
    pthread_mutex_unlock(&r->lock);
    return own != MF_OK || first.status == MF_OK ? own : mf_error_restore(&first);
}

mf_status mf_replicas_run(mf_replicas *r, const mf_run_options *options, const mf_loop_call *call)
{
    mf_loop_call own = *call;
    mf_error why = { 0 };
    mf_status st;

    for (int i = 0; i < r->n; i++)
        replicas_cut(&r->list[i], call);
    own.feeds = r->list[0].feeds;
    start_others(r, call);
    st = mf_trainer_call(r->o.trainer, options, &own);
    if (st != MF_OK) {
        mf_error_save(st, &why);
        replicas_give_up(&r->list[0], st);
    }
    st = replicas_await_others(r, st);
    if (st != MF_OK)
        return why.status != MF_OK ? mf_error_restore(&why) : st;
    note_writes(r);
    if (MF_PARAM(replica_check_steps) > 0 && r->step % MF_PARAM(replica_check_steps) == 0)
        return mf_replicas_compare(r);
    return MF_OK;
}

mf_status mf_replicas_begin_step(mf_replicas *r, int64_t step, int64_t samples, bool wants_stop)
{
    r->step = step;
    r->samples = samples;
    MF_TRY(replicas_follow(r));
    for (int i = 0; i < r->n; i++)
        MF_TRY(mf_gradient_allreduce_begin_step(r->list[i].sums, step, samples,
                                                wants_stop && i == 0 ? MF_STEP_FLAG_STOP : 0));
    return MF_OK;
}

bool mf_replicas_wants_stop(mf_replicas *r)
{
    return mf_gradient_allreduce_step_flags(r->list[0].sums) & MF_STEP_FLAG_STOP;
}

/* ---- making and freeing ---- */

static mf_status replicas_add_variables(replicas_replica *p)
{
    const mf_trainer *t = p->all->o.trainer;

    p->variables = mf_calloc(t->n_trained, sizeof *p->variables);
    if (!p->variables)
        return MF_NOMEM("replicas");
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_variable *v = t->trained[i].variable;
        mf_variable_spec spec = { v->dtype, &v->declared, v->name };
        mf_object *object;

        MF_TRY(mf_resources_get(p->resources, "", t->trained[i].name, &mf_variable_type,
                                mf_variable_make, &spec, &object));
        p->variables[i] = (mf_variable *)object;
    }
    return MF_OK;
}

/* With its own variables a replica runs the trainer's fetches. Otherwise it fetches all outputs of
 * its shards and ignores the results. */
static mf_status replicas_name_fetches(replicas_replica *p)
{
    const mf_trainer *t = p->all->o.trainer;
    const mf_node *map = t->graph.reports[0].of_step.node;

    if (!p->all->o.one_store) {
        p->fetches = t->step_names.fetches;
        p->n_fetches = t->step_names.n_fetches;
    } else {
        p->fetches = MF_ARENA_ARRAY(t->arena, const char *, map->n_outputs);
        p->n_fetches = map->n_outputs;
        for (int i = 0; p->fetches && i < map->n_outputs; i++) {
            p->fetches[i] = mf_arena_printf(t->arena, "%s:%d", map->name, i);
            if (!p->fetches[i])
                return MF_NOMEM("replicas");
        }
    }
    p->results = mf_calloc(p->n_fetches, sizeof *p->results);
    return p->fetches && p->results ? MF_OK : MF_NOMEM("replicas");
}

/* All replicas share the trainer's threads: their number does not change. */
static mf_status start_session(replicas_replica *p)
{
    mf_trainer *t = p->all->o.trainer;
    const mf_session_options session = { .disable = t->options.disable };

    if (!p->all->o.one_store) {
        MF_TRY(mf_resources_new(&p->resources));
        MF_TRY(replicas_add_variables(p));
    }
    MF_TRY(replicas_name_fetches(p));
    MF_TRY(mf_tensor_alloc(&p->clock, MF_DTYPE_I64, &MF_SHAPE(3)));
    MF_TRY(mf_session_new_shared(
        t->model->graph, &session,
        &(mf_session_shared){ t->pool, p->resources ? p->resources : t->resources, NULL },
        &p->session));
    if (mf_thread_start(&p->thread, replicas_serve, p) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no thread for %s", p->name);
    p->started = true;
    return MF_OK;
}

static mf_status add_replica(mf_replicas *r, int rank)
{
    replicas_replica *p = &r->list[rank];
    mf_trainer *t = r->o.trainer;
    const mf_group like = { .rank = rank,
                            .size = r->n,
                            .names = r->names,
                            .check = replicas_check,
                            .give_up = replicas_give_up,
                            .ctx = p };

    p->rows = mf_calloc(t->step_names.n_feeds, sizeof *p->rows);
    p->feeds = mf_calloc(t->step_names.n_feeds, sizeof *p->feeds);
    if (!p->rows || !p->feeds)
        return MF_NOMEM("replicas");
    MF_TRY(mf_group_shared(r->segment, &like, &p->group));
    MF_TRY(
        mf_gradient_allreduce_new(&(mf_gradient_allreduce_options){ .group = p->group,
                                                                    .shards = t->options.shards,
                                                                    .of = r->shares,
                                                                    .n_buckets = t->graph.n_buckets,
                                                                    .timeout_ns = INT64_MAX / 4,
                                                                    .aggregation = r->o.aggregation,
                                                                    .failed = replicas_give_up,
                                                                    .ctx = p },
                                  &p->sums));
    if (rank > 0)
        MF_TRY(start_session(p));
    mf_session_set_exchange(rank > 0 ? p->session : t->session,
                            mf_gradient_allreduce_exchange(p->sums));
    return MF_OK;
}

static mf_status replicas_init(mf_replicas *r)
{
    const mf_trainer *t = r->o.trainer;

    r->list = mf_calloc(r->n, sizeof *r->list);
    r->names = mf_calloc(r->n, sizeof *r->names);
    r->shares = mf_calloc(r->n, sizeof *r->shares);
    r->writes = mf_calloc(t->n_trained, sizeof *r->writes);
    if (!r->list || !r->names || !r->shares || !r->writes)
        return MF_NOMEM("replicas");
    for (int i = 0; i < r->n; i++) {
        const int64_t first = (int64_t)t->options.shards * i / r->n;
        replicas_replica *p = &r->list[i];

        r->shares[i] = (mf_share){ first, (int64_t)t->options.shards * (i + 1) / r->n - first };
        p->all = r;
        p->rank = i;
        (void)snprintf(p->name, sizeof p->name, "replica %d", i);
        r->names[i] = p->name;
    }
    MF_TRY(mf_segment_new(r->n, AREA, &r->segment));
    for (int i = 0; i < r->n; i++)
        MF_TRY(add_replica(r, i));
    for (int64_t i = 0; i < t->n_trained; i++)
        r->writes[i] = mf_variable_writes(t->trained[i].variable) - 1; /* to be copied */
    return MF_OK;
}

mf_status mf_replicas_new(const mf_replicas_options *o, mf_replicas **out)
{
    mf_replicas *r = mf_calloc(1, sizeof *r);
    mf_status st;

    *out = NULL;
    if (!r)
        return MF_NOMEM("replicas");
    r->o = *o;
    r->n = o->n;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    st = replicas_init(r);
    if (st == MF_OK) {
        *out = r;
        return MF_OK;
    }
    mf_error why;

    mf_error_save(st, &why);
    mf_session_set_exchange(o->trainer->session, NULL);
    mf_replicas_free(r);
    return mf_error_restore(&why);
}

static void replica_deinit(replicas_replica *p)
{
    if (p->started)
        pthread_join(p->thread, NULL);
    mf_session_free(p->session);
    mf_gradient_allreduce_free(p->sums);
    mf_group_free(p->group);
    for (int64_t i = 0; p->variables && i < p->all->o.trainer->n_trained; i++) {
        if (p->variables[i])
            mf_object_unref(&p->variables[i]->object);
    }
    mf_free(p->variables);
    mf_resources_free(p->resources);
    for (int i = 0; p->results && i < p->n_fetches; i++)
        mf_tensor_free(p->results[i]);
    mf_free(p->results);
    mf_tensor_clear(&p->clock);
    mf_free(p->rows);
    mf_free(p->feeds);
}

void mf_replicas_free(mf_replicas *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; r->list && i < r->n; i++)
        replica_deinit(&r->list[i]);
    mf_segment_free(r->segment);
    mf_free(r->list);
    mf_free(r->names);
    mf_free(r->shares);
    mf_free(r->writes);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    mf_free(r);
}
