/* SPDX-License-Identifier: Apache-2.0 */
/* ps_replica_table.h - the copies of parameter-server state that a task holds, so that the state
 * survives the loss of any one server: each server keeps its own slice and those of the server
 * before it, or of several, for the last two steps.
 *
 * Slices are cut again whenever servers join or are lost: a *generation* of slices is identified by
 * the epoch in which they were cut. */
#ifndef MF_DIST_PARAM_SERVER_PS_REPLICA_TABLE_H
#define MF_DIST_PARAM_SERVER_PS_REPLICA_TABLE_H

#include "base/buf.h"
#include "tensor/buffer.h"

/* What a copy contains; also on the wire. */
typedef struct mf_ps_copy_of {
    int64_t generation, slices; /* the number of its slices */
    int64_t slice, step;
} mf_ps_copy_of;

/* Of an area of shared memory, in shared memory: the step of the copy there. MF_PS_NO_COPY: it is
 * being written. */
typedef struct mf_ps_area_step {
    _Alignas(64) atomic_llong step;
} mf_ps_area_step;

enum { MF_PS_NO_COPY = -1 };

typedef struct mf_ps_replica_table {
    struct mf_ps_kept *kept;
    int64_t n, cap;
} mf_ps_replica_table;

/* Holds on to the bytes, the first `size` of their storage. An older copy of the slice than the
 * last two is dropped. */
MF_MUST mf_status mf_ps_replica_table_put(mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                          mf_buffer *bytes, size_t size);
/* The same for an area that its owner writes again and again: `of` says when it has a copy and of
 * which step. The bytes keep `of` in memory. */
MF_MUST mf_status mf_ps_replica_table_watch(mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                            const mf_ps_area_step *of, mf_buffer *bytes,
                                            size_t size);
/* The last step of this slice; MF_PS_NO_COPY: none. */
int64_t mf_ps_replica_table_last(const mf_ps_replica_table *c, int64_t generation, int64_t slice);
/* NULL: none. The owner of an area may be writing: find it again after use. */
const void *mf_ps_replica_table_find(const mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                     size_t *size);
/* All slices of this generation are set: earlier ones are not needed any more. */
void mf_ps_replica_table_forget_before(mf_ps_replica_table *c, int64_t generation);
/* The copies, one mf_ps_copy_of after the other. */
void mf_ps_replica_table_list(const mf_ps_replica_table *c, mf_buf *out);
void mf_ps_replica_table_deinit(mf_ps_replica_table *c);

/* Do these n copies contain all slices of a generation as of this step? The latest such generation;
 * -1: none. */
int64_t mf_ps_replica_table_choose(const mf_ps_copy_of *all, int64_t n, int64_t step,
                                   int64_t *slices);

#endif
