/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - a job's shared state: a few small values under keys, changed by compare-and-set, and
 * leases. A value under a lease vanishes when the lease expires.
 *
 * Every change of the store has a number, its revision; revisions ascend. A value's version is the
 * revision at which it was put, so a key that was removed and put again has another version than
 * before: a task that was absent for long notices.
 *
 * Processes may be stopped, killed or cut off at any moment, and hold up no other process;
 * docs/reference/store.md describes how each kind of store achieves this. */
#ifndef MF_CLUSTER_STORE_STORE_H
#define MF_CLUSTER_STORE_STORE_H

#include "base/mem.h"
#include "net/transport.h"

#include <string.h>

enum {
    MF_STORE_KEY_MAX = 200, /* bytes */
    MF_STORE_VALUE_MAX = 65536,
    /* Instead of a version. */
    MF_STORE_NEW = 0, /* the key must not exist */
    MF_STORE_ANY = -1, /* any version, or none */
};

typedef struct mf_store_entry {
    char *key;
    char *value; /* any bytes; a zero that is not counted follows */
    size_t size;
    int64_t version;
    int64_t lease; /* it vanishes with; 0: it stays */
} mf_store_entry;

typedef struct mf_store_entries {
    mf_store_entry *entries; /* by key */
    int n;
    int64_t revision; /* of the store, when this was so */
} mf_store_entries;

typedef struct mf_store_options {
    int64_t timeout_ns; /* of every call except wait; 0: 5 s */
    mf_security security; /* etcd; fields that are NULL: see mf_security_fill() */
    int64_t (*now)(void *arg); /* memory: its clock; NULL: mf_clock_ns(). The first to open the
                                  store sets it */
    void *now_arg;
} mf_store_options;

typedef struct mf_store mf_store;

/* Keys, sizes and numbers are valid: they are checked before these calls. Contracts: see below. */
typedef struct mf_store_kind {
    const char *name;
    /* `where`: the text after the kind's name. */
    mf_status (*open)(const char *where, const mf_store_options *o, mf_store **out);
    mf_status (*get)(mf_store *s, const char *key, mf_store_entry *out, int64_t *revision);
    mf_status (*list)(mf_store *s, const char *prefix, mf_store_entries *out);
    mf_status (*put)(mf_store *s, const mf_store_entry *e, int64_t expected, int64_t *version);
    mf_status (*remove)(mf_store *s, const char *key, int64_t expected);
    mf_status (*lease_grant)(mf_store *s, int64_t ttl_ns, int64_t *lease);
    mf_status (*lease_keep)(mf_store *s, int64_t lease);
    mf_status (*lease_end)(mf_store *s, int64_t lease);
    mf_status (*wait)(mf_store *s, const char *prefix, int64_t after, int64_t deadline_ns);
    void (*cancel)(mf_store *s);
    void (*close)(mf_store *s);
} mf_store_kind;

struct mf_store {
    const mf_store_kind *kind;
};

extern const mf_store_kind mf_store_memory, mf_store_file;

/* "memory:NAME" (this process), "file:DIR" (processes of this host) or
 * "etcd://HOST:PORT[,HOST:PORT...][/PREFIX]" (any host). options may be NULL. Fails:
 * INVALID_ARGUMENT (no such kind, or the rest is invalid), NOT_FOUND or FAILED_PRECONDITION (the
 * plugin is not installed; the folder is another host's; no TLS), PERMISSION_DENIED, DATA_LOSS (the
 * folder holds no valid store). Does not check that etcd answers.
 *
 * All calls except close: Thread: any. Besides their own failures, all may fail with UNAVAILABLE or
 * DEADLINE_EXCEEDED (then it is unknown whether a change was made: read), DATA_LOSS,
 * RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_store_open(const char *url, const mf_store_options *options, mf_store **out);
/* Leases stay until they expire. */
void mf_store_close(mf_store *s);

typedef struct mf_store_wanted {
    const char *url; /* mf_store_open() */
    mf_security security;
    const char *who; /* the task that waits: "worker 0" */
    int64_t timeout_ns;
    bool (*stops)(void *ctx); /* was it asked to end? NULL: never */
    void *ctx;
} mf_store_wanted;

