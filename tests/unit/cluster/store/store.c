/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - the contract of stores, for stores in memory and in folders; and their URLs. */
#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "unit/cluster/store/store_conform.h"
#include "unit/cluster/store/store_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- both kinds ---- */

static void on_memory(void (*check)(mf_store *s))
{
    mf_store *s;

    T_OK(mf_store_open("memory:test", NULL, &s));
    check(s);
    mf_store_close(s);
}

static void on_folder(void (*check)(mf_store *s))
{
    store_folder f;
    mf_store *s;

    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    check(s);
    mf_store_close(s);
    store_folder_end(&f);
}

MF_TEST(cluster_store_memory_values_have_versions)
{
    on_memory(store_values_have_versions);
}

MF_TEST(cluster_store_file_values_have_versions)
{
    on_folder(store_values_have_versions);
}

MF_TEST(cluster_store_memory_lists_by_prefix)
{
    on_memory(store_lists_by_prefix);
}

MF_TEST(cluster_store_file_lists_by_prefix)
{
    on_folder(store_lists_by_prefix);
}

MF_TEST(cluster_store_memory_takes_any_bytes)
{
    on_memory(store_takes_any_bytes);
}

MF_TEST(cluster_store_file_takes_any_bytes)
{
    on_folder(store_takes_any_bytes);
}

MF_TEST(cluster_store_memory_refuses_invalid_requests)
{
    on_memory(store_refuses_what_is_wrong);
}

MF_TEST(cluster_store_file_refuses_invalid_requests)
{
    on_folder(store_refuses_what_is_wrong);
}

MF_TEST(cluster_store_memory_lease_ends_on_request)
{
    on_memory(store_lease_ends_when_told);
}

MF_TEST(cluster_store_file_lease_ends_on_request)
{
    on_folder(store_lease_ends_when_told);
}

static void short_lease(mf_store *s)
{
    store_lease_ends_unless_kept(s, 200000000);
}

MF_TEST(cluster_store_memory_lease_expires_unless_renewed)
{
    on_memory(short_lease);
}

MF_TEST(cluster_store_file_lease_expires_unless_renewed)
{
    on_folder(short_lease);
}

MF_TEST(cluster_store_memory_wait_sees_changes)
{
    on_memory(store_wait_sees_changes);
}

MF_TEST(cluster_store_file_wait_sees_changes)
{
    on_folder(store_wait_sees_changes);
}

MF_TEST(cluster_store_memory_counts_correctly_with_many_threads)
{
    store_threads_count("memory:count", 4, 300);
}

MF_TEST(cluster_store_file_counts_correctly_with_many_threads)
{
    store_folder f;

    store_folder_begin(&f);
    store_threads_count(f.url, 4, 100);
    store_folder_end(&f);
}

/* ---- names ---- */

MF_TEST(cluster_store_that_does_not_exist_is_refused)
{
    mf_store *s;

    T_FAILS(MF_INVALID_ARGUMENT, "write memory:NAME, file:DIR or etcd://HOST:PORT/PREFIX",
            mf_store_open("redis://here", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "has no place after its kind", mf_store_open("memory:", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "has no place after its kind", mf_store_open("file:", NULL, &s));
    T_TRUE(s == NULL);
    mf_store_close(NULL);
}

MF_TEST(cluster_store_memory_is_found_by_name_while_it_is_open)
{
    mf_store *a, *b, *c;
    mf_store_entry e;

    T_OK(mf_store_open("memory:one", NULL, &a));
    T_OK(mf_store_open("memory:one", NULL, &b));
    T_OK(mf_store_open("memory:two", NULL, &c));
    T_OK(mf_store_put(a, "x", "1", 1, MF_STORE_NEW, 0, NULL));
    mf_store_close(a);
    T_OK(mf_store_get(b, "x", &e, NULL));
    mf_store_entry_deinit(&e);
    T_FAILS(MF_NOT_FOUND, "'x'", mf_store_get(c, "x", &e, NULL));
    mf_store_close(b);
    T_OK(mf_store_open("memory:one", NULL, &a));
    T_FAILS(MF_NOT_FOUND, "'x'", mf_store_get(a, "x", &e, NULL));
    mf_store_close(a);
    mf_store_close(c);
}

static int64_t read_time(void *arg)
{
    return *(const int64_t *)arg;
}

MF_TEST(cluster_store_memory_uses_the_configured_clock)
{
    int64_t now = 1000, lease, version;
    mf_store_options o = { .now = read_time, .now_arg = &now };
    mf_store_entry e;
    mf_store *s;

    T_OK(mf_store_open("memory:simulated", &o, &s));
    T_OK(mf_store_lease_grant(s, 500, &lease));
    T_OK(mf_store_put(s, "x", "1", 1, MF_STORE_NEW, lease, &version));
    now = 1400;
    T_OK(mf_store_lease_keep(s, lease));
    now = 1899;
    T_FAILS(MF_DEADLINE_EXCEEDED, "'x'", mf_store_wait(s, "x", version, now));
    T_OK(mf_store_get(s, "x", &e, NULL));
    mf_store_entry_deinit(&e);
    now = 1900;
    T_OK(mf_store_wait(s, "x", version, now));
    T_FAILS(MF_NOT_FOUND, "'x'", mf_store_get(s, "x", &e, NULL));
    T_FAILS(MF_FAILED_PRECONDITION, "has ended", mf_store_lease_keep(s, lease));
    mf_store_close(s);
}

/* ---- failed allocations ---- */

/* For every failing allocation: no leak, and the call had its full effect or none. */
static void fail_every_allocation(const char *url)
{
    for (int64_t n = 1;; n++) {
        mf_store *s = NULL;
        mf_store_entry e = { 0 };
        mf_store_entries l = { 0 };
        mf_status st;

        mf_mem_fail_at(n);
        st = mf_store_open(url, NULL, &s);
        if (st == MF_OK)
            st = mf_store_put(s, "a", "1", 1, MF_STORE_ANY, 0, NULL);
        if (st == MF_OK)
            st = mf_store_list(s, "", &l);
        if (st == MF_OK)
            st = mf_store_get(s, "a", &e, NULL);
        if (st == MF_OK)
            st = mf_store_remove(s, "a", e.version);
        mf_mem_fail_at(0);
        mf_store_entry_deinit(&e);
        mf_store_entries_deinit(&l);
        mf_store_close(s);
        if (st == MF_OK)
            return;
        T_EQ(st, MF_RESOURCE_EXHAUSTED);
        T_TRUE(n < 10000);
    }
}

MF_TEST(cluster_store_memory_survives_every_failed_allocation)
{
    fail_every_allocation("memory:poor");
}

MF_TEST(cluster_store_file_survives_every_failed_allocation)
{
    store_folder f;

    store_folder_begin(&f);
    fail_every_allocation(f.url);
    store_folder_end(&f);
}
