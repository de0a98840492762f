/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - what a data set is on the inside: a vtable, columns of fixed size, a count.
 *
 * A kind of data set embeds mf_dataset as its first member and is made by mf_dataset_new(), which
 * gives it an arena for everything that lives as long as it does. It is changed only by whoever
 * makes it; afterwards any number of threads read. Samples are plain bytes (no string columns), so
 * a batch is a memcpy per sample. */
#ifndef MF_DATA_DATASET_H
#define MF_DATA_DATASET_H

#include "base/mem.h"
#include "tensor/tensor.h"

#include <meshflow/data.h>

enum {
    MF_DATASET_COLUMNS = 64, /* at most */
    MF_SAMPLE_ALIGN = 16, /* of a column in memory for one sample, as malloc has it */
};

typedef struct mf_dataset_ops {
    /* One sample; index is in range. columns[i] NULL: not wanted. Thread: any. */
    mf_status (*read)(const mf_dataset *set, uint64_t epoch, int64_t index, void *const *columns);
    /* Optional: the id of a sample; without it the index. */
    int64_t (*sample_id)(const mf_dataset *set, int64_t index);
    /* Optional: which of the set's files a sample is from; without it the first. */
    int64_t (*file)(const mf_dataset *set, int64_t index);
    /* Optional: release what the arena does not. */
    void (*deinit)(mf_dataset *set);
} mf_dataset_ops;

struct mf_dataset {
    const mf_dataset_ops *ops;
    atomic_int refs;
    mf_arena *arena;
    int64_t count;
    int64_t id_count; /* ids are below it; at least count */
    mf_column *columns;
    size_t *bytes; /* of one sample, by column */
    int n_columns;
    int64_t classes;
    const char *const *class_names; /* NULL, or one for each class */
    /* Names of the elements of the first column, as the header of a table has them; or NULL. */
    const char *const *fields;
    int64_t n_fields;
    bool varies; /* samples depend on the epoch */
    /* Paths of what samples are read from whenever they are asked for (NULL: what is in memory), of
     * the set that is read in the end. n_files 0: all is in memory. */
    const char *const *files;
    int64_t n_files;
};

/* A zeroed struct of `size` bytes that begins with an mf_dataset, with one reference and room for
 * n_columns. Owns: mf_dataset_unref(), also when it is only half made. INVALID_ARGUMENT: no
 * columns, too many. */
MF_MUST mf_status mf_dataset_new(const mf_dataset_ops *ops, size_t size, int n_columns, void *out);
/* Say what column i is. INVALID_ARGUMENT: no plain type, too large. */
MF_MUST mf_status mf_dataset_set_column(mf_dataset *set, int i, const char *name, mf_dtype dtype,
                                        const mf_shape *shape);
/* Columns, classes and files as another set has them, which has to live as long. */
MF_MUST mf_status mf_dataset_like(mf_dataset *set, const mf_dataset *other);
/* Names are copied; one for each class. */
MF_MUST mf_status mf_dataset_set_classes(mf_dataset *set, const char *const *names, int64_t n);
/* Names are copied. */
MF_MUST mf_status mf_dataset_set_fields(mf_dataset *set, const char *const *names, int64_t n);
/* -1 when there is none. */
int mf_dataset_find_column(const mf_dataset *set, const char *name);
/* Bytes of all columns of one sample, each rounded up to MF_SAMPLE_ALIGN. */
size_t mf_dataset_sample_bytes(const mf_dataset *set);
/* The file that a sample is from, below max(1, n_files). */
static inline int64_t mf_dataset_file(const mf_dataset *set, int64_t index)
{
    return set->ops->file ? set->ops->file(set, index) : 0;
}
/* Point at one column after the other in memory for one sample; returns what is behind the last. */
char *mf_dataset_lay_out(const mf_dataset *set, char *at, void **columns);

/* A cache of the set where samples are read from files and all of them fit into the share of the
 * memory that they may take; else the set. Owns: mf_dataset_unref(). */
MF_MUST mf_status mf_dataset_cache_if_it_fits(mf_dataset *set, mf_dataset **out);

/* ---- scratch: memory for one sample, for kinds that make a sample out of another ---- */

typedef struct mf_scratch_block {
    struct mf_scratch_block *next;
    _Alignas(MF_SAMPLE_ALIGN) char data[];
} mf_scratch_block;

/* A stack of blocks, as many as threads ever read at once. */
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
