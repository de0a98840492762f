/* SPDX-License-Identifier: Apache-2.0 */
/* quota.h - the memory that this process may use: one limit for tensors (tensor/buffer.h), for the
 * heap (mem.h), and for bytes that libraries hold for us. The heap that was in use when the limit
 * was set does not count.
 *
 * Blocks of a megabyte or more, and every block that a thread takes while it runs a step, are
 * refused beyond the limit. Small blocks of other threads only count. */
#ifndef MF_BASE_QUOTA_H
#define MF_BASE_QUOTA_H

#include "base/status.h"

/* The limit in bytes; 0: the machine's memory, or the control group's (the default), or the
 * parameter buffer_limit_mib. */
void mf_quota_set(int64_t bytes);
int64_t mf_quota_limit(void);

/* Counts until it is given back. Fails: RESOURCE_EXHAUSTED. Thread: any. */
MF_MUST mf_status mf_quota_take(int64_t bytes);
void mf_quota_give_back(int64_t bytes);

/* Bytes in use, and bytes that may still be taken. */
int64_t mf_quota_used(void);
int64_t mf_quota_room(void);
/* The most that was in use since mf_quota_watch(). */
int64_t mf_quota_peak(void);
void mf_quota_watch(void);

/* mem.c: a block of `bytes` may be taken from the heap. Never allocates. */
bool mf_quota_allows(int64_t bytes);
/* mem.c: the heap holds that much more, or less. */
void mf_quota_heap(int64_t bytes);

/* A step is over: give free heap memory back to the system if it has become much. */
void mf_quota_settle(void);

#endif
