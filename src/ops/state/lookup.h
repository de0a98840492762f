/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - tables from keys to values that live in the server. Keys are strings or plain numbers,
 * values have one type and one shape. Tables to be initialized once and tables that change are the
 * same thing; the former keep a flag. */
#ifndef MF_OPS_STATE_LOOKUP_H
#define MF_OPS_STATE_LOOKUP_H

#include "graph/op.h"

typedef enum mf_table_kind {
    MF_TABLE_STATIC, /* initialized once */
    MF_TABLE_MUTABLE,
    MF_TABLE_DENSE, /* the same; two keys are not allowed */
} mf_table_kind;

typedef struct mf_table_spec {
    mf_table_kind kind;
    mf_dtype key, value;
    mf_shape shape; /* of a value */
    const mf_tensor *empty, *deleted; /* DENSE: keys that must not be used; may be NULL */
} mf_table_spec;

/* Entries are dense: [0, n). */
typedef struct mf_entries {
    mf_tensor keys, values; /* room for `cap` */
    int64_t n, cap;
    int64_t *next; /* by entry: the next one of its chain, or -1 */
    int64_t *chains; /* by hash: the first entry, or -1 */
    int64_t n_chains; /* a power of two */
} mf_entries;

typedef struct mf_table {
    mf_object object;
    mf_table_kind kind;
    mf_dtype key, value;
    mf_shape shape; /* of a value */
    int64_t width; /* elements of a value */
    mf_tensor empty, deleted; /* INVALID: any key is allowed */
    pthread_mutex_t lock; /* guards all below */
    bool initialized;
    mf_entries entries;
} mf_table;

extern const mf_object_type mf_table_type;

/* mf_object_make; ctx is a mf_table_spec. */
MF_MUST mf_status mf_table_make(void *spec, mf_object **out);
/* Do keys and values have the table's types, and values one row for each key? */
MF_MUST mf_status mf_table_check(const mf_table *t, const mf_tensor *keys, const mf_tensor *values);
/* Fill a static table, whole or not at all. FAILED_PRECONDITION: it has other entries already, or a
 * key comes twice with different values. */
MF_MUST mf_status mf_table_initialize(mf_table *t, const mf_tensor *keys, const mf_tensor *values);
/* Add or replace; `anew`: forget the others. */
MF_MUST mf_status mf_table_insert(mf_table *t, const mf_tensor *keys, const mf_tensor *values,
                                  bool anew);
MF_MUST mf_status mf_table_remove(mf_table *t, const mf_tensor *keys);
/* Row i of `out` is the value of key i, or the default: one for all, or one for each key. */
MF_MUST mf_status mf_table_find(mf_table *t, const mf_tensor *keys, const mf_tensor *missing,
                                mf_tensor *out);
int64_t mf_table_size(mf_table *t);

#endif
