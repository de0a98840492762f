/* SPDX-License-Identifier: Apache-2.0 */
/* group_barrier.c - barriers at which the members of a collective group wait for each other. */
#include "base/cond.h"
#include "base/param.h"
#include "base/quota.h"
#include "proto/master.pb-c.h"
#include "proto/wire.h"
#include "tf_server/group_barrier_private.h"

#include <string.h>

MF_PARAM_INT(server_groups, 10000, "maximum number of groups and collectives of a leader");

enum { ASSEMBLY_BYTES = 4096 }; /* size of an empty one */

/* ---- barriers; the caller holds the lock ---- */

void mf_group_barrier_unref(mf_group_barrier *a)
{
    if (--a->refs > 0)
        return;
    mf_quota_give_back(a->charged);
    mf_arena_free(a->arena);
    mf_free(a->key);
    mf_free(a->title);
    mf_free(a);
}

void mf_group_barrier_release(mf_group_barriers *m, mf_group_barrier *a)
{
    pthread_mutex_lock(&m->lock);
    mf_group_barrier_unref(a);
    pthread_mutex_unlock(&m->lock);
}

static mf_status assembly_new(mf_group_barriers *m, const mf_barrier_request *c,
                              mf_group_barrier **out)
{
    mf_group_barrier *a;

    *out = NULL;
    if (m->all.count >= MF_PARAM(server_groups))
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "%lld groups and collectives exist already: use fewer keys, or raise "
                       "server_groups",
                       (long long)m->all.count);
    a = mf_calloc(1, sizeof *a);
    if (!a)
        return MF_NOMEM("a group");
    a->refs = 1;
    a->size = c->size;
    a->key = mf_strdup(c->key);
    a->title = mf_strdup(c->title);
    a->arena = mf_arena_new();
    if (a->arena) {
        a->what = mf_arena_strdup(a->arena, c->what);
        a->detail = mf_arena_strdup(a->arena, c->detail);
        a->all = MF_ARENA_ARRAY(a->arena, mf_arrival, c->size);
    }
    if (!a->key || !a->title || !a->arena || !a->what || !a->detail || !a->all ||
        mf_map_set(&m->all, a->key, a) != MF_OK) {
        mf_group_barrier_unref(a);
        return MF_NOMEM("a group");
    }
    *out = a;
    return MF_OK;
}

const mf_group_barrier *mf_group_barriers_find(const mf_group_barriers *m, const char *key)
{
    const mf_group_barrier *a = mf_map_find(&m->all, key);

    return a && a->answer ? a : NULL;
}

const mf_arrival *mf_group_barrier_find(const mf_group_barrier *a, const char *device)
{
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->all[i].device, device) == 0)
            return &a->all[i];
    }
    return NULL;
}

void mf_group_barrier_names(const mf_group_barrier *a, mf_buf *out)
{
    for (int i = 0; i < a->n && i < 8; i++)
        mf_buf_printf(out, "%s%s", i == 0 ? "" : ", ", a->all[i].device);
    if (a->n > 8)
        mf_buf_str(out, ", ...");
}

static mf_status copy_attributes(const Tensorflow__DeviceAttributes *from, mf_arena *arena,
                                 Tensorflow__DeviceAttributes **out)
{
    ProtobufCMessage *copy = NULL;
    mf_buf bytes = { 0 };
    mf_status st = mf_wire_encode(&from->base, &bytes);

    if (st == MF_OK)
        st = mf_wire_decode(&tensorflow__device_attributes__descriptor, bytes.data, bytes.len, NULL,
                            arena, &copy);
    mf_buf_deinit(&bytes);
    *out = (Tensorflow__DeviceAttributes *)copy;
    return st;
}

/* A member may arrive again, as a new process. */
static mf_status group_barrier_arrive(mf_group_barrier *a, const mf_barrier_request *c)
{
    mf_arrival *known = (mf_arrival *)(uintptr_t)mf_group_barrier_find(a, c->who.device);
    mf_arrival new = { .device = mf_arena_strdup(a->arena, c->who.device),
                       .incarnation = c->who.incarnation,
                       .is_source = c->who.is_source };

    if (!new.device)
        return MF_NOMEM("a group");
    if (c->who.attributes)
        MF_TRY(copy_attributes(c->who.attributes, a->arena, &new.attributes));
    if (!known)
        known = &a->all[a->n++];
    *known = new;
    return MF_OK;
}

