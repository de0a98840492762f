/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_store.c - a store in etcd: versions are its mod_revisions, leases its leases. */
#include "base/clock.h"
#include "base/mem.h"
#include "plugins/etcd/etcd.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 24 };

static const char DEFAULT_PREFIX[] = "meshflow/";

typedef struct etcd_store {
    mf_store base;
    etcd_client client;
    char prefix[MF_STORE_KEY_MAX + 2]; /* of all keys in etcd; ends with '/' */
} etcd_store;

/* ---- requests ---- */

static const char *etcd_store_number(char out[NUMBER_MAX], int64_t n)
{
    (void)snprintf(out, NUMBER_MAX, "%lld", (long long)n);
    return out;
}

/* "key": a single one; or with "range_end" all that begin with it. */
static json_t *etcd_store_range_of(const etcd_store *s, const char *key, bool all)
{
    char *from = etcd_base64(s->prefix, key, strlen(key)), *to = NULL;
    json_t *range = NULL;
    char end[2 * MF_STORE_KEY_MAX + 3];

    if (all) {
        const int n = snprintf(end, sizeof end, "%s%s", s->prefix, key);

        end[n - 1]++; /* the first key after the range: letters of keys are never the largest
                         byte */
        to = etcd_base64("", end, (size_t)n);
    }
    if (from && (!all || to))
        range = json_pack("{s:s, s:s*}", "key", from, "range_end", to);
    mf_free(from);
    mf_free(to);
    return range;
}

/* Takes ownership of `question`; NULL: out of memory. */
static mf_status etcd_store_ask(etcd_store *s, const char *path, json_t *question, bool once,
                                etcd_decode *decode, void *arg)
{
    char *body = question ? json_dumps(question, JSON_COMPACT) : NULL;
    mf_status st;

    json_decref(question);
    if (!body)
        return MF_NOMEM("a request to etcd");
    st = etcd_ask(&s->client, &(etcd_call){ path, body, once }, decode, arg);
    free(body);
    return st;
}

/* NOT_FOUND from the gateway does not refer to a key. */
static mf_status etcd_store_never_not_found(mf_status st)
{
    return st == MF_NOT_FOUND ? MF_FAIL(MF_INTERNAL, "%.900s", mf_error_message()) : st;
}

/* ---- reading ---- */

typedef struct etcd_store_range {
    const char *prefix;
    mf_store_entries *out;
} etcd_store_range;

static mf_status decode_range(const etcd_text *t, void *arg)
{
    const etcd_store_range *r = arg;

    return etcd_range_decode(t, r->prefix, r->out);
}

static mf_status etcd_list(mf_store *base, const char *prefix, mf_store_entries *out)
{
    etcd_store *s = (etcd_store *)base;
    etcd_store_range r = { s->prefix, out };

    return etcd_store_never_not_found(etcd_store_ask(
        s, "/v3/kv/range", etcd_store_range_of(s, prefix, true), false, decode_range, &r));
}

static mf_status etcd_get(mf_store *base, const char *key, mf_store_entry *out, int64_t *revision)
{
    etcd_store *s = (etcd_store *)base;
    mf_store_entries found = { 0 };
    etcd_store_range r = { s->prefix, &found };
    mf_status st = etcd_store_never_not_found(etcd_store_ask(
        s, "/v3/kv/range", etcd_store_range_of(s, key, false), false, decode_range, &r));

    if (st == MF_OK) {
        *revision = found.revision;
        if (found.n == 1 && strcmp(found.entries[0].key, key) == 0) {
            *out = found.entries[0];
            found.n = 0;
        } else {
            st = MF_FAIL(MF_NOT_FOUND, "no '%s' in the store", key);
        }
    }
    mf_store_entries_deinit(&found);
    return st;
}

/* ---- writing ---- */

static mf_status etcd_store_decode_txn(const etcd_text *t, void *arg)
{
    return etcd_txn_decode(t, arg);
}

/* Apply `change` if the key has this version; else report its version. Takes ownership of `change`.
 */
