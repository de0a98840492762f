/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - writes a ledger, and truncates it for resuming. */
#include "data/ledger.h"

#include "base/file.h"
#include "data/dataset.h"
#include "formats/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RECORD = 1 << 30 };

struct mf_ledger {
    mf_writer *writer;
    mf_buf record; /* under construction */
    int64_t last_step; /* -1: none */
};

/* ---- the data set ---- */

/* Bit set of the ids of a set; *out stays NULL if it has all of them. */
static mf_status collect_ids(const mf_dataset *set, unsigned char **out)
{
    *out = NULL;
    if (set->count == set->id_count)
        return MF_OK;
    *out = mf_calloc((set->id_count + 7) / 8, 1);
    if (!*out)
        return MF_NOMEM("a ledger");
    for (int64_t i = 0; i < set->count; i++) {
        const int64_t id = mf_dataset_sample_id(set, i);

        (*out)[id / 8] |= (unsigned char)(1 << id % 8);
    }
    return MF_OK;
}

static mf_status make_header(const char *name, const mf_dataset *set, const mf_iterator_options *o,
                             mf_buf *out)
{
    unsigned char *ids;
    mf_ledger_info info = {
        .name = name,
        .count = set->count,
        .id_count = set->id_count,
        .seed = o->seed,
        .batch = o->batch,
        .drop_partial = o->drop_partial,
        .sliced = o->slice != MF_SLICE_ELEMENT ? (o->shards > 0 ? o->shards : 1) : 0,
    };

    MF_TRY(collect_ids(set, &ids));
    info.ids = ids;
    mf_ledger_encode_info(&info, out);
    mf_free(ids);
    return mf_buf_finish(out);
}

/* Slices by file depend on the number of shards and the batch size. */
static mf_status compare_slices(const char *path, const mf_ledger_info *a, const mf_ledger_info *b)
{
    static const char *const kinds[] = { "element", "file" };

    if ((a->sliced > 0) != (b->sliced > 0))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%s' belongs to data sliced by %s, but now it is sliced by %s", path,
                       kinds[a->sliced > 0], kinds[b->sliced > 0]);
    if (a->sliced > 0 && (a->sliced != b->sliced || a->batch != b->batch))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%s' belongs to batches of %lld, sliced by file over %lld shards; "
                       "batches of %lld over %lld shards have another order",
                       path, (long long)a->batch, (long long)a->sliced, (long long)b->batch,
                       (long long)b->sliced);
    return MF_OK;
}

/* Order and samples must be the same. Names may change, and the batch size, if the order does not
 * depend on it. */
static mf_status ledger_compare(const char *path, const mf_buf *have, const mf_buf *want)
{
    mf_ledger_info a, b;
    size_t len;

    MF_TRY(mf_ledger_decode_info(have->data, have->len, &a, &len));
    MF_TRY(mf_ledger_decode_info(want->data, want->len, &b, &len));
    if (a.count != b.count || a.id_count != b.id_count)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%s' belongs to %lld samples of %lld, but now there are %lld of %lld", path,
                       (long long)a.count, (long long)a.id_count, (long long)b.count,
                       (long long)b.id_count);
    if (a.seed != b.seed)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%s' belongs to an order with seed %llu, but the seed is now %llu", path,
                       (unsigned long long)a.seed, (unsigned long long)b.seed);
    MF_TRY(compare_slices(path, &a, &b));
    if (!a.ids != !b.ids || (a.ids && memcmp(a.ids, b.ids, ((size_t)a.id_count + 7) / 8) != 0))
        return MF_FAIL(MF_FAILED_PRECONDITION, "'%s' belongs to other samples of the same set",
                       path);
    return MF_OK;
}

mf_status mf_ledger_read_header(mf_reader *r, mf_buf *out)
{
    const mf_status st = mf_record_read(r, MAX_RECORD, out);

    return st == MF_OUT_OF_RANGE ? MF_FAIL(MF_DATA_LOSS, "'%s' is empty", mf_reader_path(r)) : st;
}

/* ---- resume ---- */

