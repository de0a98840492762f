/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - the kinds of stores, and the checks before one of them is called. */
#include "cluster/store/store.h"

#include "base/plugin.h"
#include "net/transport_registry.h"

#include <string.h>

static const int64_t TIMEOUT_NS = 5000000000;
static const int64_t TTL_MAX_NS = 86400000000000; /* a day; sums of times do not overflow */

/* ---- opening ---- */

static mf_status store_from_plugin(const char *name, const mf_store_kind **out)
{
    static const mf_plugin_wanted etcd = { "etcd", "store 'etcd'", "libcurl4-openssl-dev",
                                           "libcurl4" };
    const mf_plugin_v1 *p;

    MF_TRY(mf_plugin_get(&etcd, &p));
    for (int i = 0; p->stores && p->stores[i]; i++) {
        if (strcmp(p->stores[i]->name, name) == 0) {
            *out = p->stores[i];
            return MF_OK;
        }
    }
    return MF_FAIL(MF_FAILED_PRECONDITION, "plugin %s has no store '%s'", p->name, name);
}

/* The rest of the address after this prefix; NULL: it has another prefix. */
static const char *store_behind(const char *url, const char *begin)
{
    const size_t n = strlen(begin);

    return strncmp(url, begin, n) == 0 ? url + n : NULL;
}

static mf_status store_find_kind(const char *url, const mf_store_kind **kind, const char **where)
{
    if ((*where = store_behind(url, "memory:")) != NULL) {
        *kind = &mf_store_memory;
        return MF_OK;
    }
    if ((*where = store_behind(url, "file:")) != NULL) {
        *kind = &mf_store_file;
        return MF_OK;
    }
    if ((*where = store_behind(url, "etcd://")) != NULL)
        return store_from_plugin("etcd", kind);
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%s' is no store: write memory:NAME, file:DIR or etcd://HOST:PORT/PREFIX", url);
}

mf_status mf_store_open(const char *url, const mf_store_options *options, mf_store **out)
{
    mf_store_options o = options ? *options : (mf_store_options){ 0 };
    const mf_store_kind *kind;
    const char *where;

    *out = NULL;
    MF_TRY(store_find_kind(url, &kind, &where));
    if (*where == '\0')
        return MF_FAIL(MF_INVALID_ARGUMENT, "store '%s' has no place after its kind", url);
    if (o.timeout_ns <= 0)
        o.timeout_ns = TIMEOUT_NS;
    mf_security_fill(&o.security);
    return kind->open(where, &o, out);
}

void mf_store_close(mf_store *s)
{
    if (s)
        s->kind->close(s);
}

/* ---- checks ---- */

mf_status mf_store_check_key(const char *key)
{
    if (mf_store_is_key(key))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%.250s' is no key of a store: 1 to %d of a-z, 0-9, '/', '.', '_' and '-'", key,
                   MF_STORE_KEY_MAX);
}

static mf_status store_check_prefix(const char *prefix)
{
    return *prefix == '\0' ? MF_OK : mf_store_check_key(prefix);
}

static mf_status check_expected(const char *key, int64_t expected)
{
    MF_TRY(mf_store_check_key(key));
    if (expected >= MF_STORE_ANY)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%s': %lld is no version", key, (long long)expected);
}

static mf_status check_lease(int64_t lease)
{
    if (lease > 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%lld is no lease", (long long)lease);
}

/* ---- asking ---- */

mf_status mf_store_get(mf_store *s, const char *key, mf_store_entry *out, int64_t *revision)
{
    int64_t unwanted;

    *out = (mf_store_entry){ 0 };
    MF_TRY(mf_store_check_key(key));
    return s->kind->get(s, key, out, revision ? revision : &unwanted);
}

mf_status mf_store_list(mf_store *s, const char *prefix, mf_store_entries *out)
{
    *out = (mf_store_entries){ 0 };
    MF_TRY(store_check_prefix(prefix));
    return s->kind->list(s, prefix, out);
}

mf_status mf_store_put(mf_store *s, const char *key, const void *value, size_t size,
                       int64_t expected, int64_t lease, int64_t *version)
{
    /* Stores only read them. */
    const mf_store_entry e = { .key = (char *)(uintptr_t)key,
                               .value = (char *)(uintptr_t)value,
                               .size = size,
                               .lease = lease };
    int64_t unwanted;

    MF_TRY(check_expected(key, expected));
    if (lease != 0)
        MF_TRY(check_lease(lease));
    if (size > MF_STORE_VALUE_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s': a value has at most %d bytes, not %zu", key,
                       MF_STORE_VALUE_MAX, size);
    return s->kind->put(s, &e, expected, version ? version : &unwanted);
}

mf_status mf_store_remove(mf_store *s, const char *key, int64_t expected)
{
    MF_TRY(check_expected(key, expected));
    if (expected == MF_STORE_NEW)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s': a key that must not exist cannot be removed",
                       key);
    return s->kind->remove(s, key, expected);
}

mf_status mf_store_lease_grant(mf_store *s, int64_t ttl_ns, int64_t *lease)
{
    *lease = 0;
    if (ttl_ns <= 0 || ttl_ns > TTL_MAX_NS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the length of a lease must be above 0 and at most "
                                            "one day");
    return s->kind->lease_grant(s, ttl_ns, lease);
}

mf_status mf_store_lease_keep(mf_store *s, int64_t lease)
{
    MF_TRY(check_lease(lease));
    return s->kind->lease_keep(s, lease);
}

mf_status mf_store_lease_end(mf_store *s, int64_t lease)
{
    MF_TRY(check_lease(lease));
    return s->kind->lease_end(s, lease);
}

mf_status mf_store_wait(mf_store *s, const char *prefix, int64_t after_revision,
                        int64_t deadline_ns)
{
    MF_TRY(store_check_prefix(prefix));
    if (after_revision < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%lld is no revision", (long long)after_revision);
    return s->kind->wait(s, prefix, after_revision, deadline_ns);
}

void mf_store_cancel(mf_store *s)
{
    s->kind->cancel(s);
}
