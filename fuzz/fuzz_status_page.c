/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_status_page.c - a task's status page and flight recorder, as another process finds them.
 * Everything
 * that is read must be consistent: strings are terminated, and numbers are in range. */
#include "base/mem.h"
#include "observe/status_page.h"

#include <stdint.h>
#include <string.h>

static void check_lists(const mf_status_page *p)
{
    for (int i = 0; i < MF_STATUS_PAGE_COPIES; i++) {
        MF_ASSERT(strlen(p->slices[i].of) < sizeof p->slices[i].of);
        MF_ASSERT(p->slices[i].version >= 0);
    }
    for (int i = 0; i < MF_STATUS_PAGE_ACTS; i++) {
        MF_ASSERT(strlen(p->acts[i].what) < sizeof p->acts[i].what);
        MF_ASSERT(p->acts[i].kind >= 0 && p->acts[i].kind < MF_ACTS);
    }
}

static void check_events(const uint8_t *data, size_t size)
{
    mf_status_page_event *events = mf_calloc(MF_STATUS_PAGE_EVENTS, sizeof *events);
    mf_buf text = { 0 };
    int n;

    MF_ASSERT(events);
    mf_status_page_events_decode(data, size, events, &n);
    MF_ASSERT(n >= 0 && n <= MF_STATUS_PAGE_EVENTS);
    for (int i = 0; i < n; i++)
        mf_status_page_event_text(&events[i], &text);
    mf_buf_deinit(&text);
    mf_free(events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_status_page *p = mf_calloc(1, sizeof *p);
    int64_t ns[MF_USES];

    MF_ASSERT(p);
    if (mf_status_page_decode(data, size, p) == MF_OK) {
        MF_ASSERT(strlen(p->job) < sizeof p->job && strlen(p->task) < sizeof p->task);
        MF_ASSERT(mf_phase_text((mf_phase)p->phase) && mf_use_names[p->use]);
        mf_status_page_page_used(p, INT64_MAX / 16, ns);
        for (int i = 0; i < MF_USES; i++)
            MF_ASSERT(ns[i] >= 0);
        MF_ASSERT(p->rate >= 0.0 && p->rate < 1e15);
        MF_ASSERT(p->first_shard >= 0 && p->n_shards >= 0);
        MF_ASSERT(p->first_shard <= INT64_MAX - p->n_shards);
        for (int i = 0; i < MF_STATUS_PAGE_WAITS; i++)
            MF_ASSERT(strlen(p->waits[i].what) < sizeof p->waits[i].what);
        check_lists(p);
    }
    mf_free(p);
    check_events(data, size);
    return 0;
}