/* Wait until the store answers, and report on standard error that it does. Fails: UNAVAILABLE
 * naming the store (no answer in time), CANCELLED (asked to end), as mf_store_open() and
 * mf_store_get(). */
MF_MUST mf_status mf_store_await(const mf_store_wanted *w);

/* A key is 1 to 200 of a-z, 0-9, '/', '.', '_' and '-'; otherwise INVALID_ARGUMENT. */
MF_MUST mf_status mf_store_check_key(const char *key);
static inline bool mf_store_is_key(const char *key)
{
    const size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789/._-");

    return n > 0 && n <= MF_STORE_KEY_MAX && key[n] == '\0';
}

/* NOT_FOUND: no such key; *revision (unless NULL) is set then, too. Owns: mf_store_entry_deinit().
 */
MF_MUST mf_status mf_store_get(mf_store *s, const char *key, mf_store_entry *out,
                               int64_t *revision);
static inline void mf_store_entry_deinit(mf_store_entry *e)
{
    mf_free(e->key);
    mf_free(e->value);
    *e = (mf_store_entry){ 0 };
}

/* All entries whose keys begin with `prefix`, at one moment. Owns: mf_store_entries_deinit(). */
MF_MUST mf_status mf_store_list(mf_store *s, const char *prefix, mf_store_entries *out);
static inline void mf_store_entries_deinit(mf_store_entries *l)
{
    for (int i = 0; i < l->n; i++)
        mf_store_entry_deinit(&l->entries[i]);
    mf_free(l->entries);
    *l = (mf_store_entries){ 0 };
}

/* The result of mf_store_put() and mf_store_remove() for a key at version `is` (0: no such key).
 * For kinds of stores. */
MF_MUST static inline mf_status mf_store_check_version(const char *key, int64_t is,
                                                       int64_t expected)
{
    if (expected == MF_STORE_ANY || expected == is)
        return MF_OK;
    if (expected == MF_STORE_NEW)
        return MF_FAIL(MF_ABORTED, "another process was first: '%s' exists, at version %lld", key,
                       (long long)is);
    if (is == 0)
        return MF_FAIL(MF_ABORTED, "another process was first: '%s' at version %lld was removed",
                       key, (long long)expected);
    return MF_FAIL(MF_ABORTED, "another process was first: '%s' is at version %lld and not %lld",
                   key, (long long)is, (long long)expected);
}

/* Replace a value of version `expected`, MF_STORE_NEW or MF_STORE_ANY. *version (unless NULL) is
 * the new version. lease: the value vanishes with it; 0: it stays. Fails: ABORTED (another process
 * was first; the message has the version), FAILED_PRECONDITION (the lease has expired). */
MF_MUST mf_status mf_store_put(mf_store *s, const char *key, const void *value, size_t size,
                               int64_t expected, int64_t lease, int64_t *version);
/* Fails: ABORTED as above, NOT_FOUND (expected is MF_STORE_ANY, and there is no such key). */
MF_MUST mf_status mf_store_remove(mf_store *s, const char *key, int64_t expected);

/* A lease expires ttl after its last renewal, or a little later (etcd: up to two seconds); a lease
 * of a file store expires at once when this process ends. The holder counts from before the call
 * that renewed it. */
MF_MUST mf_status mf_store_lease_grant(mf_store *s, int64_t ttl_ns, int64_t *lease);
/* Renew for another ttl. FAILED_PRECONDITION: it has expired, and its values have vanished. Only
 * leases that were granted to this `s`. */
MF_MUST mf_status mf_store_lease_keep(mf_store *s, int64_t lease);
/* Values under the lease vanish now. An expired lease is not an error. */
MF_MUST mf_status mf_store_lease_end(mf_store *s, int64_t lease);

/* Returns when a value below `prefix` has changed after this revision; rarely without a change, so
 * read. deadline_ns: of mf_clock_ns(), or of the memory store's clock. Fails: DEADLINE_EXCEEDED (no
 * change), CANCELLED. */
MF_MUST mf_status mf_store_wait(mf_store *s, const char *prefix, int64_t after_revision,
                                int64_t deadline_ns);
/* Current and later waits of this `s` return CANCELLED. */
void mf_store_cancel(mf_store *s);

#endif
