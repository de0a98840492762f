/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cluster/store/store_conform.h"

#include "base/clock.h"
#include "mf_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_MS = 30000 }; /* nothing takes that long */

int64_t store_in_ms(int64_t ms)
{
    return mf_clock_ns() + ms * 1000000;
}

static int64_t put(mf_store *s, const char *key, const char *value, int64_t expected)
{
    int64_t version = 0;

    T_OK(mf_store_put(s, key, value, strlen(value), expected, 0, &version));
    return version;
}

static void expect(mf_store *s, const char *key, const char *value)
{
    mf_store_entry e;

    T_OK(mf_store_get(s, key, &e, NULL));
    T_STREQ(e.key, key);
    T_STREQ(e.value, value);
    mf_store_entry_deinit(&e);
}

static void expect_none(mf_store *s, const char *key)
{
    mf_store_entry e;

    T_FAILS(MF_NOT_FOUND, key, mf_store_get(s, key, &e, NULL));
}

static int64_t revision_of(mf_store *s)
{
    mf_store_entries l;
    int64_t revision;

    T_OK(mf_store_list(s, "", &l));
    revision = l.revision;
    mf_store_entries_deinit(&l);
    return revision;
}

void store_values_have_versions(mf_store *s)
{
    int64_t first, second, third, revision = -1;
    mf_store_entry e;

    T_FAILS(MF_NOT_FOUND, "'epoch'", mf_store_get(s, "epoch", &e, &revision));
    T_TRUE(revision >= 0);
    T_FAILS(MF_NOT_FOUND, "'epoch'", mf_store_remove(s, "epoch", MF_STORE_ANY));
    T_FAILS(MF_ABORTED, "another process was first", mf_store_remove(s, "epoch", 7));
    T_FAILS(MF_ABORTED, "another process was first", mf_store_put(s, "epoch", "x", 1, 7, 0, NULL));
    first = put(s, "epoch", "one", MF_STORE_NEW);
    T_TRUE(first > revision);
    T_FAILS(MF_ABORTED, "'epoch' exists", mf_store_put(s, "epoch", "x", 1, MF_STORE_NEW, 0, NULL));
    second = put(s, "epoch", "two", first);
    T_TRUE(second > first);
    T_FAILS(MF_ABORTED, "and not", mf_store_put(s, "epoch", "x", 1, first, 0, NULL));
    T_FAILS(MF_ABORTED, "and not", mf_store_remove(s, "epoch", first));
    expect(s, "epoch", "two");
    T_OK(mf_store_get(s, "epoch", &e, &revision));
    T_EQ(e.version, second);
    T_EQ(e.lease, 0);
    T_TRUE(revision >= second);
    mf_store_entry_deinit(&e);
    T_OK(mf_store_remove(s, "epoch", second));
    expect_none(s, "epoch");
    third = put(s, "epoch", "again", MF_STORE_NEW); /* not the version it had before */
    T_TRUE(third > second);
    T_TRUE(put(s, "epoch", "any", MF_STORE_ANY) > third);
    T_TRUE(put(s, "other", "any", MF_STORE_ANY) > third);
    T_OK(mf_store_remove(s, "epoch", MF_STORE_ANY));
    expect(s, "other", "any");
}

void store_lists_by_prefix(mf_store *s)
{
    static const char *const keys[] = { "m/2", "m/10", "m", "n/1", "m/1", "a.b_c-d/9", "m0" };
    static const char *const below[] = { "m/1", "m/10", "m/2" };
    mf_store_entries l;

    T_OK(mf_store_list(s, "", &l));
    T_EQ(l.n, 0);
    mf_store_entries_deinit(&l);
    for (int i = 0; i < MF_COUNT(keys); i++)
        (void)put(s, keys[i], keys[i], MF_STORE_NEW);
    T_OK(mf_store_list(s, "m/", &l));
    T_EQ(l.n, MF_COUNT(below));
    for (int i = 0; i < l.n; i++) {
        T_STREQ(l.entries[i].key, below[i]);
        T_STREQ(l.entries[i].value, below[i]);
        T_TRUE(l.entries[i].version > 0 && l.entries[i].version <= l.revision);
    }
    mf_store_entries_deinit(&l);
    T_OK(mf_store_list(s, "", &l));
    T_EQ(l.n, MF_COUNT(keys));
    for (int i = 1; i < l.n; i++)
        T_TRUE(strcmp(l.entries[i - 1].key, l.entries[i].key) < 0);
    mf_store_entries_deinit(&l);
    T_OK(mf_store_list(s, "x", &l));
    T_EQ(l.n, 0);
    mf_store_entries_deinit(&l);
}

