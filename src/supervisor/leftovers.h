/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.h - files of processes that were killed and could not remove them. */
#ifndef MF_SUPERVISOR_LEFTOVERS_H
#define MF_SUPERVISOR_LEFTOVERS_H

#include "base/status.h"

/* Remove, of this user and this host: stores of launched jobs that no process uses any more, and
 * shared memory and unfinished boards whose maker is gone. Fails as finding the boards does; what
 * cannot be removed is logged. */
MF_MUST mf_status mf_leftovers_sweep(void);

/* Remove a folder, its files, and as many levels of folders in it. Links are not followed. What
 * cannot be removed is logged. */
void mf_leftovers_remove_tree(int parent, const char *name, int depth);

#endif
