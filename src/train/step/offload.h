/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h - the optimizer's slots are in files of a folder, mapped into memory: the system pages
 * them in for updates, and out when memory is needed otherwise. The files have no names, so they
 * vanish with the process. Small slots stay in memory. */
#ifndef MF_TRAIN_STEP_OFFLOAD_H
#define MF_TRAIN_STEP_OFFLOAD_H

#include "train/step/trainer.h"

enum { MF_OFFLOAD_MIN = 64 << 10 }; /* smallest slot that is offloaded, in bytes */

/* Is offloading possible? MF_OK also if it is not requested (options.offload is NULL). Fails:
 * INVALID_ARGUMENT (the folder), UNIMPLEMENTED (other processes hold slots). */
MF_MUST mf_status mf_offload_check(const mf_trainer *t);
/* Move slots into files; slots that are in files already stay there. A slot leaves its file when it
 * is updated while another reference to its value exists, so this is called after every step.
 * Fails: RESOURCE_EXHAUSTED (the disk is full). */
MF_MUST mf_status mf_offload_slots(mf_trainer *t);
/* A copy, which lies in a file as well. */
MF_MUST mf_status mf_offload_clone(const char *dir, const mf_tensor *value, mf_tensor *out);
bool mf_offload_has(const mf_tensor *value);

#endif
