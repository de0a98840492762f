/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_answer.h - decodes the JSON replies of etcd's gateway. Numbers are strings there, keys and
 * values base64, and fields that are zero, false or empty are omitted. Replies are untrusted.
 *
 * All functions fail with DATA_LOSS (invalid), RESOURCE_EXHAUSTED, or the failure that etcd
 * reports: its codes are gRPC's and so ours. */
#ifndef MF_PLUGINS_ETCD_ETCD_ANSWER_H
#define MF_PLUGINS_ETCD_ETCD_ANSWER_H

#include "cluster/store/store.h"

typedef struct etcd_text {
    const char *bytes;
    size_t len;
    long http; /* HTTP status; 200: success */
} etcd_text;

/* Entries below `prefix`, their keys without it. Foreign keys are skipped. Owns: the caller calls
 * mf_store_entries_deinit(). */
MF_MUST mf_status etcd_range_decode(const etcd_text *t, const char *prefix, mf_store_entries *out);

typedef struct etcd_txn {
    bool done; /* the comparison succeeded */
    int64_t revision;
    int64_t deleted; /* number of keys, if done */
    int64_t version; /* of the key, if not done; 0: no such key */
} etcd_txn;
MF_MUST mf_status etcd_txn_decode(const etcd_text *t, etcd_txn *out);

/* *ttl_s 0: no such lease. */
MF_MUST mf_status etcd_lease_decode(const etcd_text *t, int64_t *lease, int64_t *ttl_s);

/* A line of a watch; *changed: there are changes, or the revision was compacted. */
MF_MUST mf_status etcd_watch_decode(const etcd_text *t, bool *changed);

/* Checks for success only. */
MF_MUST mf_status etcd_check(const etcd_text *t);

/* Base64 of bytes, or of the text that follows `prefix`. Owns: the caller calls mf_free(). NULL: no
 * memory. */
char *etcd_base64(const char *prefix, const char *bytes, size_t len);

#endif
