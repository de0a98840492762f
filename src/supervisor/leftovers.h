/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.h - removes files of processes that were killed before they could remove them. */
#ifndef MF_SUPERVISOR_LEFTOVERS_H
#define MF_SUPERVISOR_LEFTOVERS_H

#include "base/status.h"

/* Removes, for this user on this host: stores of launched jobs that no process uses, and shared
 * memory and unfinished status pages whose creator has exited. Fails as finding the status pages
 * does; a file that cannot be removed is logged. */
MF_MUST mf_status mf_leftovers_sweep(void);

/* Removes a folder, its files, and `depth` levels of folders in it. Links are not followed. A file
 * that cannot be removed is logged. */
void mf_leftovers_remove_tree(int parent, const char *name, int depth);

#endif