void store_takes_any_bytes(mf_store *s)
{
    static char value[MF_STORE_VALUE_MAX];
    static const size_t sizes[] = { 0, 1, 2, 3, 255, 256, 4097, MF_STORE_VALUE_MAX };
    char key[MF_STORE_KEY_MAX + 1];

    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    for (int i = 0; i < MF_STORE_VALUE_MAX; i++)
        value[i] = (char)(unsigned char)(i * 7 + i / 256);
    for (int i = 0; i < MF_COUNT(sizes); i++) {
        mf_store_entry e;

        T_OK(mf_store_put(s, key, value, sizes[i], MF_STORE_ANY, 0, NULL));
        T_OK(mf_store_get(s, key, &e, NULL));
        T_EQ(e.size, sizes[i]);
        T_TRUE(memcmp(e.value, value, sizes[i]) == 0 && e.value[e.size] == '\0');
        mf_store_entry_deinit(&e);
    }
}

void store_refuses_what_is_wrong(mf_store *s)
{
    static const char *const bad[] = { "", "A", "a b", "a~b", "a@b", "a\n", "\xc3\xa4" };
    char large[MF_STORE_VALUE_MAX + 1] = "", longest[MF_STORE_KEY_MAX + 2];
    int64_t lease;
    mf_store_entries l;
    mf_store_entry e;

    for (int i = 0; i < MF_COUNT(bad); i++) {
        T_FAILS(MF_INVALID_ARGUMENT, "is no key", mf_store_put(s, bad[i], "", 0, 0, 0, NULL));
        T_FAILS(MF_INVALID_ARGUMENT, "is no key", mf_store_get(s, bad[i], &e, NULL));
        T_FAILS(MF_INVALID_ARGUMENT, "is no key", mf_store_remove(s, bad[i], MF_STORE_ANY));
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    T_FAILS(MF_INVALID_ARGUMENT, "1 to 200", mf_store_put(s, longest, "", 0, 0, 0, NULL));
    T_FAILS(MF_INVALID_ARGUMENT, "is no key", mf_store_list(s, "A", &l));
    T_FAILS(MF_INVALID_ARGUMENT, "is no key", mf_store_wait(s, "A", 0, 0));
    T_FAILS(MF_INVALID_ARGUMENT, "at most 65536 bytes, not 65537",
            mf_store_put(s, "a", large, sizeof large, 0, 0, NULL));
    T_FAILS(MF_INVALID_ARGUMENT, "-2 is no version", mf_store_put(s, "a", "", 0, -2, 0, NULL));
    T_FAILS(MF_INVALID_ARGUMENT, "must not exist", mf_store_remove(s, "a", MF_STORE_NEW));
    T_FAILS(MF_INVALID_ARGUMENT, "-1 is no lease", mf_store_put(s, "a", "", 0, 0, -1, NULL));
    T_FAILS(MF_INVALID_ARGUMENT, "0 is no lease", mf_store_lease_keep(s, 0));
    T_FAILS(MF_INVALID_ARGUMENT, "above 0", mf_store_lease_grant(s, 0, &lease));
    T_FAILS(MF_INVALID_ARGUMENT, "at most one day", mf_store_lease_grant(s, INT64_MAX, &lease));
    T_FAILS(MF_INVALID_ARGUMENT, "is no revision", mf_store_wait(s, "", -1, 0));
    T_FAILS(MF_FAILED_PRECONDITION, "lease 4711 has ended", mf_store_lease_keep(s, 4711));
    T_FAILS(MF_FAILED_PRECONDITION, "lease 4711 has ended",
            mf_store_put(s, "a", "", 0, 0, 4711, NULL));
    T_OK(mf_store_list(s, "", &l));
    T_EQ(l.n, 0);
    mf_store_entries_deinit(&l);
}

/* ---- leases ---- */

void store_lease_ends_when_told(mf_store *s)
{
    int64_t lease, other, before;
    mf_store_entry e;

    T_OK(mf_store_lease_grant(s, 3600 * INT64_C(1000000000), &lease));
    T_OK(mf_store_lease_grant(s, 3600 * INT64_C(1000000000), &other));
    T_TRUE(lease > 0 && other > 0 && lease != other);
    T_OK(mf_store_put(s, "a", "1", 1, MF_STORE_NEW, lease, NULL));
    T_OK(mf_store_put(s, "b", "1", 1, MF_STORE_NEW, lease, NULL));
    T_OK(mf_store_put(s, "c", "1", 1, MF_STORE_NEW, other, NULL));
    T_OK(mf_store_put(s, "d", "1", 1, MF_STORE_NEW, 0, NULL));
    T_OK(mf_store_put(s, "e", "1", 1, MF_STORE_NEW, lease, NULL));
    T_OK(mf_store_put(s, "e", "2", 1, MF_STORE_ANY, 0, NULL)); /* now it stays */
    T_OK(mf_store_get(s, "a", &e, NULL));
    T_EQ(e.lease, lease);
    mf_store_entry_deinit(&e);
    T_OK(mf_store_lease_keep(s, lease));
    before = revision_of(s);
    T_OK(mf_store_lease_end(s, lease));
    T_OK(mf_store_wait(s, "a", before, store_in_ms(LONG_MS))); /* the end of a lease is a change */
    expect_none(s, "a");
    expect_none(s, "b");
    expect(s, "c", "1");
    expect(s, "d", "1");
    expect(s, "e", "2");
    T_OK(mf_store_lease_end(s, lease));
    T_FAILS(MF_FAILED_PRECONDITION, "has ended", mf_store_lease_keep(s, lease));
    T_FAILS(MF_FAILED_PRECONDITION, "has ended", mf_store_put(s, "f", "", 0, -1, lease, NULL));
    expect_none(s, "f");
    T_OK(mf_store_lease_keep(s, other));
}

void store_lease_ends_unless_kept(mf_store *s, int64_t ttl_ns)
{
    const int64_t begin = mf_clock_ns();
    int64_t lease, kept, before;

    T_OK(mf_store_lease_grant(s, ttl_ns, &lease));
    T_OK(mf_store_lease_grant(s, 3600 * INT64_C(1000000000), &kept));
    T_OK(mf_store_put(s, "l/a", "1", 1, MF_STORE_NEW, lease, NULL));
    T_OK(mf_store_put(s, "l/b", "1", 1, MF_STORE_NEW, kept, NULL));
    T_OK(mf_store_lease_keep(s, kept));
    before = revision_of(s);
    T_OK(mf_store_wait(s, "l/", before, store_in_ms(LONG_MS)));
    T_TRUE(mf_clock_ns() - begin >= ttl_ns); /* not before */
    expect_none(s, "l/a");
    expect(s, "l/b", "1");
    T_FAILS(MF_FAILED_PRECONDITION, "has ended", mf_store_lease_keep(s, lease));
    T_FAILS(MF_FAILED_PRECONDITION, "has ended",
            mf_store_put(s, "l/a", "2", 1, MF_STORE_NEW, lease, NULL));
    (void)put(s, "l/a", "others", MF_STORE_NEW);
    expect(s, "l/a", "others");
}

/* ---- waiting ---- */

typedef struct later {
    mf_store *s;
    const char *key; /* NULL: cancel */
    int64_t ms;
} later;

static void *do_later(void *arg)
{
    const later *l = arg;

    usleep((useconds_t)l->ms * 1000);
    if (!l->key)
        mf_store_cancel(l->s);
    else
        (void)put(l->s, l->key, "later", MF_STORE_ANY);
    return NULL;
}

void store_wait_sees_changes(mf_store *s)
{
    const int64_t empty = revision_of(s);
    later at = { s, "w/a", 50 };
    pthread_t thread;
    int64_t before;

    T_FAILS(MF_DEADLINE_EXCEEDED, "'w/'", mf_store_wait(s, "w/", empty, store_in_ms(50)));
    T_FAILS(MF_DEADLINE_EXCEEDED, "'w/'", mf_store_wait(s, "w/", empty, 0));
    T_EQ(pthread_create(&thread, NULL, do_later, &at), 0);
    T_OK(mf_store_wait(s, "w/", empty, store_in_ms(LONG_MS)));
    expect(s, "w/a", "later");
    T_EQ(pthread_join(thread, NULL), 0);
    T_OK(mf_store_wait(s, "w/", empty,
                       store_in_ms(LONG_MS))); /* the change is still newer than `empty` */
    before = revision_of(s);
    (void)put(s, "x", "elsewhere", MF_STORE_NEW);
    T_FAILS(MF_DEADLINE_EXCEEDED, "'w/'", mf_store_wait(s, "w/", before, store_in_ms(50)));
    T_OK(mf_store_wait(s, "", before, store_in_ms(LONG_MS)));
    T_OK(mf_store_remove(s, "w/a", MF_STORE_ANY));
    T_OK(mf_store_wait(s, "w/", before, store_in_ms(LONG_MS))); /* a removal is a change */
    before = revision_of(s);
    at.key = NULL;
    T_EQ(pthread_create(&thread, NULL, do_later, &at), 0);
    T_FAILS(MF_CANCELLED, "cancelled", mf_store_wait(s, "w/", before, store_in_ms(LONG_MS)));
    T_EQ(pthread_join(thread, NULL), 0);
    T_FAILS(MF_CANCELLED, "cancelled", mf_store_wait(s, "w/", before, store_in_ms(LONG_MS)));
}

/* ---- counting ---- */

bool store_count_once(mf_store *s, const char *key, int64_t lease)
{
    int64_t number = 0, version = MF_STORE_NEW;
    char text[32];
    mf_store_entry e;
    mf_status st = mf_store_get(s, key, &e, NULL);

    if (st == MF_OK) {
        number = strtoll(e.value, NULL, 10);
        version = e.version;
    } else {
        T_EQ(st, MF_NOT_FOUND);
    }
    mf_store_entry_deinit(&e);
    (void)snprintf(text, sizeof text, "%lld", (long long)number + 1);
    st = mf_store_put(s, key, text, strlen(text), version, lease, NULL);
    if (st != MF_ABORTED)
        T_OK(st);
    return st == MF_OK;
}

typedef struct counter {
    const char *url;
    int times;
} counter;

static void *count(void *arg)
{
    const counter *c = arg;
    mf_store *s;

    T_OK(mf_store_open(c->url, NULL, &s));
    for (int i = 0; i < c->times;)
        i += store_count_once(s, "count", 0);
    mf_store_close(s);
    return NULL;
}

void store_threads_count(const char *url, int threads, int times)
{
    counter c = { url, times };
    pthread_t ids[16];
    mf_store *s;
    char text[32];

    T_TRUE(threads <= MF_COUNT(ids));
    T_OK(mf_store_open(url, NULL, &s));
    for (int i = 0; i < threads; i++)
        T_EQ(pthread_create(&ids[i], NULL, count, &c), 0);
    for (int i = 0; i < threads; i++)
        T_EQ(pthread_join(ids[i], NULL), 0);
    (void)snprintf(text, sizeof text, "%d", threads * times);
    expect(s, "count", text);
    mf_store_close(s);
}
