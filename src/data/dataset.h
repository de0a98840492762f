/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - internals of a data set: a vtable, columns of fixed size, a count.
 *
 * An implementation embeds mf_dataset as its first member and is created by mf_dataset_new(), which
 * provides an arena with the lifetime of the set. A set is immutable once it is made; any number of
 * threads read it. Samples are plain bytes (no string columns), so a batch costs one memcpy per
 * sample. */
#ifndef MF_DATA_DATASET_H
#define MF_DATA_DATASET_H

#include "base/mem.h"
#include "tensor/tensor.h"

#include <meshflow/data.h>

enum {
    MF_DATASET_COLUMNS = 64, /* maximum number of columns */
    MF_SAMPLE_ALIGN = 16, /* alignment of a column in memory for one sample, like malloc */
};

typedef struct mf_dataset_ops {
    /* Reads one sample; index is in range. columns[i] NULL: not wanted. Thread: any. */
    mf_status (*read)(const mf_dataset *set, uint64_t epoch, int64_t index, void *const *columns);
    /* Optional: the id of a sample; default: the index. */
    int64_t (*sample_id)(const mf_dataset *set, int64_t index);
    /* Optional: index of the sample's file; default: the first. */
    int64_t (*file)(const mf_dataset *set, int64_t index);
    /* Optional: releases what is not in the arena. */
    void (*deinit)(mf_dataset *set);
} mf_dataset_ops;

struct mf_dataset {
    const mf_dataset_ops *ops;
    atomic_int refs;
    mf_arena *arena;
    int64_t count;
    int64_t id_count; /* upper bound of ids; at least count */
    mf_column *columns;
    size_t *bytes; /* size of one sample, by column */
    int n_columns;
    int64_t classes;
    const char *const *class_names; /* NULL, or one per class */
    /* Names of the elements of the first column, from the header of a table; or NULL. */
    const char *const *fields;
    int64_t n_fields;
    bool varies; /* samples differ between epochs */
    /* Paths of the files that samples are read from on demand, for the innermost set (NULL: in
     * memory). n_files 0: everything is in memory. */
    const char *const *files;
    int64_t n_files;
};

/* A zeroed struct of `size` bytes that begins with an mf_dataset, with one reference and room for
 * n_columns. Owns: mf_dataset_unref(), even if it is incomplete. Fails: INVALID_ARGUMENT (no
 * columns, too many). */
MF_MUST mf_status mf_dataset_new(const mf_dataset_ops *ops, size_t size, int n_columns, void *out);
/* Defines column i. Fails: INVALID_ARGUMENT (not a plain type, too large). */
MF_MUST mf_status mf_dataset_set_column(mf_dataset *set, int i, const char *name, mf_dtype dtype,
                                        const mf_shape *shape);
/* Copies columns, classes and files of another set, which must live as long. */
MF_MUST mf_status mf_dataset_like(mf_dataset *set, const mf_dataset *other);
/* Names are copied; one per class. */
MF_MUST mf_status mf_dataset_set_classes(mf_dataset *set, const char *const *names, int64_t n);
/* Names are copied. */
MF_MUST mf_status mf_dataset_set_fields(mf_dataset *set, const char *const *names, int64_t n);
/* -1: not found. */
int mf_dataset_find_column(const mf_dataset *set, const char *name);
/* Bytes of all columns of one sample, each rounded up to MF_SAMPLE_ALIGN. */
size_t mf_dataset_sample_bytes(const mf_dataset *set);
/* Index of the sample's file, below max(1, n_files). */
static inline int64_t mf_dataset_file(const mf_dataset *set, int64_t index)
{
    return set->ops->file ? set->ops->file(set, index) : 0;
}
/* Sets `columns` to consecutive columns in memory for one sample; returns the end. */
char *mf_dataset_lay_out(const mf_dataset *set, char *at, void **columns);

/* A cache of the set if samples are read from files and all of them fit into their share of the
 * memory; otherwise the set itself. Owns: mf_dataset_unref(). */
MF_MUST mf_status mf_dataset_cache_if_it_fits(mf_dataset *set, mf_dataset **out);

/* ---- scratch: memory for one sample, for sets that transform another set's samples ---- */

typedef struct mf_scratch_block {
    struct mf_scratch_block *next;
    _Alignas(MF_SAMPLE_ALIGN) char data[];
} mf_scratch_block;

/* A stack of blocks: as many as there are concurrent readers. */
typedef struct mf_scratch {
    size_t bytes;
    mf_scratch_block *free; /* guarded by lock */
    atomic_flag lock;
} mf_scratch;

void mf_scratch_init(mf_scratch *s, size_t bytes);
void mf_scratch_deinit(mf_scratch *s);
MF_MUST mf_status mf_scratch_take(mf_scratch *s, mf_scratch_block **out);
void mf_scratch_give(mf_scratch *s, mf_scratch_block *block);

#endif