/* Data sent by members is charged to the memory quota. */
static mf_status group_barrier_charge(mf_group_barrier *a)
{
    const int64_t now = ASSEMBLY_BYTES + (int64_t)mf_arena_used(a->arena);

    MF_TRY(mf_quota_take(now - a->charged));
    a->charged = now;
    return MF_OK;
}

void mf_group_barrier_forget(mf_group_barriers *m, mf_group_barrier *a)
{
    if (mf_map_find(&m->all, a->key) != a)
        return;
    (void)mf_map_remove(&m->all, a->key);
    mf_group_barrier_unref(a);
}

/* ---- removed barriers ---- */

/* Removes the barrier from the map; its waiters are notified later. The caller holds the lock. */
static void group_barrier_unlink(mf_group_barriers *m, mf_group_barrier *a, mf_group_barrier **over)
{
    (void)mf_map_remove(&m->all, a->key);
    a->next = *over; /* takes over the map's reference */
    *over = a;
}

static bool is_under(const char *key, const char *upper)
{
    const size_t n = strlen(upper);

    return strncmp(key, upper, n) == 0 && key[n] == ':';
}

/* Removes a complete barrier; its incomplete subordinate barriers are added to *over. The caller
 * holds the lock. */
static void invalidate_barrier(mf_group_barriers *m, mf_group_barrier *upper,
                               mf_group_barrier **over)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&m->all, &it)) != NULL) {
        mf_group_barrier *a = e->value;

        if (!is_under(a->key, upper->key))
            continue;
        if (a->answer)
            mf_group_barrier_forget(m, a);
        else
            group_barrier_unlink(m, a, over);
    }
    mf_group_barrier_forget(m, upper);
}

/* Notifies the waiters. The caller does not hold the lock. */
static void group_barrier_end_all(mf_group_barriers *m, mf_group_barrier *over)
{
    while (over) {
        mf_group_barrier *a = over;

        over = a->next;
        mf_barrier_waiters_end(m, a,
                               MF_FAIL(MF_ABORTED,
                                       "%s: its group is formed again; a member may have been "
                                       "restarted",
                                       a->title));
        mf_group_barrier_release(m, a);
    }
}

void mf_group_barriers_invalidate(mf_group_barriers *m, const char *key, const char *device,
                                  uint64_t incarnation)
{
    const mf_arrival *member = NULL;
    mf_group_barrier *a, *over = NULL;

    pthread_mutex_lock(&m->lock);
    a = mf_map_find(&m->all, key);
    if (a && a->answer)
        member = mf_group_barrier_find(a, device);
    if (member && member->incarnation == incarnation)
        invalidate_barrier(m, a, &over);
    pthread_mutex_unlock(&m->lock);
    group_barrier_end_all(m, over);
}

/* ---- arrival ---- */

static mf_status group_barrier_differ(const mf_group_barrier *a, const mf_barrier_request *c)
{
    const bool detail = strcmp(a->what, c->what) == 0;

    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s: members must agree, but %s has %s%s%s and %s has %s%s%s", a->title,
                   c->who.device, c->what, detail ? " " : "", detail ? c->detail : "",
                   a->all[0].device, a->what, detail ? " " : "", detail ? a->detail : "");
}

static bool means_the_same(const mf_group_barrier *a, const mf_barrier_request *c)
{
    return a->size == c->size && strcmp(a->what, c->what) == 0;
}

/* The barrier is complete: checks that the caller is a member. */
static mf_status check_known(const mf_group_barrier *a, const mf_barrier_request *c, bool *anew)
{
    const mf_arrival *known = mf_group_barrier_find(a, c->who.device);
    mf_buf names = { 0 };

    *anew = !means_the_same(a, c) || (known && (known->incarnation != c->who.incarnation ||
                                                known->is_source != c->who.is_source));
    if (*anew || known)
        return MF_OK;
    mf_group_barrier_names(a, &names);
    (void)MF_FAIL(MF_INVALID_ARGUMENT,
                  "%s consists of %s: %s is not a member and needs another "
                  "group_key",
                  a->title, names.data ? names.data : "others", c->who.device);
    mf_buf_deinit(&names);
    return MF_INVALID_ARGUMENT;
}

