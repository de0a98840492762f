/* SPDX-License-Identifier: Apache-2.0 */
/* store_state.h - the contents of a store: store_memory.c keeps them under a lock, store_file.c
 * reads and writes them as one file. Knows neither time nor processes. */
#ifndef MF_CLUSTER_STORE_STORE_STATE_H
#define MF_CLUSTER_STORE_STORE_STATE_H

#include "base/buf.h"
#include "cluster/store/store.h"

enum {
    MF_STORE_REMOVALS = 64, /* that are remembered */
    MF_STORE_STATE_MAX = 16 << 20, /* bytes, encoded */
};

typedef struct mf_store_removal {
    char key[MF_STORE_KEY_MAX + 1];
    int64_t revision;
} mf_store_removal;

/* All zero is an empty store. */
typedef struct mf_store_state {
    mf_store_entries all; /* revision: the number of the last change */
    int64_t cap; /* of the entries */
    size_t bytes; /* approximate size when it is encoded */
    mf_store_removal removed[MF_STORE_REMOVALS]; /* oldest first */
    int n_removed;
    int64_t forgotten; /* removals up to this revision are not known any more */
} mf_store_state;

void mf_store_state_deinit(mf_store_state *s);

/* NULL: no such key. */
const mf_store_entry *mf_store_state_find(const mf_store_state *s, const char *key);
/* Copies. Fails: as mf_store_get() and mf_store_list(). */
MF_MUST mf_status mf_store_state_get(const mf_store_state *s, const char *key, mf_store_entry *out,
                                     int64_t *revision);
MF_MUST mf_status mf_store_state_list(const mf_store_state *s, const char *prefix,
                                      mf_store_entries *out);
/* Has a value below `prefix` changed? Also true if that is no longer known. */
bool mf_store_state_changed(const mf_store_state *s, const char *prefix, int64_t after);

/* One change each; a failed call changes nothing. Fails: as mf_store_put() and mf_store_remove().
 */
MF_MUST mf_status mf_store_state_put(mf_store_state *s, const mf_store_entry *e, int64_t expected);
MF_MUST mf_status mf_store_state_remove(mf_store_state *s, const char *key, int64_t expected);
/* Remove all entries of a lease; false: there were none. */
bool mf_store_state_end_lease(mf_store_state *s, int64_t lease);

/* Entries as bytes, with a checksum; appended. */
MF_MUST mf_status mf_store_state_encode(const mf_store_state *s, mf_buf *out);
/* Fails: DATA_LOSS (these bytes are no state), RESOURCE_EXHAUSTED. Owns: deinit, after a failure,
 * too. */
MF_MUST mf_status mf_store_state_decode(const void *data, size_t len, mf_store_state *out);

#endif
