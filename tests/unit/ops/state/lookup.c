/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - lookup tables compared with a plain array; failed allocations. tests/tf/reading.py
 * compares them with TensorFlow's. */
#include "ops/state/lookup.h"

#include "base/mem.h"
#include "mf_test.h"

#include <stdio.h>

enum { KEYS = 97 };

static mf_table *table_of(mf_dtype key, mf_dtype value)
{
    mf_table_spec spec = { .kind = MF_TABLE_MUTABLE, .key = key, .value = value };
    mf_object *o;

    T_OK(mf_table_make(&spec, &o));
    return (mf_table *)o;
}

static mf_tensor one_long(int64_t v)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_I64, &MF_SHAPE(1)));
    *(int64_t *)t.data = v;
    return t;
}

static int64_t look(mf_table *table, int64_t key)
{
    mf_tensor k = one_long(key), missing = { 0 }, out = { 0 };
    int64_t v;

    T_OK(mf_tensor_alloc(&missing, MF_DTYPE_I64, &MF_SCALAR));
    *(int64_t *)missing.data = -1;
    T_OK(mf_table_find(table, &k, &missing, &out));
    v = *(int64_t *)out.data;
    mf_tensor_clear(&k);
    mf_tensor_clear(&missing);
    mf_tensor_clear(&out);
    return v;
}

MF_TEST(lookup_table_matches_a_reference_implementation)
{
    mf_table *table = table_of(MF_DTYPE_I64, MF_DTYPE_I64);
    int64_t want[KEYS], n = 0;
    uint32_t random = 1;

    for (int i = 0; i < KEYS; i++)
        want[i] = -1;
    for (int turn = 0; turn < 5000; turn++) {
        const int key = (int)((random = random * 1664525u + 1013904223u) >> 16) % KEYS;
        mf_tensor k = one_long(key), v = one_long(turn);

        if (random >> 8 & 1) {
            T_OK(mf_table_insert(table, &k, &v, false));
            want[key] = turn;
        } else {
            T_OK(mf_table_remove(table, &k));
            want[key] = -1;
        }
        mf_tensor_clear(&k);
        mf_tensor_clear(&v);
    }
    for (int i = 0; i < KEYS; i++) {
        T_EQ(look(table, i), want[i]);
        n += want[i] >= 0;
    }
    T_EQ(mf_table_size(table), n);
    mf_object_unref(&table->object);
}

static mf_tensor strings(int64_t n, int salt)
{
    mf_tensor t = { 0 };
    char text[32];

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_STRING, &MF_SHAPE(n)));
    for (int64_t i = 0; i < n; i++) {
        const int len = snprintf(text, sizeof text, "string %d of %d", (int)i, salt);

        T_OK(mf_string_set((mf_string *)t.data + i, text, (size_t)len));
    }
    return t;
}

MF_TEST(lookup_table_has_no_partial_entries_when_memory_runs_out)
{
    mf_tensor keys = strings(40, 1), values = strings(40, 2), missing = { 0 };
    mf_status st = MF_RESOURCE_EXHAUSTED;

    T_OK(mf_tensor_alloc(&missing, MF_DTYPE_STRING, &MF_SCALAR));
    for (int64_t nth = 1; st != MF_OK; nth++) {
        mf_table *table = table_of(MF_DTYPE_STRING, MF_DTYPE_STRING);
        mf_tensor out = { 0 };

        mf_mem_fail_at(nth);
        st = mf_table_insert(table, &keys, &values, false);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        T_OK(mf_table_find(table, &keys, &missing, &out));
        for (int64_t i = 0; i < keys.count; i++) {
            const mf_string *got = (mf_string *)out.data + i, *put = (mf_string *)values.data + i;

            if (i < mf_table_size(table))
                T_STREQ(got->data, put->data);
            else
                T_EQ(got->len, 0);
        }
        mf_tensor_clear(&out);
        mf_object_unref(&table->object);
    }
    mf_tensor_clear(&keys);
    mf_tensor_clear(&values);
    mf_tensor_clear(&missing);
}
