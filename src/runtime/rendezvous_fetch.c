/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_fetch.c - a blocking fetch from a rendezvous table. */
#include "base/cond.h"
#include "runtime/rendezvous_table.h"

typedef struct rendezvous_fetch_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* guarded by lock, as the fields below */
    mf_error why;
    mf_tensor *value;
} rendezvous_fetch_wait;

static void rendezvous_fetch_on_value(void *ctx, mf_status st, const mf_tensor *value)
{
    rendezvous_fetch_wait *a = ctx;

    if (st == MF_OK && !value)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the fetched output is dead and has no value");
    pthread_mutex_lock(&a->lock);
    mf_error_save(st, &a->why);
    if (st == MF_OK)
        mf_tensor_set(a->value, value);
    a->done = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

mf_status mf_rendezvous_table_await(mf_rendezvous_table *table, const char *key, mf_cancel *cancel,
                                    mf_tensor *out)
{
    rendezvous_fetch_wait a = { .value = out };

    pthread_mutex_init(&a.lock, NULL);
    mf_cond_init(&a.changed);
    mf_rendezvous_table_fetch(table, key, cancel, rendezvous_fetch_on_value, &a);
    pthread_mutex_lock(&a.lock);
    while (!a.done)
        pthread_cond_wait(&a.changed, &a.lock);
    pthread_mutex_unlock(&a.lock);
    pthread_cond_destroy(&a.changed);
    pthread_mutex_destroy(&a.lock);
    return a.why.status == MF_OK ? MF_OK : mf_error_restore(&a.why);
}
