/* SPDX-License-Identifier: Apache-2.0 */
/* store_file_stopped.c - holders of leases that a signal has stopped. The kernel shows this, so
 * there is no need to wait until the lease expires: a process that is stopped for a while and does
 * not renew its lease meanwhile has lost it. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/store/store_file.h"

static const int64_t LONG_ENOUGH_NS = 500000000;

void mf_store_stopped_init(mf_store_stopped *s)
{
    *s = (mf_store_stopped){ 0 };
    pthread_mutex_init(&s->lock, NULL);
}

void mf_store_stopped_deinit(mf_store_stopped *s)
{
    mf_free(s->all);
    pthread_mutex_destroy(&s->lock);
}

/* By a signal; a process under a debugger ('t') has the full time of its lease. */
static bool is_stopped(const mf_store_folder *f, const mf_store_lease *l)
{
    mf_process p;

    return mf_store_lease_has_process(f, l) && mf_process_read(l->pid, &p) && p.start == l->start &&
           p.state == 'T';
}

bool mf_store_stopped_any(const mf_store_folder *f, const mf_store_lease *leases, int n)
{
    for (int i = 0; i < n; i++) {
        if (is_stopped(f, &leases[i]))
            return true;
    }
    return false;
}

/* Since when it has been so. */
static int64_t since(const mf_store_stopped *s, const mf_store_lease *l, int64_t now)
{
    for (int64_t i = 0; i < s->n; i++) {
        if (s->all[i].lease == l->id && s->all[i].until_ns == atomic_load(&l->until_ns))
            return s->all[i].since_ns;
    }
    return now;
}

/* Replace the recorded state by the current one. */
static mf_status store_file_stopped_note(mf_store_stopped *s, const mf_store_folder *f,
                                         const mf_store_lease *leases, int n)
{
    const int64_t now = mf_clock_ns();
    mf_store_stopped_one *all = mf_calloc(n, sizeof *all);
    int64_t found = 0;

    if (!all)
        return MF_NOMEM("leases");
    for (int i = 0; i < n; i++) {
        if (is_stopped(f, &leases[i]))
            all[found++] = (mf_store_stopped_one){ .lease = leases[i].id,
                                                   .until_ns = atomic_load(&leases[i].until_ns),
                                                   .since_ns = since(s, &leases[i], now) };
    }
    mf_free(s->all);
    s->all = all;
    s->n = found;
    return MF_OK;
}

mf_status mf_store_stopped_look(mf_store_stopped *s, const mf_store_folder *f,
                                const mf_store_lease *leases, int n, bool *ended)
{
    mf_status st = MF_OK;

    *ended = false;
    pthread_mutex_lock(&s->lock);
    if (n > 0)
        st = store_file_stopped_note(s, f, leases, n);
    else
        s->n = 0;
    for (int64_t i = 0; st == MF_OK && i < s->n; i++) {
        if (mf_clock_ns() - s->all[i].since_ns < LONG_ENOUGH_NS)
            continue;
        *ended = true;
        st = mf_store_lease_finish(f, s->all[i].lease);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}
