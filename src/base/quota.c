/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - the memory limit of the process (`--memory`): counts tensors, heap and library memory,
 * and refuses blocks beyond the limit. */
#include "base/quota.h"

#include "base/machine_limits.h"
#include "base/mem_accounting.h"
#include "base/param.h"

#include <malloc.h>
#include <stdatomic.h>
#include <unistd.h>

MF_PARAM_INT(buffer_limit_mib, 0,
             "limit in MiB for tensors and other memory of graphs; 0: the memory of the machine or "
             "control group");

enum { ALWAYS = 1 << 20, MUCH = 32 << 20 };

static atomic_llong limit; /* 0: not determined yet */
static atomic_llong taken, heap, heap_before; /* bytes; heap_before: when the limit was set */
static atomic_llong peak; /* of the total */
static atomic_llong heap_peak; /* since free memory was returned last */

static void raise_to(atomic_llong *most, long long now)
{
    long long old = atomic_load_explicit(most, memory_order_relaxed);

    while (now > old && !atomic_compare_exchange_weak(most, &old, now))
        continue;
}

static int64_t quota_look_up(void)
{
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t v = pages > 0 && page > 0 ? pages * page : INT64_MAX, mib;
    mf_limits l;

    mf_params_load();
    mib = MF_PARAM(buffer_limit_mib);
    mf_limits_get("", &l);
    if (l.memory > 0 && l.memory < v)
        v = l.memory;
    if (mib > 0)
        v = mib > INT64_MAX >> 20 ? INT64_MAX : mib << 20;
    return v;
}

void mf_quota_set(int64_t bytes)
{
    atomic_store(&heap_before, atomic_load(&heap));
    atomic_store(&limit, bytes > 0 ? bytes : 0);
}

int64_t mf_quota_limit(void)
{
    int64_t v = atomic_load_explicit(&limit, memory_order_relaxed);

    if (v == 0) {
        v = quota_look_up();
        atomic_store(&heap_before, atomic_load(&heap));
        atomic_store(&limit, v);
    }
    return v;
}

int64_t mf_quota_used(void)
{
    return atomic_load_explicit(&taken, memory_order_relaxed) +
           atomic_load_explicit(&heap, memory_order_relaxed) -
           atomic_load_explicit(&heap_before, memory_order_relaxed);
}

int64_t mf_quota_room(void)
{
    const int64_t left = mf_quota_limit() - mf_quota_used();

    return left > 0 ? left : 0;
}

void mf_quota_watch(void)
{
    atomic_store(&peak, mf_quota_used());
}

int64_t mf_quota_peak(void)
{
    return atomic_load(&peak);
}

mf_status mf_quota_take(int64_t bytes)
{
    const int64_t most = mf_quota_limit();

    atomic_fetch_add_explicit(&taken, bytes, memory_order_relaxed);
    if (bytes > 0 && mf_quota_used() > most) {
        mf_quota_give_back(bytes);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "no memory for %lld bytes: %lld of %lld allowed bytes are in use",
                       (long long)bytes, (long long)mf_quota_used(), (long long)most);
    }
    raise_to(&peak, mf_quota_used());
    return MF_OK;
}

void mf_quota_give_back(int64_t bytes)
{
    atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
}

bool mf_quota_allows(int64_t bytes)
{
    const int64_t most = atomic_load_explicit(&limit, memory_order_relaxed);

    if (most == 0 || (bytes < ALWAYS && !mf_mem_account_here()))
        return true;
    return bytes <= most - mf_quota_used();
}

void mf_quota_heap(int64_t bytes)
{
    const long long now =
        atomic_fetch_add_explicit(&heap, bytes, memory_order_relaxed) + (long long)bytes;

    if (bytes > 0) {
        raise_to(&heap_peak, now);
        raise_to(&peak, mf_quota_used());
    }
}

/* The allocator keeps freed memory, and tensors of strings are many small blocks. */
void mf_quota_settle(void)
{
    const long long now = atomic_load_explicit(&heap, memory_order_relaxed);

    if (atomic_load_explicit(&heap_peak, memory_order_relaxed) - now < MUCH)
        return;
    atomic_store(&heap_peak, now);
    (void)malloc_trim(0);
}
