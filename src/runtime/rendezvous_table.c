/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_table.c - the table of sent values and waiting receivers of a step. */
#include "runtime/rendezvous_table.h"

#include "base/cond.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "graph/resource.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OVER_MAX = 1024 }; /* number of ended steps that are remembered */

typedef struct rendezvous_table_fetch rendezvous_table_fetch;

/* The state of a key: a value, or the fetches that wait for it. */
typedef struct rendezvous_table_place {
    char *key;
    bool sent, is_ref; /* is_ref: value is the handle of a variable */
    mf_tensor value; /* empty: dead */
    rendezvous_table_fetch *first, *last;
} rendezvous_table_place;

struct rendezvous_table_fetch {
    mf_waiter pending; /* must be the first field */
    mf_rendezvous_table *table;
    mf_fetched_fn *done;
    void *ctx;
    /* guarded by the table's lock: */
    rendezvous_table_place *at; /* the key it waits for; NULL: none */
    rendezvous_table_fetch *prev, *next;
};

struct mf_rendezvous_table {
    mf_rendezvous_tables *tables;
    char step[17];
    int refs; /* guarded by the lock of all tables */
    pthread_mutex_t lock; /* guards all fields below */
    mf_map places; /* by key */
    mf_error why; /* why the step ended */
};

struct mf_rendezvous_tables {
    pthread_mutex_t lock; /* guards all fields below */
    mf_map tables; /* by step */
    pthread_cond_t changed; /* a table was removed, or a waiter for that was cancelled */
    int64_t over[OVER_MAX]; /* ring buffer */
    int64_t n_over;
};

/* ---- keys; the caller holds the table's lock ---- */

static mf_status rendezvous_table_place_of(mf_rendezvous_table *table, const char *key,
                                           rendezvous_table_place **out)
{
    rendezvous_table_place *p = mf_map_find(&table->places, key);

    *out = p;
    if (p)
        return MF_OK;
    p = mf_calloc(1, sizeof *p);
    if (p)
        p->key = mf_strdup(key);
    if (!p || !p->key || mf_map_set(&table->places, p->key, p) != MF_OK) {
        if (p)
            mf_free(p->key);
        mf_free(p);
        return MF_NOMEM("a value between tasks");
    }
    *out = p;
    return MF_OK;
}

static void remove_place(mf_rendezvous_table *table, rendezvous_table_place *p)
{
    (void)mf_map_remove(&table->places, p->key);
    mf_tensor_clear(&p->value);
    mf_free(p->key);
    mf_free(p);
}

static void rendezvous_table_take_off(rendezvous_table_fetch *f)
{
    rendezvous_table_place *p = f->at;

    *(f->prev ? &f->prev->next : &p->first) = f->next;
    *(f->next ? &f->next->prev : &p->last) = f->prev;
    f->at = NULL;
    f->prev = f->next = NULL;
}

static void rendezvous_table_enqueue(rendezvous_table_place *p, rendezvous_table_fetch *f)
{
    f->at = p;
    f->prev = p->last;
    f->next = NULL;
    *(p->last ? &p->last->next : &p->first) = f;
    p->last = f;
}

/* ---- fetching ---- */

static void fetch_unref(rendezvous_table_fetch *f)
{
    mf_rendezvous_table *table = f->table;

    if (!mf_waiter_unref(&f->pending))
        return;
    mf_free(f);
    mf_rendezvous_table_leave(table);
}

/* It is not in a queue any more. On failure the thread's error is set. */
static void fetch_end(rendezvous_table_fetch *f, mf_status st, const mf_tensor *value)
{
    mf_error why;

    mf_error_save(st, &why);
    mf_waiter_end(&f->pending);
    if (st != MF_OK)
        (void)mf_error_restore(&why);
    f->done(f->ctx, st, value && value->dtype != MF_DTYPE_INVALID ? value : NULL);
    fetch_unref(f);
}

static void rendezvous_table_on_cancel(mf_cancel_hook *hook)
{
    rendezvous_table_fetch *f = (rendezvous_table_fetch *)(void *)hook;
    rendezvous_table_place *p;
    bool waits;

    pthread_mutex_lock(&f->table->lock);
    p = f->at;
    waits = p != NULL;
    if (waits) {
        rendezvous_table_take_off(f);
        if (!p->first)
            remove_place(f->table, p);
    }
    pthread_mutex_unlock(&f->table->lock);
    if (waits)
        fetch_end(f, MF_FAIL(MF_CANCELLED, "the step was cancelled"), NULL);
}

