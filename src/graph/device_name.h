/* SPDX-License-Identifier: Apache-2.0 */
/* device_name.h - full and partial device names in TensorFlow's syntax:
 *
 *     /job:worker/replica:0/task:1/device:CPU:0     one device
 *     /job:ps                                       any device of a job
 *     /cpu:0                                        legacy syntax of /device:CPU:0
 *
 * A part that is missing, or is '*', matches anything. */
#ifndef MF_GRAPH_DEVICE_NAME_H
#define MF_GRAPH_DEVICE_NAME_H

#include "base/status.h"

enum { MF_DEVICE_JOB_MAX = 64, MF_DEVICE_TYPE_MAX = 32, MF_DEVICE_NAME_MAX = 192 };

typedef struct mf_device_name {
    char job[MF_DEVICE_JOB_MAX]; /* "": any */
    char type[MF_DEVICE_TYPE_MAX]; /* in upper case; "": any */
    int replica, task, index; /* -1: any */
} mf_device_name;

/* Matches any device. */
#define MF_DEVICE_ANY ((mf_device_name){ .replica = -1, .task = -1, .index = -1 })

/* Parts may be in any order; if job, replica or task occurs twice, the last one counts. Fails:
 * INVALID_ARGUMENT naming the invalid part. */
MF_MUST mf_status mf_device_name_parse(const char *text, mf_device_name *out);

/* Fill parts missing in `name` from `outer`, the device of the enclosing scope. */
void mf_device_name_fill(mf_device_name *name, const mf_device_name *outer);

/* Does `name` have every part that `pattern` specifies? */
bool mf_device_name_is(const mf_device_name *name, const mf_device_name *pattern);
/* Can one device match both? */
bool mf_device_name_agrees(const mf_device_name *a, const mf_device_name *b);
/* Is every part specified? */
bool mf_device_name_is_full(const mf_device_name *name);

/* Print in TensorFlow's order; unspecified parts are omitted, or "*" where the other half of
 * "CPU:0" is specified.
 * Returns `out`. */
const char *mf_device_name_print(const mf_device_name *name, char out[MF_DEVICE_NAME_MAX]);

#endif
