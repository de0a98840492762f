/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_etcd.c - untrusted responses of an etcd server. Parsed entries must be valid store entries.
 */
#include "plugins/etcd/etcd_answer.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const etcd_text t = { (const char *)data, size, 200 };
    mf_store_entries l;
    etcd_txn txn;
    int64_t lease, ttl_s;
    bool changed;

    if (etcd_range_decode(&t, "meshflow/", &l) == MF_OK) {
        for (int i = 0; i < l.n; i++) {
            MF_ASSERT(mf_store_is_key(l.entries[i].key) && l.entries[i].version > 0);
            MF_ASSERT(l.entries[i].size <= MF_STORE_VALUE_MAX && l.entries[i].lease >= 0);
            MF_ASSERT(l.entries[i].value[l.entries[i].size] == '\0');
            MF_ASSERT(i == 0 || strcmp(l.entries[i - 1].key, l.entries[i].key) < 0);
        }
    }
    mf_store_entries_deinit(&l);
    if (etcd_txn_decode(&t, &txn) == MF_OK)
        MF_ASSERT(txn.revision >= 0 && txn.version >= 0 && txn.deleted >= 0);
    if (etcd_lease_decode(&t, &lease, &ttl_s) == MF_OK)
        MF_ASSERT(lease > 0 && ttl_s >= 0);
    if (etcd_watch_decode(&t, &changed) == MF_OK)
        MF_ASSERT(etcd_check(&t) == MF_OK);
    return 0;
}