static json_t *transaction(const etcd_store *s, const char *key, int64_t expected, json_t *change)
{
    json_t *one = etcd_store_range_of(s, key, false), *compare = json_array();
    char version[NUMBER_MAX];

    if (expected != MF_STORE_ANY && one)
        (void)json_array_append_new(compare, json_pack("{s:O, s:s, s:s, s:s}", "key",
                                                       json_object_get(one, "key"), "target", "MOD",
                                                       "result", "EQUAL", "mod_revision",
                                                       etcd_store_number(version, expected)));
    return json_pack("{s:o, s:[o], s:[{s:o}]}", "compare", compare, "success", change, "failure",
                     "request_range", one);
}

static mf_status change_key(etcd_store *s, const char *key, int64_t expected, json_t *change,
                            etcd_txn *out)
{
    const bool is_put = json_object_get(change, "request_put") != NULL;
    json_t *question = transaction(s, key, expected, change);

    if (question && expected != MF_STORE_ANY &&
        json_array_size(json_object_get(question, "compare")) != 1) {
        json_decref(question); /* without the comparison, any value would be overwritten */
        return MF_NOMEM("a request to etcd");
    }
    MF_TRY(etcd_store_ask(s, "/v3/kv/txn", question, !is_put || expected != MF_STORE_ANY,
                          etcd_store_decode_txn, out));
    if (out->done)
        return MF_OK;
    if (expected == out->version)
        return MF_FAIL(MF_DATA_LOSS, "etcd did not change '%s', although its version is %lld", key,
                       (long long)expected);
    return mf_store_check_version(key, out->version, expected);
}

static mf_status lease_ended(int64_t lease)
{
    return MF_FAIL(MF_FAILED_PRECONDITION, "lease %lld has ended", (long long)lease);
}

static mf_status etcd_put(mf_store *base, const mf_store_entry *e, int64_t expected,
                          int64_t *version)
{
    etcd_store *s = (etcd_store *)base;
    json_t *put = etcd_store_range_of(s, e->key, false);
    char *value = etcd_base64("", e->value, e->size), lease[NUMBER_MAX];
    etcd_txn txn;
    mf_status st;

    if (!put || !value || json_object_set_new(put, "value", json_string(value)) != 0 ||
        json_object_set_new(put, "lease", json_string(etcd_store_number(lease, e->lease))) != 0) {
        json_decref(put);
        mf_free(value);
        return MF_NOMEM("a request to etcd");
    }
    mf_free(value);
    st = change_key(s, e->key, expected, json_pack("{s:o}", "request_put", put), &txn);
    if (st == MF_NOT_FOUND && e->lease != 0)
        return lease_ended(e->lease);
    MF_TRY(etcd_store_never_not_found(st));
    *version = txn.revision;
    return MF_OK;
}

static mf_status etcd_remove(mf_store *base, const char *key, int64_t expected)
{
    etcd_store *s = (etcd_store *)base;
    etcd_txn txn;

    MF_TRY(etcd_store_never_not_found(change_key(
        s, key, expected,
        json_pack("{s:o}", "request_delete_range", etcd_store_range_of(s, key, false)), &txn)));
    return txn.deleted > 0 ? MF_OK : MF_FAIL(MF_NOT_FOUND, "no '%s' in the store", key);
}

/* ---- leases ---- */

typedef struct granted {
    int64_t lease, ttl_s;
} granted;

static mf_status decode_lease(const etcd_text *t, void *arg)
{
    granted *g = arg;

    return etcd_lease_decode(t, &g->lease, &g->ttl_s);
}

static mf_status decode_nothing(const etcd_text *t, void *arg)
{
    (void)arg;
    return etcd_check(t);
}

static mf_status etcd_lease_grant(mf_store *base, int64_t ttl_ns, int64_t *lease)
{
    char seconds[NUMBER_MAX];
    granted g = { 0 };

    MF_TRY(etcd_store_never_not_found(etcd_store_ask(
        (etcd_store *)base, "/v3/lease/grant",
        json_pack("{s:s}", "TTL", etcd_store_number(seconds, (ttl_ns + 999999999) / 1000000000)),
        false, decode_lease, &g)));
    *lease = g.lease;
    return MF_OK;
}

