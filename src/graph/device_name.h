/* SPDX-License-Identifier: Apache-2.0 */
/* device_name.h - names of devices, whole or in part, as TensorFlow writes them:
 *
 *     /job:worker/replica:0/task:1/device:CPU:0     one device
 *     /job:ps                                       any of a job's
 *     /cpu:0                                        the old spelling of /device:CPU:0
 *
 * A part that is not there, or is '*', may be anything. */
#ifndef MF_GRAPH_DEVICE_NAME_H
#define MF_GRAPH_DEVICE_NAME_H

#include "base/status.h"

enum { MF_DEVICE_JOB_MAX = 64, MF_DEVICE_TYPE_MAX = 32, MF_DEVICE_NAME_MAX = 192 };

typedef struct mf_device_name {
    char job[MF_DEVICE_JOB_MAX]; /* "": any */
    char type[MF_DEVICE_TYPE_MAX]; /* in capitals; "": any */
    int replica, task, index; /* -1: any */
} mf_device_name;

/* What may be anything. */
#define MF_DEVICE_ANY ((mf_device_name){ .replica = -1, .task = -1, .index = -1 })

/* Parts may stand in any order; of a job, replica or task that is given twice the last one counts.
 * INVALID_ARGUMENT naming the part that is none. */
MF_MUST mf_status mf_device_name_parse(const char *text, mf_device_name *out);

/* What `name` leaves open becomes as in `outer`: a device inside of another's scope. */
void mf_device_name_fill(mf_device_name *name, const mf_device_name *outer);

/* Everything that `pattern` asks for, `name` has. */
bool mf_device_name_is(const mf_device_name *name, const mf_device_name *pattern);
/* There may be a device that is both. */
bool mf_device_name_agrees(const mf_device_name *a, const mf_device_name *b);
/* It is one device: no part is missing. */
bool mf_device_name_is_full(const mf_device_name *name);

/* In TensorFlow's order; what may be anything is left out, or "*" where the other half
 * of "CPU:0" is there.
 * Returns `out`. */
const char *mf_device_name_print(const mf_device_name *name, char out[MF_DEVICE_NAME_MAX]);

#endif
