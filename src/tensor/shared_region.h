/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.h - memory for large tensors that other processes of this user on the same host map
 * read-only: a value is passed to such a process by its offset, without a copy.
 *
 * A process has at most one region: mf_shared_region_open() creates it, and large buffers
 * (buffer.h) are allocated in it from then on. lender.h keeps lent memory unchanged until the other
 * process returns it. */
#ifndef MF_TENSOR_SHARED_REGION_H
#define MF_TENSOR_SHARED_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buffers of this size or larger are in the region. */
enum { MF_SHARED_REGION_MIN = 64 << 10 };

/* Thread: any. If it is unavailable, values are copied. */
void mf_shared_region_open(void);
/* Passed to other processes, which map it; -1: no region. */
int mf_shared_region_fd(void);
/* The offset of data in the region; false: it is elsewhere. */
bool mf_shared_region_find(const void *data, uint64_t *offset);

/* Pages for this many bytes; NULL: use heap memory. */
void *mf_shared_region_take(size_t bytes);
/* Returns false if the block is not in the region. Else frees it, and its pages at once. */
bool mf_shared_region_give(void *block, size_t bytes);

#endif
