/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h - what etcd's gateway answers, out of its JSON. Numbers are strings there, keys and
 * values base64, and what is zero, false or empty is left out. Nothing of it is trusted.
 *
 * All fail with DATA_LOSS (it makes no sense), RESOURCE_EXHAUSTED, or with what etcd says has
 * failed: its codes are gRPC's and so ours. */
#ifndef MF_PLUGINS_ETCD_ANSWER_H
#define MF_PLUGINS_ETCD_ANSWER_H

#include "cluster/store/store.h"

typedef struct etcd_text {
    const char *bytes;
    size_t len;
    long http; /* status; 200: fine */
} etcd_text;

/* Entries below `prefix`, their keys without it. What has no key of ours is passed over. Owns:
 * mf_store_entries_deinit(). */
MF_MUST mf_status etcd_range_decode(const etcd_text *t, const char *prefix, mf_store_entries *out);

typedef struct etcd_txn {
    bool done; /* what was compared was equal */
    int64_t revision;
    int64_t deleted; /* keys, if done */
    int64_t version; /* of the key, if not done; 0: there is none */
} etcd_txn;
MF_MUST mf_status etcd_txn_decode(const etcd_text *t, etcd_txn *out);

/* *ttl_s 0: there is no such lease. */
MF_MUST mf_status etcd_lease_decode(const etcd_text *t, int64_t *lease, int64_t *ttl_s);

/* A line of a watch; *changed: there is something new, or it is not known any more. */
MF_MUST mf_status etcd_watch_decode(const etcd_text *t, bool *changed);

/* Nothing is wanted but that it went well. */
MF_MUST mf_status etcd_check(const etcd_text *t);

/* Base64, of bytes or of the text that follows `prefix`. Owns: mf_free(). NULL: no memory. */
char *etcd_base64(const char *prefix, const char *bytes, size_t len);

#endif
