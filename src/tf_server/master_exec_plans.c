/* SPDX-License-Identifier: Apache-2.0 */
/* master_exec_plans.c - an LRU cache of a session's execution plans: made at the first step of a
 * run and used by all its steps. */
#include "base/param.h"
#include "tf_server/master.h"

#include <string.h>

MF_PARAM_INT(server_exec_plans, 500,
             "maximum number of execution plans cached by a session; "
             "the least recently used is dropped");

/* ---- the current graph; the caller holds the session's lock ---- */

mf_placed *mf_placed_ref(mf_placed *p)
{
    p->refs++;
    return p;
}

void mf_placed_unref(mf_placed *p)
{
    if (!p || --p->refs > 0)
        return;
    mf_graph_free(p->graph);
    mf_free(p->task);
    mf_free(p);
}

/* ---- cache ---- */

/* Names come from clients and may contain anything, so each has its length. */
static void master_exec_plans_add_names(const char *kind, const char *const *names, int n,
                                        mf_buf *out)
{
    mf_buf_str(out, kind);
    for (int i = 0; i < n; i++)
        mf_buf_printf(out, "%zu:%s", strlen(names[i]), names[i]);
}

static mf_status master_exec_plans_key_of(const mf_run_names *n, mf_buf *out)
{
    master_exec_plans_add_names("feeds ", n->feeds, n->n_feeds, out);
    master_exec_plans_add_names(" fetches ", n->fetches, n->n_fetches, out);
    master_exec_plans_add_names(" targets ", n->targets, n->n_targets, out);
    return mf_buf_finish(out);
}

/* Removes it from the map. NULL: nothing. */
static void master_exec_plans_forget(mf_client_session *s, mf_cached_plan *k)
{
    if (!k)
        return;
    if (k->plan)
        mf_exec_plan_free(k->plan, &s->workers, s->handle);
    mf_free(k->key);
    mf_free(k);
}

/* If the cache is full, the least recently used plan that is not in use. If all are in use, the
 * cache may grow. The caller holds the session's lock. */
static mf_cached_plan *take_spare(mf_client_session *s)
{
    mf_cached_plan *oldest = NULL;
    mf_map_entry *e;
    int64_t it = 0;

    if (s->plans.count <= MF_PARAM(server_exec_plans))
        return NULL;
    while ((e = mf_map_next(&s->plans, &it)) != NULL) {
        mf_cached_plan *k = e->value;

        if (k->users == 0 && (!oldest || k->used_at < oldest->used_at))
            oldest = k;
    }
    if (oldest)
        (void)mf_map_remove(&s->plans, oldest->key);
    return oldest;
}

/* ---- make ---- */

/* Adds an entry before the plan is made, so that it is made once. The caller holds the session's
 * lock. */
static mf_status announce(mf_client_session *s, const char *key, mf_cached_plan **out)
{
    mf_cached_plan *k = mf_calloc(1, sizeof *k);

    *out = k;
    if (k)
        k->key = mf_strdup(key);
    if (k && k->key && mf_map_set(&s->plans, k->key, k) == MF_OK) {
        k->users = 1;
        return MF_OK;
    }
    master_exec_plans_forget(s, k);
    return MF_NOMEM("a graph");
}

mf_status mf_client_session_make_plan(mf_client_session *s, const mf_run_names *names,
                                      mf_cancel *cancel, bool gradual, mf_exec_plan **out)
{
    mf_placed *placed = mf_placed_ref(s->placed);
    const mf_exec_plan_options o = { .graph = placed->graph,
                                     .task = placed->task,
                                     .workers = &s->workers,
                                     .session = s->handle,
                                     .resources = s->resources,
                                     .node_state = s->node_state,
                                     .cancel = cancel,
                                     .gradual = gradual,
                                     .leader = s->leader };
    mf_status st;

    pthread_mutex_unlock(&s->extending);
    st = mf_exec_plan_make(names, &o, out);
    pthread_mutex_lock(&s->extending);
    mf_placed_unref(placed);
    return st;
}

