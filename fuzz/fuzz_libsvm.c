/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_libsvm.c - sparse samples as text; the parsed samples must be consistent. */
#include "formats/libsvm.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_libsvm s = { 0 };

    (void)!mf_libsvm_decode("input", (const char *)data, size, &s);
    for (int64_t i = 0; i < s.rows; i++) {
        MF_ASSERT(s.starts[i] <= s.starts[i + 1] && s.starts[i + 1] <= s.pairs);
        MF_ASSERT(s.starts[i + 1] - s.starts[i] <= s.most);
        for (int64_t k = s.starts[i] + 1; k < s.starts[i + 1]; k++)
            MF_ASSERT(s.ids[k] > s.ids[k - 1]);
    }
    mf_libsvm_deinit(&s);
    return 0;
}
