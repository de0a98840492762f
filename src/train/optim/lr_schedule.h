/* SPDX-License-Identifier: Apache-2.0 */
/* lr_schedule.h - the learning rate as a function of the step. */
#ifndef MF_TRAIN_OPTIM_LR_SCHEDULE_H
#define MF_TRAIN_OPTIM_LR_SCHEDULE_H

#include "graph/settings.h"

typedef struct mf_schedule {
    const struct mf_schedule_kind *kind;
    mf_options o;
    double rate; /* the optimizer's */
    int64_t total; /* steps of the training; used where the settings do not give them */
} mf_schedule;

typedef struct mf_schedule_kind {
    const char *name, *settings, *about; /* all have warmup: initial steps of linear growth */
    double (*factor)(const mf_schedule *s, int64_t step, int64_t steps); /* of the rate */
} mf_schedule_kind;

extern const mf_schedule_kind mf_schedules[]; /* name NULL ends it */

/* text NULL: constant. */
MF_MUST mf_status mf_schedule_parse(const char *text, double rate, mf_arena *arena,
                                    mf_schedule *out);
/* For the step after `done` others. The same bits on every machine. */
float mf_schedule_at(const mf_schedule *s, int64_t done);
/* The smallest rate still to come: schedules are smooth, or constant after a fall. */
double mf_schedule_least(const mf_schedule *s, int64_t done);

#endif