/* Offset of the record after last_step. A torn record at the end is after it, too. */
static mf_status ledger_find_cut(mf_reader *r, const mf_buf *header, int64_t last_step,
                                 int64_t *cut, int64_t *found)
{
    mf_ledger_entry e = { 0 };
    mf_buf record = { 0 };
    mf_status st;

    *found = -1;
    MF_TRY_TO(done, mf_ledger_read_header(r, &record));
    MF_TRY_TO(done, ledger_compare(mf_reader_path(r), &record, header));
    for (*cut = mf_reader_offset(r); mf_record_read(r, MAX_RECORD, &record) == MF_OK;
         *cut = mf_reader_offset(r)) {
        MF_TRY_TO(done, mf_ledger_decode_entry(record.data, record.len, &e));
        if (e.step > last_step)
            break;
        *found = e.step;
    }
done:
    mf_buf_deinit(&record);
    mf_free(e.ids);
    return st;
}

/* How a ledger is opened. */
typedef struct opening {
    int64_t last_step; /* resume after it; -1: start a new ledger */
    bool may_be_incomplete; /* earlier steps may be missing */
} opening;

static mf_status cut_back(const char *path, const mf_buf *header, const opening *o, mf_ledger *l)
{
    mf_reader *r;
    int64_t cut = 0;
    mf_status st;

    MF_TRY(mf_reader_open(path, MF_PLAIN, &r));
    st = ledger_find_cut(r, header, o->last_step, &cut, &l->last_step);
    mf_reader_close(r);
    if (st == MF_OK && l->last_step < o->last_step && !o->may_be_incomplete)
        st = MF_FAIL(MF_DATA_LOSS, "'%s' ends at step %lld, but training resumes after step %lld",
                     path, (long long)l->last_step, (long long)o->last_step);
    if (st == MF_OK && truncate(path, cut) != 0)
        st = mf_errno_status(errno, "cut", path);
    return st;
}

static mf_status ledger_open_ledger(const char *dir, const char *name, const mf_dataset *set,
                                    const mf_iterator_options *options, const opening *o,
                                    mf_ledger **out)
{
    mf_ledger *l = mf_calloc(1, sizeof *l);
    char path[4096];
    mf_status st;

    *out = NULL;
    if (!l)
        return MF_NOMEM("a ledger");
    l->last_step = -1;
    if (snprintf(path, sizeof path, "%s/" MF_LEDGER_FILE, dir) >= (int)sizeof path) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the path of the ledger is too long");
        goto done;
    }
    MF_TRY_TO(done, make_header(name, set, options, &l->record));
    if (o->last_step >= 0)
        MF_TRY_TO(done, cut_back(path, &l->record, o, l));
    MF_TRY_TO(done, mf_writer_open(path, MF_PLAIN, o->last_step >= 0, &l->writer));
    if (o->last_step < 0) {
        MF_TRY_TO(done, mf_record_write(l->writer, l->record.data, l->record.len));
        MF_TRY_TO(done, mf_writer_flush(l->writer, false));
    }
done:
    if (st != MF_OK) {
        mf_error why;

        mf_error_save(st, &why);
        (void)!mf_ledger_close(l);
        return mf_error_restore(&why);
    }
    *out = l;
    return MF_OK;
}

mf_status mf_ledger_open(const char *dir, const char *name, const mf_dataset *set,
                         const mf_iterator_options *options, int64_t last_step, mf_ledger **out)
{
    return ledger_open_ledger(dir, name, set, options, &(opening){ .last_step = last_step }, out);
}

mf_status mf_ledger_take_over(const char *dir, const char *name, const mf_dataset *set,
                              const mf_iterator_options *options, int64_t last_step,
                              mf_ledger **out)
{
    return ledger_open_ledger(dir, name, set, options,
                              &(opening){ last_step, .may_be_incomplete = true }, out);
}

int64_t mf_ledger_last_step(const mf_ledger *l)
{
    return l->last_step;
}

mf_status mf_ledger_add(mf_ledger *l, int64_t step, const mf_batch *batch, int64_t n_skipped)
{
    if (l->last_step >= 0 && step != l->last_step && step != l->last_step + 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the ledger is at step %lld; step %lld does not follow",
                       (long long)l->last_step, (long long)step);
    mf_buf_clear(&l->record);
    mf_ledger_encode_entry(step, batch, n_skipped, &l->record);
    MF_TRY(mf_buf_finish(&l->record));
    l->last_step = step;
    return mf_record_write(l->writer, l->record.data, l->record.len);
}

mf_status mf_ledger_flush(mf_ledger *l, bool sync)
{
    return mf_writer_flush(l->writer, sync);
}

mf_status mf_ledger_close(mf_ledger *l)
{
    mf_status st;

    if (!l)
        return MF_OK;
    st = mf_writer_close(l->writer);
    mf_buf_deinit(&l->record);
    mf_free(l);
    return st;
}