void mf_rendezvous_table_fetch(mf_rendezvous_table *table, const char *key, mf_cancel *cancel,
                               mf_fetched_fn *done, void *ctx)
{
    rendezvous_table_fetch *f = mf_calloc(1, sizeof *f);
    mf_tensor value = { 0 };
    rendezvous_table_place *p = NULL;
    bool there = false, is_ref = false;
    mf_status st;

    if (!f) {
        done(ctx, MF_NOMEM("a value between tasks"), NULL);
        return;
    }
    pthread_mutex_lock(&table->tables->lock);
    table->refs++;
    pthread_mutex_unlock(&table->tables->lock);
    *f = (rendezvous_table_fetch){ .pending = mf_waiter_of(&table->lock, cancel,
                                                           rendezvous_table_on_cancel),
                                   .table = table,
                                   .done = done,
                                   .ctx = ctx };
    pthread_mutex_lock(&table->lock);
    st = table->why.status == MF_OK ? rendezvous_table_place_of(table, key, &p)
                                    : mf_error_restore(&table->why);
    there = p && p->sent;
    if (there) {
        mf_tensor_move(&value, &p->value);
        is_ref = p->is_ref;
        remove_place(table, p);
    } else if (p) {
        rendezvous_table_enqueue(p, f);
    }
    pthread_mutex_unlock(&table->lock);
    if (is_ref)
        st = mf_reference_read(&value);
    if (there || st != MF_OK)
        fetch_end(f, st, &value);
    else
        mf_waiter_begin(&f->pending);
    mf_tensor_clear(&value);
    fetch_unref(f);
}

/* A fetch already waits for it. */
static void rendezvous_table_hand_over(rendezvous_table_fetch *f, const mf_tensor *sent,
                                       bool is_ref)
{
    mf_tensor value = { 0 };
    mf_status st = MF_OK;

    if (sent)
        mf_tensor_set(&value, sent);
    if (is_ref)
        st = mf_reference_read(&value);
    fetch_end(f, st, &value);
    mf_tensor_clear(&value);
}

static mf_status rendezvous_table_put(mf_rendezvous_table *table, const char *key,
                                      const mf_tensor *value, bool is_ref)
{
    rendezvous_table_fetch *f = NULL;
    rendezvous_table_place *p = NULL;
    mf_status st;

    pthread_mutex_lock(&table->lock);
    st = table->why.status == MF_OK ? rendezvous_table_place_of(table, key, &p)
                                    : mf_error_restore(&table->why);
    if (p && p->sent) {
        st = MF_FAIL(MF_INTERNAL, "the value %s is sent twice", key);
    } else if (p && p->first) {
        f = p->first;
        rendezvous_table_take_off(f);
        if (!p->first)
            remove_place(table, p);
    } else if (p) {
        p->sent = true;
        p->is_ref = is_ref;
        if (value)
            mf_tensor_set(&p->value, value);
    }
    pthread_mutex_unlock(&table->lock);
    if (f)
        rendezvous_table_hand_over(f, value, is_ref);
    return st;
}

mf_status mf_rendezvous_table_send(mf_rendezvous_table *table, const char *key,
                                   const mf_tensor *value)
{
    return rendezvous_table_put(table, key, value, false);
}

mf_status mf_rendezvous_table_send_ref(mf_rendezvous_table *table, const char *key,
                                       const mf_tensor *handle)
{
    return rendezvous_table_put(table, key, handle, true);
}

/* ---- ending ---- */

static rendezvous_table_fetch *any_waiting(mf_rendezvous_table *table)
{
    mf_map_entry *e;
    rendezvous_table_fetch *f = NULL;
    int64_t it = 0;

    pthread_mutex_lock(&table->lock);
    while (!f && (e = mf_map_next(&table->places, &it)) != NULL)
        f = ((rendezvous_table_place *)e->value)->first;
    if (f)
        rendezvous_table_take_off(f);
    pthread_mutex_unlock(&table->lock);
    return f;
}

void mf_rendezvous_table_fail(mf_rendezvous_table *table, mf_status status)
{
    mf_error why;
    bool first;
    rendezvous_table_fetch *f;

    mf_error_save(status, &why);
    pthread_mutex_lock(&table->lock);
    first = table->why.status == MF_OK;
    if (first)
        table->why = why;
    pthread_mutex_unlock(&table->lock);
    while (first && (f = any_waiting(table)) != NULL) /* no fetch is added any more */
        fetch_end(f, mf_error_restore(&why), NULL);
}

/* ---- tables ---- */

static void rendezvous_table_free(mf_rendezvous_table *table)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&table->places, &it)) != NULL) {
        rendezvous_table_place *p = e->value;

        mf_tensor_clear(&p->value);
        mf_free(p->key);
        mf_free(p);
    }
    mf_map_deinit(&table->places);
    pthread_mutex_destroy(&table->lock);
    mf_free(table);
}

/* It has no state that later users need. The caller holds the lock of all tables, and the table has
 * no users. */
static bool is_bare(const mf_rendezvous_table *table)
{
    return table->places.count == 0 && table->why.status == MF_OK &&
           mf_map_find(&table->tables->tables, table->step) == table;
}

void mf_rendezvous_table_leave(mf_rendezvous_table *table)
{
    mf_rendezvous_tables *tables = table->tables;
    bool last;

    pthread_mutex_lock(&tables->lock);
    last = --table->refs == 0;
    if (table->refs == 1 &&
        is_bare(table)) { /* otherwise requests for nonexistent steps would accumulate */
        (void)mf_map_remove(&tables->tables, table->step);
        pthread_cond_broadcast(&tables->changed);
        last = true;
    }
    pthread_mutex_unlock(&tables->lock);
    if (last)
        rendezvous_table_free(table);
}

