/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ledger.c - records of a ledger, without their checksums: decode, encode, decode, compare.
 * The first
 * byte selects one of the two kinds. */
#include "base/mem.h"
#include "data/ledger.h"

#include <stdint.h>
#include <string.h>

static void fuzz_info(const uint8_t *data, size_t size)
{
    mf_ledger_info a, b;
    mf_buf bytes = { 0 };
    size_t na, nb;
    char *name;

    if (mf_ledger_decode_info(data, size, &a, &na) != MF_OK)
        return;
    name = mf_strndup(a.name, na);
    MF_ASSERT(name);
    if (strlen(name) == na) {
        a.name = name;
        mf_ledger_encode_info(&a, &bytes);
        MF_ASSERT(mf_ledger_decode_info(bytes.data, bytes.len, &b, &nb) == MF_OK);
        MF_ASSERT(na == nb && a.count == b.count && a.id_count == b.id_count && a.seed == b.seed &&
                  a.batch == b.batch && a.sliced == b.sliced && a.drop_partial == b.drop_partial &&
                  !a.ids == !b.ids);
    }
    mf_free(name);
    mf_buf_deinit(&bytes);
}

static void fuzz_entry(const uint8_t *data, size_t size)
{
    mf_ledger_entry a = { 0 }, b = { 0 };
    mf_buf bytes = { 0 };

    if (mf_ledger_decode_entry(data, size, &a) == MF_OK) {
        const mf_batch batch = {
            .n = a.n + a.n_skipped, .epoch = a.epoch, .first = a.first, .ids = a.ids
        };

        mf_ledger_encode_entry(a.step, &batch, a.n_skipped, &bytes);
        MF_ASSERT(mf_ledger_decode_entry(bytes.data, bytes.len, &b) == MF_OK);
        MF_ASSERT(a.step == b.step && a.epoch == b.epoch && a.first == b.first && a.n == b.n &&
                  a.n_skipped == b.n_skipped);
        MF_ASSERT(batch.n == 0 || memcmp(a.ids, b.ids, (size_t)batch.n * sizeof *a.ids) == 0);
    }
    mf_free(a.ids);
    mf_free(b.ids);
    mf_buf_deinit(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 0)
        fuzz_info(data + 1, size - 1);
    else if (size > 0)
        fuzz_entry(data + 1, size - 1);
    return 0;
}
