/* SPDX-License-Identifier: Apache-2.0 */
/* assembly.c - see assembly.h. */
#include "base/cond.h"
#include "base/param.h"
#include "proto/master.pb-c.h"
#include "proto/wire.h"
#include "server/assembly_private.h"
#include "tensor/quota.h"

#include <string.h>

MF_PARAM_INT(server_groups, 10000, "groups, and their collectives, that a leader keeps");

enum { ARRIVAL_BYTES = 1024 };

/* ---- assemblies; with the lock ---- */

void mf_assembly_unref(mf_assembly *a)
{
    if (--a->refs > 0)
        return;
    mf_quota_give_back(a->kept);
    mf_arena_free(a->arena);
    mf_free(a->key);
    mf_free(a->title);
    mf_free(a);
}

static mf_status assembly_new(mf_assemblies *m, const mf_coming *c, mf_assembly **out)
{
    mf_assembly *a;

    *out = NULL;
    if (m->all.count >= MF_PARAM(server_groups))
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "%lld groups and their collectives are kept already: use fewer keys, or "
                       "raise server_groups",
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
        mf_assembly_unref(a);
        return MF_NOMEM("a group");
    }
    *out = a;
    return MF_OK;
}

const mf_assembly *mf_assemblies_find(const mf_assemblies *m, const char *key)
{
    const mf_assembly *a = mf_map_find(&m->all, key);

    return a && a->answer ? a : NULL;
}

const mf_arrival *mf_assembly_find(const mf_assembly *a, const char *device)
{
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->all[i].device, device) == 0)
            return &a->all[i];
    }
    return NULL;
}

void mf_assembly_names(const mf_assembly *a, mf_buf *out)
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

/* Again, perhaps: then it may be another process. */
static mf_status arrive(mf_assembly *a, const mf_coming *c)
{
    mf_arrival *known = (mf_arrival *)(uintptr_t)mf_assembly_find(a, c->who.device);
    mf_arrival new = { .device = mf_arena_strdup(a->arena, c->who.device),
                       .incarnation = c->who.incarnation,
                       .is_source = c->who.is_source };

    if (!new.device)
        return MF_NOMEM("a group");
    MF_TRY(mf_quota_take(ARRIVAL_BYTES));
    a->kept += ARRIVAL_BYTES;
    if (c->who.attributes)
        MF_TRY(copy_attributes(c->who.attributes, a->arena, &new.attributes));
    if (!known)
        known = &a->all[a->n++];
    *known = new;
    return MF_OK;
}

/* With the lock: nobody finds it any more. */
void mf_assembly_forget(mf_assemblies *m, mf_assembly *a)
{
    if (mf_map_find(&m->all, a->key) != a)
        return;
    (void)mf_map_remove(&m->all, a->key);
    mf_assembly_unref(a);
}

void mf_assemblies_forget(mf_assemblies *m, const char *key, bool all)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&m->all, &it)) != NULL) {
        mf_assembly *a = e->value;

        if (a->answer && strncmp(a->key, key, strlen(key)) == 0 && (all || !a->key[strlen(key)]))
            mf_assembly_forget(m, a);
    }
}

/* ---- coming ---- */

static mf_status differ(const mf_assembly *a, const mf_coming *c)
{
    const bool detail = strcmp(a->what, c->what) == 0;

    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s: its members must do the same, but %s comes with %s%s%s, %s with %s%s%s",
                   a->title, c->who.device, c->what, detail ? " " : "", detail ? c->detail : "",
                   a->all[0].device, a->what, detail ? " " : "", detail ? a->detail : "");
}

static bool means_the_same(const mf_assembly *a, const mf_coming *c)
{
    return a->size == c->size && strcmp(a->what, c->what) == 0;
}

/* It is complete: is whoever comes one of those? */
static mf_status check_known(const mf_assembly *a, const mf_coming *c, bool *anew)
{
    const mf_arrival *known = mf_assembly_find(a, c->who.device);
    mf_buf names = { 0 };

    *anew = !means_the_same(a, c) || (known && (known->incarnation != c->who.incarnation ||
                                                known->is_source != c->who.is_source));
    if (*anew || known)
        return MF_OK;
    mf_assembly_names(a, &names);
    (void)MF_FAIL(MF_INVALID_ARGUMENT, "%s is of %s: %s is not in it, and needs another group_key",
                  a->title, names.data ? names.data : "others", c->who.device);
    mf_buf_deinit(&names);
    return MF_INVALID_ARGUMENT;
}

/* Where it belongs; *failed: an assembly that ends so, to be released. With the lock. */
static mf_status find_place(mf_assemblies *m, const mf_coming *c, mf_assembly **out,
                            mf_assembly **failed)
{
    mf_assembly *a = mf_map_find(&m->all, c->key);
    bool anew = false;
    mf_status st = MF_OK;

    if (a && a->answer)
        st = check_known(a, c, &anew);
    else if (a && (!means_the_same(a, c) || strcmp(a->detail, c->detail) != 0))
        st = differ(a, c);
    if (st != MF_OK) {
        a->refs++;
        *failed = a;
        mf_assembly_forget(m, a);
        return st;
    }
    if (a && anew)
        mf_assembly_forget(m, a);
    *out = a && !anew ? a : NULL;
    return *out ? MF_OK : assembly_new(m, c, out);
}

/* With the lock. */
static mf_status join(mf_assemblies *m, const mf_coming *c, mf_assembly *a, mf_assembly **failed)
{
    mf_status st = a->answer ? MF_OK : arrive(a, c);

    if (st == MF_OK && !a->answer && a->n == a->size)
        st = c->complete(m, a);
    if (st == MF_OK)
        st = mf_waiters_watch(m);
    if (st != MF_OK) {
        a->refs++;
        *failed = a;
        mf_assembly_forget(m, a);
    }
    return st;
}

static void release(mf_assemblies *m, mf_assembly *a)
{
    pthread_mutex_lock(&m->lock);
    mf_assembly_unref(a);
    pthread_mutex_unlock(&m->lock);
}

void mf_assemblies_come(mf_assemblies *m, const mf_coming *c)
{
    mf_waiter *w = mf_calloc(1, sizeof *w);
    mf_assembly *a = NULL, *failed = NULL;
    mf_status st = w ? MF_OK : MF_NOMEM("a group");
    bool complete = false;

    pthread_mutex_lock(&m->lock);
    if (st == MF_OK)
        st = find_place(m, c, &a, &failed);
    if (st == MF_OK)
        st = join(m, c, a, &failed);
    if (st == MF_OK) {
        a->refs++; /* ours */
        complete = a->answer != NULL;
        mf_waiter_line_up(w, m, a, c);
    }
    pthread_mutex_unlock(&m->lock);
    if (st != MF_OK) {
        mf_free(w);
        if (failed) {
            mf_waiters_end(m, failed, st);
            release(m, failed);
        }
        c->done(c->ctx, st, NULL);
        return;
    }
    mf_waiter_begin(w);
    if (complete)
        mf_waiters_end(m, a, MF_OK);
    release(m, a);
}

/* ---- opening and closing ---- */

void mf_assemblies_init(mf_assemblies *m)
{
    *m = (mf_assemblies){ 0 };
    pthread_mutex_init(&m->lock, NULL);
    mf_cond_init(&m->changed);
}

void mf_assemblies_deinit(mf_assemblies *m)
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
        mf_assembly_unref(e->value);
    mf_map_deinit(&m->all);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}
