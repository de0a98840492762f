/* SPDX-License-Identifier: Apache-2.0 */
/* quota.h - the memory limit of this process (`--memory`): one limit for tensors (tensor/buffer.h),
 * the heap (mem.h), and memory that libraries hold on our behalf. Heap memory in use when the limit
 * was set does not count.
 *
 * Beyond the limit, blocks of a megabyte or more, and every block that a thread allocates while it
 * runs a step, are refused. Small blocks of other threads are counted but not refused. */
#ifndef MF_BASE_QUOTA_H
#define MF_BASE_QUOTA_H

#include "base/status.h"

/* The limit in bytes; 0: the parameter buffer_limit_mib, else the memory of the machine or of the
 * control group. */
void mf_quota_set(int64_t bytes);
int64_t mf_quota_limit(void);

/* Count bytes until mf_quota_give_back(). Fails: RESOURCE_EXHAUSTED. Thread: any. */
MF_MUST mf_status mf_quota_take(int64_t bytes);
void mf_quota_give_back(int64_t bytes);

/* Bytes in use, and bytes left. */
int64_t mf_quota_used(void);
int64_t mf_quota_room(void);
/* Maximum in use since mf_quota_watch(). */
int64_t mf_quota_peak(void);
void mf_quota_watch(void);

/* For mem.c: may a block of `bytes` be allocated from the heap? Never allocates. */
bool mf_quota_allows(int64_t bytes);
/* For mem.c: the heap has grown by `bytes` (negative: shrunk). */
void mf_quota_heap(int64_t bytes);

/* After a step: return free heap memory to the system if it has become much. */
void mf_quota_settle(void);

#endif