/* Barriers whose waiters are notified without the lock. */
typedef struct barrier_events {
    mf_group_barrier *failed; /* including the arriving member, which fails for the same reason;
                                 NULL: none */
    mf_group_barrier *over;
} barrier_events;

/* Finds or creates the barrier. The caller holds the lock. */
static mf_status group_barrier_find_place(mf_group_barriers *m, const mf_barrier_request *c,
                                          mf_group_barrier **out, barrier_events *then)
{
    mf_group_barrier *a = mf_map_find(&m->all, c->key);
    bool anew = false;

    if (a && a->answer) {
        MF_TRY(check_known(a, c, &anew));
    } else if (a && (!means_the_same(a, c) || strcmp(a->detail, c->detail) != 0)) {
        const mf_status st = group_barrier_differ(a, c);

        group_barrier_unlink(m, a, &then->failed);
        return st;
    }
    if (anew)
        invalidate_barrier(m, a, &then->over);
    *out = a && !anew ? a : NULL;
    return *out ? MF_OK : assembly_new(m, c, out);
}

/* The caller holds the lock. */
static mf_status group_barrier_join(mf_group_barriers *m, const mf_barrier_request *c,
                                    mf_group_barrier *a, barrier_events *then)
{
    mf_status st;

    if (a->answer)
        return MF_OK;
    st = mf_barrier_waiters_watch(m);
    if (st == MF_OK)
        st = group_barrier_arrive(a, c);
    if (st == MF_OK && a->n == a->size)
        st = c->complete(m, a);
    if (st == MF_OK)
        st = group_barrier_charge(a);
    if (st != MF_OK) {
        a->answer = NULL;
        group_barrier_unlink(m, a, &then->failed);
    }
    return st;
}

/* *out: the barrier at which w waits, with a reference. */
static mf_status group_barrier_enqueue(mf_group_barriers *m, mf_barrier_request *c,
                                       mf_barrier_waiter *w, mf_group_barrier **out, bool *complete,
                                       barrier_events *then)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&m->lock);
    if (c->admit)
        st = c->admit(m, c);
    if (st == MF_OK)
        st = group_barrier_find_place(m, c, out, then);
    if (st == MF_OK)
        st = group_barrier_join(m, c, *out, then);
    if (st == MF_OK) {
        (*out)->refs++;
        *complete = (*out)->answer != NULL;
        mf_barrier_waiter_enqueue(w, m, *out, c);
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

void mf_group_barriers_arrive(mf_group_barriers *m, mf_barrier_request *c)
{
    mf_barrier_waiter *w = mf_calloc(1, sizeof *w);
    barrier_events then = { 0 };
    mf_group_barrier *a = NULL;
    bool complete = false;
    mf_status st = w ? group_barrier_enqueue(m, c, w, &a, &complete, &then) : MF_NOMEM("a group");

    if (st != MF_OK) {
        mf_free(w);
        if (then.failed) {
            mf_barrier_waiters_end(m, then.failed, st);
            mf_group_barrier_release(m, then.failed);
        }
        c->done(c->ctx, st, NULL);
    } else {
        mf_barrier_waiter_begin(w);
        if (complete)
            mf_barrier_waiters_end(m, a, MF_OK);
        mf_group_barrier_release(m, a);
    }
    group_barrier_end_all(m, then.over);
}

/* ---- opening and closing ---- */

void mf_group_barriers_init(mf_group_barriers *m)
{
    *m = (mf_group_barriers){ 0 };
    pthread_mutex_init(&m->lock, NULL);
    mf_cond_init(&m->changed);
}

void mf_group_barriers_deinit(mf_group_barriers *m)
{
    mf_map_entry *e;
    int64_t it = 0;

    pthread_mutex_lock(&m->lock);
    m->ends = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->watches)
        (void)pthread_join(m->watch, NULL);
    while ((e = mf_map_next(&m->all, &it)) != NULL)
        mf_group_barrier_unref(e->value);
    mf_map_deinit(&m->all);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}
