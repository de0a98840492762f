/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_store.c - files of a store in a folder, as another process finds them: a state, or a lease.
 * A state
 * that parses can be changed, written and parsed again. */
#include "base/mem.h"
#include "cluster/store/store_file.h"
#include "formats/crc32c.h"

#include <stdint.h>
#include <string.h>

enum { CRC_AT = 8, HEAD = 12 };

static void use_state(mf_store_state *s)
{
    mf_store_entry e = { .key = "fuzz/key", .value = "x", .size = 1 };
    mf_store_entries l = { 0 };
    mf_store_state again;
    mf_buf bytes = { 0 };
    const int n = s->all.n;

    if (mf_store_state_list(s, "", &l) == MF_OK)
        MF_ASSERT(l.n == n);
    mf_store_entries_deinit(&l);
    if (mf_store_state_put(s, &e, MF_STORE_ANY) == MF_OK) {
        MF_ASSERT(mf_store_state_changed(s, "fuzz/", s->all.revision - 1));
        MF_ASSERT(!mf_store_state_changed(s, "fuzz/", s->all.revision));
    }
    if (n > 0)
        MF_ASSERT(mf_store_state_remove(s, s->all.entries[0].key, MF_STORE_ANY) == MF_OK);
    (void)mf_store_state_end_lease(s, 1);
    MF_ASSERT(mf_store_state_encode(s, &bytes) == MF_OK);
    MF_ASSERT(mf_store_state_decode(bytes.data, bytes.len, &again) == MF_OK);
    MF_ASSERT(again.all.n == s->all.n && again.all.revision == s->all.revision);
    mf_store_state_deinit(&again);
    mf_buf_deinit(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_store_state *s = mf_calloc(1, sizeof *s);
    uint8_t *copy = mf_calloc((int64_t)size + 1, 1);
    mf_store_lease l;

    MF_ASSERT(s && copy);
    memcpy(copy, data, size);
    if (size >= HEAD) { /* fixes the checksum: otherwise nothing after it would be read */
        const uint32_t crc = mf_crc32c(0, copy + HEAD, size - HEAD);

        for (int i = 0; i < 4; i++)
            copy[CRC_AT + i] = (uint8_t)(crc >> (8 * i));
    }
    if (mf_store_state_decode(copy, size, s) == MF_OK && s->all.revision < INT64_MAX / 4)
        use_state(s);
    mf_store_state_deinit(s);
    if (mf_store_lease_decode(data, size, 7, &l) == MF_OK)
        MF_ASSERT(strlen(l.boot) < sizeof l.boot && l.pid > 0 && l.ttl_ns > 0);
    mf_free(copy);
    mf_free(s);
    return 0;
}
