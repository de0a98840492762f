/* SPDX-License-Identifier: Apache-2.0 */
/* mem_accounting.c - memory accounts: bytes of tensor storage in use by each store of variables. */
#include "base/mem_accounting.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>

struct mf_mem_account {
    atomic_int refs;
    atomic_llong held, peak; /* bytes; peak: since the last mf_mem_account_begin() */
    pthread_mutex_t lock;
    int runs; /* runs in progress; guarded by lock, as the fields below */
    int64_t before; /* held when the first of these runs began */
    mf_mem_account_run largest;
};

static _Thread_local mf_mem_account *here;

mf_status mf_mem_account_new(mf_mem_account **out)
{
    mf_mem_account *a = mf_calloc(1, sizeof *a);

    *out = a;
    if (!a)
        return MF_NOMEM("an account");
    atomic_store(&a->refs, 1);
    pthread_mutex_init(&a->lock, NULL);
    return MF_OK;
}

mf_mem_account *mf_mem_account_ref(mf_mem_account *a)
{
    if (a)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void mf_mem_account_unref(mf_mem_account *a)
{
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&a->lock);
    mf_free(a);
}

mf_mem_account *mf_mem_account_enter(mf_mem_account *a)
{
    mf_mem_account *before = here;

    here = a;
    return before;
}

mf_mem_account *mf_mem_account_here(void)
{
    return here;
}

mf_mem_account *mf_mem_account_take(int64_t bytes)
{
    mf_mem_account *a = mf_mem_account_ref(here);
    long long now, peak;

    if (!a)
        return NULL;
    now = atomic_fetch_add_explicit(&a->held, bytes, memory_order_relaxed) + bytes;
    peak = atomic_load_explicit(&a->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&a->peak, &peak, now))
        continue;
    return a;
}

void mf_mem_account_give(mf_mem_account *a, int64_t bytes)
{
    if (a)
        atomic_fetch_sub_explicit(&a->held, bytes, memory_order_relaxed);
    mf_mem_account_unref(a);
}

void mf_mem_account_begin(mf_mem_account *a)
{
    pthread_mutex_lock(&a->lock);
    if (a->runs++ == 0) {
        a->before = atomic_load(&a->held);
        atomic_store(&a->peak, a->before);
    }
    pthread_mutex_unlock(&a->lock);
}

/* A step on a smaller last batch may have a few more ops than a step on a full batch. */
static bool mem_accounting_is_larger(const mf_mem_account_run *run, const mf_mem_account_run *than)
{
    if (run->ops > 2 * than->ops || than->ops > 2 * run->ops)
        return run->ops > than->ops;
    return run->planned != than->planned ? run->planned > than->planned : run->ops >= than->ops;
}

void mf_mem_account_end(mf_mem_account *a, const mf_mem_account_run *run)
{
    pthread_mutex_lock(&a->lock);
    a->runs--;
    if (mem_accounting_is_larger(run, &a->largest)) {
        const int64_t bytes = atomic_load(&a->peak) - a->before;
        const bool same = run->ops == a->largest.ops && run->planned == a->largest.planned;
        const int64_t most = same ? a->largest.bytes : 0;

        a->largest = *run;
        a->largest.bytes = bytes > most ? bytes : most;
    }
    pthread_mutex_unlock(&a->lock);
}

mf_mem_account_run mf_mem_account_largest(mf_mem_account *a)
{
    mf_mem_account_run run;

    pthread_mutex_lock(&a->lock);
    run = a->largest;
    pthread_mutex_unlock(&a->lock);
    return run;
}

void mf_mem_account_forget_runs(mf_mem_account *a)
{
    pthread_mutex_lock(&a->lock);
    a->largest = (mf_mem_account_run){ 0 };
    pthread_mutex_unlock(&a->lock);
}