/* The caller holds the session's lock. */
static mf_status master_exec_plans_make(mf_client_session *s, const mf_run_names *names,
                                        const char *key, mf_cancel *cancel, mf_cached_plan **out)
{
    mf_exec_plan *plan;
    mf_cached_plan *k;
    mf_error why;
    mf_status st;

    MF_TRY(announce(s, key, &k));
    st = mf_client_session_make_plan(s, names, cancel, false, &plan);
    k->plan = plan; /* the lock is held again */
    pthread_cond_broadcast(&s->plan_ready);
    if (st == MF_OK) {
        *out = k;
        return MF_OK;
    }
    mf_error_save(st, &why);
    (void)mf_map_remove(&s->plans, k->key);
    master_exec_plans_forget(s, k);
    return mf_error_restore(&why);
}

/* ---- find ---- */

/* NULL: not there, or not ready. The caller holds the session's lock. */
static mf_cached_plan *find_made(const mf_client_session *s, const char *key)
{
    mf_cached_plan *k = mf_map_find(&s->plans, key);

    if (!k || !k->plan)
        return NULL;
    k->users++;
    return k;
}

/* Wakes a run that waits for a plan in progress. */
typedef struct waker {
    mf_cancel_hook hook; /* first */
    mf_client_session *session;
} waker;

static void master_exec_plans_wake(mf_cancel_hook *hook)
{
    mf_client_session *s = ((waker *)(void *)hook)->session;

    pthread_mutex_lock(&s->extending);
    pthread_cond_broadcast(&s->plan_ready);
    pthread_mutex_unlock(&s->extending);
}

static mf_status await_or_make(mf_client_session *s, const mf_run_names *names, const char *key,
                               mf_cancel *cancel, mf_cached_plan **out)
{
    waker w = { .hook.fn = master_exec_plans_wake, .session = s };
    const bool hooked = mf_cancel_add(cancel, &w.hook);
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->extending);
    while ((*out = find_made(s, key)) == NULL && mf_map_find(&s->plans, key) &&
           !mf_cancel_is_raised(cancel))
        pthread_cond_wait(&s->plan_ready, &s->extending);
    if (!*out)
        st = mf_cancel_is_raised(cancel) ? MF_FAIL(MF_CANCELLED, "the step was cancelled")
                                         : master_exec_plans_make(s, names, key, cancel, out);
    pthread_mutex_unlock(&s->extending);
    if (hooked)
        (void)mf_cancel_remove(cancel, &w.hook);
    return st;
}

mf_status mf_client_session_plan(mf_client_session *s, const mf_run_names *names, mf_cancel *cancel,
                                 mf_cached_plan **out)
{
    mf_cached_plan *spare = NULL;
    mf_buf key = { 0 };
    mf_status st = master_exec_plans_key_of(names, &key);

    *out = NULL;
    if (st == MF_OK) {
        pthread_mutex_lock(&s->extending);
        *out = find_made(s, key.data);
        pthread_mutex_unlock(&s->extending);
    }
    if (st == MF_OK && !*out)
        st = await_or_make(s, names, key.data, cancel, out);
    if (st == MF_OK) {
        pthread_mutex_lock(&s->extending);
        (*out)->used_at = ++s->layout_clock;
        spare = take_spare(s);
        pthread_mutex_unlock(&s->extending);
        master_exec_plans_forget(s, spare);
    }
    mf_buf_deinit(&key);
    return st;
}

void mf_client_session_release_plan(mf_client_session *s, mf_cached_plan *k)
{
    mf_cached_plan *spare;

    if (!k)
        return;
    pthread_mutex_lock(&s->extending);
    k->users--;
    spare = take_spare(s);
    pthread_mutex_unlock(&s->extending);
    master_exec_plans_forget(s, spare);
}

void mf_client_session_free_plans(mf_client_session *s)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&s->plans, &it)) != NULL)
        master_exec_plans_forget(s, e->value);
    mf_map_deinit(&s->plans);
}
