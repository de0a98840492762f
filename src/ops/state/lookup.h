/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - hash tables that live in the server. Keys are strings or plain numbers, values have
 * one type and one shape. Tables that are initialized once and mutable tables share one
 * implementation; the former have a flag. */
#ifndef MF_OPS_STATE_LOOKUP_H
#define MF_OPS_STATE_LOOKUP_H

#include "graph/op.h"

typedef enum mf_table_kind {
    MF_TABLE_STATIC, /* initialized once */
    MF_TABLE_MUTABLE,
    MF_TABLE_DENSE, /* mutable; two keys are reserved */
} mf_table_kind;

typedef struct mf_table_spec {
    mf_table_kind kind;
    mf_dtype key, value;
    mf_shape shape; /* of a value */
    const mf_tensor *empty, *deleted; /* DENSE: reserved keys; may be NULL */
} mf_table_spec;

/* Entries are contiguous: [0, n). */
typedef struct mf_entries {
    mf_tensor keys, values; /* capacity `cap` */
    int64_t n, cap;
    int64_t *next; /* by entry: the next entry of its chain, or -1 */
    int64_t *chains; /* by hash: the first entry, or -1 */
    int64_t n_chains; /* a power of two */
} mf_entries;

typedef struct mf_table {
    mf_object object;
    mf_table_kind kind;
    mf_dtype key, value;
    mf_shape shape; /* of a value */
    int64_t width; /* elements of a value */
    mf_tensor empty, deleted; /* INVALID: no reserved keys */
    pthread_mutex_t lock; /* guards all members below */
    bool initialized;
    mf_entries entries;
} mf_table;

extern const mf_object_type mf_table_type;

/* mf_object_make; ctx is a mf_table_spec. */
MF_MUST mf_status mf_table_make(void *spec, mf_object **out);
/* Checks that keys and values have the table's types, and values one row per key. */
MF_MUST mf_status mf_table_check(const mf_table *t, const mf_tensor *keys, const mf_tensor *values);
/* Fills a static table, atomically. Fails: FAILED_PRECONDITION (it has other entries already, or a
 * duplicate key has different values). */
MF_MUST mf_status mf_table_initialize(mf_table *t, const mf_tensor *keys, const mf_tensor *values);
/* Adds or replaces entries; `replace_all`: removes all other entries. */
MF_MUST mf_status mf_table_insert(mf_table *t, const mf_tensor *keys, const mf_tensor *values,
                                  bool replace_all);
MF_MUST mf_status mf_table_remove(mf_table *t, const mf_tensor *keys);
/* Row i of `out` is the value of key i, or the default: one for all, or one per key. */
MF_MUST mf_status mf_table_find(mf_table *t, const mf_tensor *keys, const mf_tensor *missing,
                                mf_tensor *out);
int64_t mf_table_size(mf_table *t);

#endif
