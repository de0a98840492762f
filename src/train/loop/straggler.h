/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - which worker keeps the others waiting, step for step, and why: said once on the
 * chief's standard error. By the boards alone (observe/status_page.h): nobody is asked, nothing is
 * sent. */
#ifndef MF_TRAIN_LOOP_STRAGGLER_H
#define MF_TRAIN_LOOP_STRAGGLER_H

#include "observe/job_view.h"

/* A worker at some time. */
typedef struct mf_pace {
    char task[MF_STATUS_PAGE_TASK];
    int64_t step, shards;
    int64_t own_ns[MF_USES]; /* times by use, since it began */
    mf_process_times times; /* at_ns 0: not known */
    int slow; /* looks in a row in which it was */
    bool said;
} mf_pace;

typedef struct mf_straggler {
    int64_t look_at, looked; /* when, and when the last time */
    mf_pace *paces;
    int n;
} mf_straggler;

/* A step is done. Now and then the workers are compared: what each took itself by shard, which is
 * to compute and to wait for input. */
void mf_straggler_look(mf_straggler *s);
void mf_straggler_deinit(mf_straggler *s);

/* Why is a worker slow? From `before` to `now` it took `excess` nanoseconds more than the others.
 * task: as its board shows it now. "it waits for input". */
void mf_straggler_cause(const mf_status_page_seen *task, const mf_pace *before, const mf_pace *now,
                        int64_t excess, mf_buf *out);

#endif
