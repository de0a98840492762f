/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - which worker slows down the others, and why: logged once on the chief's standard
 * error. From status pages only (observe/status_page.h): no messages are sent. */
#ifndef MF_TRAIN_LOOP_STRAGGLER_H
#define MF_TRAIN_LOOP_STRAGGLER_H

#include "observe/job_view.h"

/* A worker at some time. */
typedef struct mf_pace {
    char task[MF_STATUS_PAGE_TASK];
    int64_t step, shards;
    int64_t own_ns[MF_USES]; /* times by use, since it began */
    mf_process_times times; /* at_ns 0: not known */
    int slow; /* consecutive checks in which it was slow */
    bool said;
} mf_pace;

typedef struct mf_straggler {
    int64_t look_at, looked; /* when, and when the last time */
    mf_pace *paces;
    int n;
} mf_straggler;

/* A step is done. Periodically compare the workers: the time that each needed for a shard,
 * computing and waiting for input. */
void mf_straggler_look(mf_straggler *s);
void mf_straggler_deinit(mf_straggler *s);

/* Why is a worker slow? From `before` to `now` it took `excess` nanoseconds more than the others.
 * task: its status page now. "it waits for input". */
void mf_straggler_cause(const mf_status_page_seen *task, const mf_pace *before, const mf_pace *now,
                        int64_t excess, mf_buf *out);

#endif
