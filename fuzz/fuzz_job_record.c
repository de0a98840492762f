/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_job_record.c - the file of a submitted job: parse, write, parse, compare. */
#include "jobqueue/jobqueue.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    mf_jobqueue_order o, again;
    mf_buf out = { 0 };

    MF_ASSERT(arena);
    if (mf_jobqueue_decode((const char *)data, size, arena, &o) == MF_OK) {
        MF_ASSERT(o.n_words > 0 && !o.words[o.n_words] && !o.environment[o.n_environment]);
        MF_ASSERT(o.slots > 0 && o.restarts >= 0);
        MF_ASSERT(mf_jobqueue_encode(&o, &out) == MF_OK);
        MF_ASSERT(mf_jobqueue_decode(out.data, out.len, arena, &again) == MF_OK);
        MF_ASSERT(again.n_words == o.n_words && again.n_after == o.n_after);
        for (int64_t i = 0; i < o.n_words; i++)
            MF_ASSERT(strcmp(o.words[i], again.words[i]) == 0);
    }
    mf_buf_deinit(&out);
    mf_arena_free(arena);
    return 0;
}