static mf_status etcd_lease_keep(mf_store *base, int64_t lease)
{
    char id[NUMBER_MAX];
    granted g = { 0 };
    mf_status st = etcd_store_ask((etcd_store *)base, "/v3/lease/keepalive",
                                  json_pack("{s:s}", "ID", etcd_store_number(id, lease)), false,
                                  decode_lease, &g);

    if (st == MF_NOT_FOUND || (st == MF_OK && g.ttl_s == 0))
        return lease_ended(lease);
    return st;
}

static mf_status etcd_lease_end(mf_store *base, int64_t lease)
{
    char id[NUMBER_MAX];
    const mf_status st = etcd_store_ask((etcd_store *)base, "/v3/lease/revoke",
                                        json_pack("{s:s}", "ID", etcd_store_number(id, lease)),
                                        false, decode_nothing, NULL);

    return st == MF_NOT_FOUND ? MF_OK : st;
}

/* ---- waiting ---- */

static mf_status etcd_wait(mf_store *base, const char *prefix, int64_t after, int64_t deadline_ns)
{
    etcd_store *s = (etcd_store *)base;
    char revision[NUMBER_MAX], *body;
    json_t *all = etcd_store_range_of(s, prefix, true), *question = NULL;
    mf_status st;

    if (all && json_object_set_new(all, "start_revision",
                                   json_string(etcd_store_number(revision, after + 1))) == 0)
        question = json_pack("{s:O}", "create_request", all);
    body = question ? json_dumps(question, JSON_COMPACT) : NULL;
    json_decref(question);
    json_decref(all);
    if (!body)
        return MF_NOMEM("a request to etcd");
    st = etcd_watch(&s->client, body, deadline_ns);
    free(body);
    if (st == MF_DEADLINE_EXCEEDED)
        return MF_FAIL(st, "no change below '%s'", prefix);
    return etcd_store_never_not_found(st);
}

static void etcd_store_cancel(mf_store *base)
{
    etcd_cancel(&((etcd_store *)base)->client);
}

/* ---- opening ---- */

static void etcd_close(mf_store *base)
{
    etcd_store *s = (etcd_store *)base;

    etcd_client_deinit(&s->client);
    mf_free(s);
}

static mf_status set_prefix(etcd_store *s, const char *given)
{
    size_t n = strlen(given);

    while (n > 0 && given[n - 1] == '/')
        n--;
    if (n == 0)
        (void)snprintf(s->prefix, sizeof s->prefix, "%s", DEFAULT_PREFIX);
    else if (mf_store_is_key(given))
        (void)snprintf(s->prefix, sizeof s->prefix, "%.*s/", (int)n, given);
    else
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%.250s' is not a valid key prefix in etcd: expected at most %d of a-z, "
                       "0-9, '/', '.', '_' and '-'",
                       given, MF_STORE_KEY_MAX);
    return MF_OK;
}

static mf_status etcd_open(const char *where, const mf_store_options *o, mf_store **out)
{
    const size_t len = strcspn(where, "/");
    etcd_store *s = mf_calloc(1, sizeof *s);
    mf_status st;

    if (!s)
        return MF_NOMEM("a store");
    s->base.kind = &mf_store_etcd;
    st = etcd_client_init(&s->client, where, len, o);
    if (st == MF_OK)
        st = set_prefix(s, where[len] == '/' ? where + len + 1 : "");
    if (st == MF_OK)
        *out = &s->base;
    else
        etcd_close(&s->base);
    return st;
}

const mf_store_kind mf_store_etcd = {
    .name = "etcd",
    .open = etcd_open,
    .get = etcd_get,
    .list = etcd_list,
    .put = etcd_put,
    .remove = etcd_remove,
    .lease_grant = etcd_lease_grant,
    .lease_keep = etcd_lease_keep,
    .lease_end = etcd_lease_end,
    .wait = etcd_wait,
    .cancel = etcd_store_cancel,
    .close = etcd_close,
};
