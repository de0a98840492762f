/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_map.c - samples transformed by a function of the caller. */
#include "base/host_state.h"
#include "data/dataset.h"

#include <string.h>

typedef struct map {
    mf_dataset base;
    mf_dataset *inner;
    mf_map_fn *fn;
    void *ctx;
    mf_scratch *scratch; /* pointers to all columns, then their memory: input, output */
} map;

static mf_status map_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                          void *const *columns)
{
    const map *m = (const map *)set;
    const int n_in = m->inner->n_columns, n = n_in + set->n_columns;
    mf_scratch_block *block;
    void **in, **out;
    mf_status st;
    char *room;

    MF_CALLBACK;
    MF_TRY(mf_scratch_take(m->scratch, &block));
    in = (void **)block->data;
    out = in + n_in;
    room = block->data +
           ((size_t)n * sizeof *in + MF_SAMPLE_ALIGN - 1) / MF_SAMPLE_ALIGN * MF_SAMPLE_ALIGN;
    (void)mf_dataset_lay_out(set, mf_dataset_lay_out(m->inner, room, in), out);
    for (int i = 0; i < set->n_columns; i++)
        out[i] = columns[i] ? columns[i] : out[i];
    st = m->inner->ops->read(m->inner, epoch, index, in);
    if (st == MF_OK)
        st = m->fn(m->ctx, epoch, mf_dataset_sample_id(m->inner, index), (const void *const *)in,
                   out);
    mf_scratch_give(m->scratch, block);
    return st;
}

static int64_t map_sample_id(const mf_dataset *set, int64_t index)
{
    return mf_dataset_sample_id(((const map *)set)->inner, index);
}

static int64_t dataset_map_file(const mf_dataset *set, int64_t index)
{
    return mf_dataset_file(((const map *)set)->inner, index);
}

static void map_deinit(mf_dataset *set)
{
    map *m = (map *)set;

    if (m->scratch)
        mf_scratch_deinit(m->scratch);
    mf_dataset_unref(m->inner);
}

static const mf_dataset_ops map_ops = {
    .read = map_read, .sample_id = map_sample_id, .file = dataset_map_file, .deinit = map_deinit
};

static mf_status dataset_map_fill(map *m, const mf_column *columns, int n)
{
    const size_t pointers = (size_t)(n + m->inner->n_columns) * sizeof(void *);

    m->base.count = m->inner->count;
    m->base.id_count = m->inner->id_count;
    m->base.varies = true; /* the function receives the epoch */
    for (int i = 0; i < n; i++) {
        mf_shape shape;

        MF_TRY(mf_shape_from_dims(columns[i].dims, columns[i].rank, &shape));
        MF_TRY(mf_dataset_set_column(&m->base, i, columns[i].name, columns[i].dtype, &shape));
    }
    m->scratch = MF_ARENA_NEW(m->base.arena, mf_scratch);
    if (!m->scratch)
        return MF_NOMEM("a data set");
    mf_scratch_init(m->scratch, pointers + MF_SAMPLE_ALIGN + mf_dataset_sample_bytes(&m->base) +
                                    mf_dataset_sample_bytes(m->inner));
    m->base.classes = m->inner->classes;
    m->base.files = m->inner->files;
    m->base.n_files = m->inner->n_files;
    if (m->inner->class_names)
        MF_TRY(mf_dataset_set_classes(&m->base, m->inner->class_names, m->inner->classes));
    return MF_OK;
}

mf_status mf_dataset_map(mf_dataset *set, const mf_column *columns, int n_columns, mf_map_fn *fn,
                         void *ctx, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);
    MF_NEED_ARRAY(columns, n_columns);
    for (int i = 0; i < n_columns; i++)
        MF_NEED(columns[i].name);
    MF_NEED_FUNCTION(fn);

    map *m;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_dataset_new(&map_ops, sizeof *m, n_columns, &m));
    m->inner = mf_dataset_ref(set);
    m->fn = fn;
    m->ctx = ctx;
    st = dataset_map_fill(m, columns, n_columns);
    if (st != MF_OK) {
        mf_dataset_unref(&m->base);
        return st;
    }
    *out = &m->base;
    return MF_OK;
}
