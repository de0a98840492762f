/* SPDX-License-Identifier: Apache-2.0 */
/* store_memory.c - a store of this process, identified by its name, that exists while it is open.
 * Its clock may be a simulator's: everything that depends on time happens in calls. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "cluster/store/store_state.h"

#include <stdatomic.h>
#include <string.h>

/* A foreign clock wakes no waiter: it is read this often. */
static const int64_t LOOK_NS = 1000000;

typedef struct lease {
    int64_t id, ttl_ns, until_ns;
} lease;

typedef struct shared {
    char *name;
    int refs; /* guarded by all_lock, as is next */
    struct shared *next;
    int64_t (*now)(void *arg);
    void *now_arg;
    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t changed;
    mf_store_state state;
    lease *leases;
    int64_t cap_leases, last_lease;
    int n_leases;
} shared;

typedef struct memory {
    mf_store base;
    shared *of;
    atomic_bool cancelled;
} memory;

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static shared *all; /* guarded by all_lock */

/* ---- opening and closing ---- */

static int64_t real_now(void *arg)
{
    (void)arg;
    return mf_clock_ns();
}

static shared *make_shared(const char *name, const mf_store_options *o)
{
    shared *s = mf_calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->name = mf_strdup(name);
    if (!s->name) {
        mf_free(s);
        return NULL;
    }
    s->now = o->now ? o->now : real_now;
    s->now_arg = o->now_arg;
    pthread_mutex_init(&s->lock, NULL);
    mf_cond_init(&s->changed);
    s->next = all;
    all = s;
    return s;
}

static mf_status memory_open(const char *name, const mf_store_options *o, mf_store **out)
{
    memory *m = mf_calloc(1, sizeof *m);
    shared *s;

    if (!m)
        return MF_NOMEM("a store");
    pthread_mutex_lock(&all_lock);
    for (s = all; s && strcmp(s->name, name) != 0;)
        s = s->next;
    if (!s)
        s = make_shared(name, o);
    if (s)
        s->refs++;
    pthread_mutex_unlock(&all_lock);
    if (!s) {
        mf_free(m);
        return MF_NOMEM("a store");
    }
    m->base.kind = &mf_store_memory;
    m->of = s;
    *out = &m->base;
    return MF_OK;
}

static void free_shared(shared *s)
{
    mf_store_state_deinit(&s->state);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mf_free(s->leases);
    mf_free(s->name);
    mf_free(s);
}

