/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h - what the optimizer keeps lies in files of a folder, mapped into memory: the system
 * brings pages in when they are updated, and takes them out when memory is needed for something
 * else. Files have no names, so they go with the process. Small slots stay in memory. */
#ifndef MF_TRAIN_STEP_OFFLOAD_H
#define MF_TRAIN_STEP_OFFLOAD_H

#include "train/step/trainer.h"

enum { MF_OFFLOAD_MIN = 64 << 10 }; /* bytes of a slot that is worth it */

/* Can it be? MF_OK also where nothing is wanted (options.offload is NULL). Fails: INVALID_ARGUMENT
 * (the folder), UNIMPLEMENTED (others than this process keep what the optimizer needs). */
MF_MUST mf_status mf_offload_check(const mf_trainer *t);
/* Slots lie in files from now on; those that do already stay where they are. A slot leaves its file
 * when it is updated while somebody else holds its value, so this is called again and again.
 * Fails: RESOURCE_EXHAUSTED (the disk is full). */
MF_MUST mf_status mf_offload_slots(mf_trainer *t);
/* A copy, which lies in a file as well. */
MF_MUST mf_status mf_offload_clone(const char *dir, const mf_tensor *value, mf_tensor *out);
bool mf_offload_has(const mf_tensor *value);

#endif