static bool rendezvous_table_is_over(const mf_rendezvous_tables *tables, int64_t step)
{
    const int64_t n = tables->n_over < OVER_MAX ? tables->n_over : OVER_MAX;

    for (int64_t i = 0; i < n; i++) {
        if (tables->over[i] == step)
            return true;
    }
    return false;
}

/* The caller holds the lock. */
static mf_status rendezvous_table_find(mf_rendezvous_tables *tables, int64_t step, const char *name,
                                       mf_rendezvous_table **out)
{
    mf_rendezvous_table *table = mf_map_find(&tables->tables, name);

    *out = table;
    if (table)
        return MF_OK;
    if (rendezvous_table_is_over(tables, step))
        return MF_FAIL(MF_CANCELLED, "the step has ended");
    table = mf_calloc(1, sizeof *table);
    if (!table)
        return MF_NOMEM("a step");
    table->tables = tables;
    table->refs = 1; /* held by the list */
    memcpy(table->step, name, sizeof table->step);
    pthread_mutex_init(&table->lock, NULL);
    if (mf_map_set(&tables->tables, table->step, table) != MF_OK) {
        rendezvous_table_free(table);
        return MF_NOMEM("a step");
    }
    *out = table;
    return MF_OK;
}

mf_status mf_rendezvous_tables_enter(mf_rendezvous_tables *tables, int64_t step,
                                     mf_rendezvous_table **out)
{
    char name[17];
    mf_status st;

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)step);
    pthread_mutex_lock(&tables->lock);
    st = rendezvous_table_find(tables, step, name, out);
    if (st == MF_OK)
        (*out)->refs++;
    pthread_mutex_unlock(&tables->lock);
    return st;
}

void mf_rendezvous_tables_end(mf_rendezvous_tables *tables, int64_t step)
{
    char name[17];
    mf_error before; /* a step often ends because of an error, which the caller returns */
    mf_rendezvous_table *table;

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)step);
    pthread_mutex_lock(&tables->lock);
    table = mf_map_remove(&tables->tables, name);
    pthread_cond_broadcast(&tables->changed);
    if (!rendezvous_table_is_over(tables, step))
        tables->over[tables->n_over++ % OVER_MAX] = step;
    pthread_mutex_unlock(&tables->lock);
    if (!table)
        return;
    mf_error_save(MF_OK, &before);
    mf_rendezvous_table_fail(table, MF_FAIL(MF_CANCELLED, "the step has ended"));
    (void)mf_error_restore(&before);
    mf_rendezvous_table_leave(table);
}

/* ---- waiting until values are fetched ---- */

typedef struct rendezvous_table_waiter {
    mf_cancel_hook hook; /* must be the first field */
    mf_rendezvous_tables *tables;
} rendezvous_table_waiter;

static void stop_waiting(mf_cancel_hook *hook)
{
    mf_rendezvous_tables *tables = ((rendezvous_table_waiter *)(void *)hook)->tables;

    pthread_mutex_lock(&tables->lock);
    pthread_cond_broadcast(&tables->changed);
    pthread_mutex_unlock(&tables->lock);
}

mf_status mf_rendezvous_tables_await_fetched(mf_rendezvous_tables *tables, int64_t step,
                                             mf_cancel *cancel, int64_t deadline_ns)
{
    rendezvous_table_waiter w = { .hook.fn = stop_waiting, .tables = tables };
    bool there, in_time = true;
    char name[17];

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)step);
    if (!mf_cancel_add(cancel, &w.hook))
        return MF_FAIL(MF_CANCELLED, "the step was cancelled");
    pthread_mutex_lock(&tables->lock);
    while ((there = mf_map_find(&tables->tables, name) != NULL) && in_time &&
           !mf_cancel_is_raised(cancel))
        in_time = mf_cond_wait_until(&tables->changed, &tables->lock, deadline_ns);
    pthread_mutex_unlock(&tables->lock);
    (void)mf_cancel_remove(cancel, &w.hook);
    if (!there)
        return MF_OK;
    if (mf_cancel_is_raised(cancel))
        return MF_FAIL(MF_CANCELLED, "the step was cancelled");
    return MF_FAIL(MF_DEADLINE_EXCEEDED, "not all sent values were fetched");
}

mf_status mf_rendezvous_tables_new(mf_rendezvous_tables **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("steps");
    pthread_mutex_init(&(*out)->lock, NULL);
    mf_cond_init(&(*out)->changed);
    return MF_OK;
}

void mf_rendezvous_tables_free(mf_rendezvous_tables *tables)
{
    mf_map_entry *e;
    int64_t it = 0;

    if (!tables)
        return;
    while ((e = mf_map_next(&tables->tables, &it)) != NULL)
        rendezvous_table_free(e->value);
    mf_map_deinit(&tables->tables);
    pthread_cond_destroy(&tables->changed);
    pthread_mutex_destroy(&tables->lock);
    mf_free(tables);
}