static void memory_close(mf_store *base)
{
    memory *m = (memory *)base;
    shared *s = m->of;
    bool last;

    pthread_mutex_lock(&all_lock);
    last = --s->refs == 0;
    for (shared **at = &all; last; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    pthread_mutex_unlock(&all_lock);
    if (last)
        free_shared(s);
    mf_free(m);
}

/* ---- leases ---- */

static lease *find_lease(shared *s, int64_t id)
{
    for (int i = 0; i < s->n_leases; i++) {
        if (s->leases[i].id == id)
            return &s->leases[i];
    }
    return NULL;
}

static mf_status need_lease(shared *s, int64_t id, lease **out)
{
    *out = find_lease(s, id);
    return *out ? MF_OK : MF_FAIL(MF_FAILED_PRECONDITION, "lease %lld has ended", (long long)id);
}

static void store_memory_end_lease(shared *s, lease *l)
{
    if (mf_store_state_end_lease(&s->state, l->id))
        pthread_cond_broadcast(&s->changed);
    *l = s->leases[--s->n_leases];
}

/* Begin a call: take the lock, and end expired leases. */
static shared *store_memory_enter(mf_store *base)
{
    shared *s = ((memory *)base)->of;
    int64_t now;

    pthread_mutex_lock(&s->lock);
    now = s->now(s->now_arg);
    for (int i = s->n_leases - 1; i >= 0; i--) {
        if (s->leases[i].until_ns <= now)
            store_memory_end_lease(s, &s->leases[i]);
    }
    return s;
}

static mf_status store_memory_leave(shared *s, mf_status st)
{
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status memory_lease_grant(mf_store *base, int64_t ttl_ns, int64_t *out)
{
    shared *s = store_memory_enter(base);
    const mf_status st = mf_grow(&s->leases, &s->cap_leases, s->n_leases + 1, sizeof *s->leases);

    if (st == MF_OK) {
        *out = ++s->last_lease;
        s->leases[s->n_leases++] = (lease){ *out, ttl_ns, s->now(s->now_arg) + ttl_ns };
    }
    return store_memory_leave(s, st);
}

static mf_status memory_lease_keep(mf_store *base, int64_t id)
{
    shared *s = store_memory_enter(base);
    lease *l;
    const mf_status st = need_lease(s, id, &l);

    if (st == MF_OK)
        l->until_ns = s->now(s->now_arg) + l->ttl_ns;
    return store_memory_leave(s, st);
}

static mf_status memory_lease_end(mf_store *base, int64_t id)
{
    shared *s = store_memory_enter(base);
    lease *l = find_lease(s, id);

    if (l)
        store_memory_end_lease(s, l);
    return store_memory_leave(s, MF_OK);
}

/* ---- values ---- */

static mf_status memory_get(mf_store *base, const char *key, mf_store_entry *out, int64_t *revision)
{
    shared *s = store_memory_enter(base);

    return store_memory_leave(s, mf_store_state_get(&s->state, key, out, revision));
}

static mf_status memory_list(mf_store *base, const char *prefix, mf_store_entries *out)
{
    shared *s = store_memory_enter(base);

    return store_memory_leave(s, mf_store_state_list(&s->state, prefix, out));
}

static mf_status memory_put(mf_store *base, const mf_store_entry *e, int64_t expected,
                            int64_t *version)
{
    shared *s = store_memory_enter(base);
    mf_status st = MF_OK;
    lease *l;

    if (e->lease != 0)
        st = need_lease(s, e->lease, &l);
    if (st == MF_OK)
        st = mf_store_state_put(&s->state, e, expected);
    if (st == MF_OK) {
        *version = s->state.all.revision;
        pthread_cond_broadcast(&s->changed);
    }
    return store_memory_leave(s, st);
}

static mf_status memory_remove(mf_store *base, const char *key, int64_t expected)
{
    shared *s = store_memory_enter(base);
    const mf_status st = mf_store_state_remove(&s->state, key, expected);

    if (st == MF_OK)
        pthread_cond_broadcast(&s->changed);
    return store_memory_leave(s, st);
}

/* ---- waiting ---- */

/* When to read again, by the real clock. */
static int64_t store_memory_next_look(const shared *s, int64_t deadline_ns)
{
    if (s->now != real_now)
        return mf_clock_ns() + LOOK_NS;
    for (int i = 0; i < s->n_leases; i++) {
        if (s->leases[i].until_ns < deadline_ns)
            deadline_ns = s->leases[i].until_ns;
    }
    return deadline_ns;
}

static mf_status memory_wait(mf_store *base, const char *prefix, int64_t after, int64_t deadline_ns)
{
    const memory *m = (memory *)base;

    for (;;) {
        shared *s = store_memory_enter(base);

        if (mf_store_state_changed(&s->state, prefix, after))
            return store_memory_leave(s, MF_OK);
        if (atomic_load(&m->cancelled))
            return store_memory_leave(s,
                                      MF_FAIL(MF_CANCELLED, "waiting for the store was cancelled"));
        if (s->now(s->now_arg) >= deadline_ns)
            return store_memory_leave(
                s, MF_FAIL(MF_DEADLINE_EXCEEDED, "no change below '%s'", prefix));
        (void)mf_cond_wait_until(&s->changed, &s->lock, store_memory_next_look(s, deadline_ns));
        (void)store_memory_leave(s, MF_OK);
    }
}

static void memory_cancel(mf_store *base)
{
    memory *m = (memory *)base;

    atomic_store(&m->cancelled, true);
    pthread_mutex_lock(&m->of->lock);
    pthread_cond_broadcast(&m->of->changed);
    pthread_mutex_unlock(&m->of->lock);
}

const mf_store_kind mf_store_memory = {
    .name = "memory",
    .open = memory_open,
    .get = memory_get,
    .list = memory_list,
    .put = memory_put,
    .remove = memory_remove,
    .lease_grant = memory_lease_grant,
    .lease_keep = memory_lease_keep,
    .lease_end = memory_lease_end,
    .wait = memory_wait,
    .cancel = memory_cancel,
    .close = memory_close,
};
