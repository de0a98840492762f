/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_join.c - several sets as one: concatenated or, by a view of that, interleaved. Ids of
 * later sets follow those of earlier ones. */
#include "base/host_state.h"
#include "data/dataset_view.h"

#include <string.h>

typedef struct join {
    mf_dataset base;
    mf_dataset **sets;
    int64_t *starts; /* [n + 1]: index of each set's first sample */
    int64_t *id_starts; /* [n] */
    int64_t *file_starts; /* [n]; a set in memory has one file */
    int n;
} join;

static int find_set(const join *j, int64_t index)
{
    int low = 0, high = j->n - 1;

    while (low < high) {
        const int mid = (low + high + 1) / 2;

        if (j->starts[mid] <= index)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static mf_status join_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                           void *const *columns)
{
    const join *j = (const join *)set;
    const int s = find_set(j, index);

    return j->sets[s]->ops->read(j->sets[s], epoch, index - j->starts[s], columns);
}

static int64_t join_sample_id(const mf_dataset *set, int64_t index)
{
    const join *j = (const join *)set;
    const int s = find_set(j, index);

    return j->id_starts[s] + mf_dataset_sample_id(j->sets[s], index - j->starts[s]);
}

static int64_t join_file(const mf_dataset *set, int64_t index)
{
    const join *j = (const join *)set;
    const int s = find_set(j, index);

    return j->file_starts[s] + mf_dataset_file(j->sets[s], index - j->starts[s]);
}

static void join_deinit(mf_dataset *set)
{
    join *j = (join *)set;

    for (int i = 0; j->sets && i < j->n; i++)
        mf_dataset_unref(j->sets[i]);
}

static const mf_dataset_ops join_ops = {
    .read = join_read, .sample_id = join_sample_id, .file = join_file, .deinit = join_deinit
};

static mf_status check_equal(const mf_dataset *a, const mf_dataset *b, int which)
{
    bool same = a->n_columns == b->n_columns;

    for (int i = 0; same && i < a->n_columns; i++) {
        const mf_column *x = &a->columns[i], *y = &b->columns[i];

        if (strcmp(x->name, y->name) != 0 || x->dtype != y->dtype || x->rank != y->rank ||
            memcmp(x->dims, y->dims, (size_t)x->rank * sizeof x->dims[0]) != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "set %d cannot be joined to the first: its column %d, '%s', is not as "
                           "the first set's '%s'",
                           which, i, y->name, x->name);
    }
    return same ? MF_OK
                : MF_FAIL(MF_INVALID_ARGUMENT, "set %d has %d columns, the first set has %d", which,
                          b->n_columns, a->n_columns);
}

static mf_status dataset_join_files(join *j)
{
    int64_t n = 0;
    const char **files;

    for (int i = 0; i < j->n; i++) {
        j->file_starts[i] = n;
        n += j->sets[i]->n_files > 0 ? j->sets[i]->n_files : 1;
    }
    files = MF_ARENA_ARRAY(j->base.arena, const char *, n);
    if (!files)
        return MF_NOMEM("a data set");
    for (int i = 0; i < j->n; i++) {
        for (int64_t k = 0; k < j->sets[i]->n_files; k++)
            files[j->file_starts[i] + k] = j->sets[i]->files[k];
    }
    j->base.files = files;
    j->base.n_files = n;
    return MF_OK;
}

static mf_status dataset_join_fill(join *j, mf_dataset *const *sets, int n)
{
    int64_t count = 0, ids = 0;

    j->sets = MF_ARENA_ARRAY(j->base.arena, mf_dataset *, n);
    j->starts = MF_ARENA_ARRAY(j->base.arena, int64_t, n + 1);
    j->id_starts = MF_ARENA_ARRAY(j->base.arena, int64_t, n);
    j->file_starts = MF_ARENA_ARRAY(j->base.arena, int64_t, n);
    if (!j->sets || !j->starts || !j->id_starts || !j->file_starts)
        return MF_NOMEM("a data set");
    for (int i = 0; i < n; i++) {
        MF_TRY(check_equal(sets[0], sets[i], i));
        j->sets[j->n++] = mf_dataset_ref(sets[i]);
        j->starts[i] = count;
        j->id_starts[i] = ids;
        if (!mf_add_i64(count, sets[i]->count, &count) || !mf_add_i64(ids, sets[i]->id_count, &ids))
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many samples");
    }
    j->starts[n] = j->base.count = count;
    j->base.id_count = ids;
    MF_TRY(mf_dataset_like(&j->base, sets[0]));
    for (int i = 1; i < n; i++) {
        j->base.varies |= sets[i]->varies;
        j->base.classes = sets[i]->classes > j->base.classes ? sets[i]->classes : j->base.classes;
    }
    if (j->base.class_names && j->base.classes != sets[0]->classes)
        j->base.class_names = NULL;
    return dataset_join_files(j);
}

static mf_status join_new(mf_dataset *const *sets, int n, mf_dataset **out)
{
    join *j;
    mf_status st;

    MF_TRY(mf_dataset_new(&join_ops, sizeof *j, sets[0]->n_columns, &j));
    st = dataset_join_fill(j, sets, n);
    if (st != MF_OK) {
        mf_dataset_unref(&j->base);
        return st;
    }
    *out = &j->base;
    return MF_OK;
}

/* The interleaved order: `block` samples of each set that still has some, round-robin. */
static int64_t *take_turns(const join *j, int64_t block)
{
    int64_t *table = mf_calloc(j->base.count, sizeof *table), at = 0;
    int64_t *next = mf_calloc(j->n, sizeof *next);

    while (table && next && at < j->base.count) {
        for (int s = 0; s < j->n; s++) {
            const int64_t left = j->sets[s]->count - next[s], n = left < block ? left : block;

            for (int64_t i = 0; i < n; i++)
                table[at++] = j->starts[s] + next[s]++;
        }
    }
    if (!next) {
        mf_free(table);
        table = NULL;
    }
    mf_free(next);
    return table;
}

mf_status mf_dataset_interleave(mf_dataset *const *sets, int n_sets, int64_t block,
                                mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(out);
    MF_NEED_ALL(sets, n_sets);

    mf_dataset *joined;
    int64_t *table;
    mf_status st;

    *out = NULL;
    if (n_sets < 1 || block < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d sets with blocks of %lld cannot be interleaved",
                       n_sets, (long long)block);
    MF_TRY(join_new(sets, n_sets, &joined));
    if (block == 0) {
        *out = joined;
        return MF_OK;
    }
    table = take_turns((const join *)joined, block);
    st = table ? mf_view_new(joined, joined->count, table, out) : MF_NOMEM("a data set");
    mf_dataset_unref(joined);
    return st;
}
