/* SPDX-License-Identifier: Apache-2.0 */
/* file_slices.c - assigns the files of a data set to the shards of a batch, and orders the samples
 * of an epoch. */
#include "data/file_slices.h"

#include "data/order.h"
#include "graph/shard.h"

#include <stdlib.h>
#include <string.h>

struct mf_slices {
    const mf_dataset *set;
    int64_t n_streams, n_files;
    int64_t *samples; /* samples grouped by file */
    int64_t *file_begin; /* [n_files + 1]: first sample of each file */
    int64_t *files; /* files grouped by stream, ascending in each */
    int64_t *stream_begin; /* [n_streams + 1]: first file of each stream */
    /* of one epoch */
    int64_t *queue; /* samples grouped by stream, in their order */
    int64_t *next, *end; /* by stream: its remaining part */
    int64_t *mixed; /* [n_files]: the files of a stream, shuffled */
};

/* ---- assignment of files to streams ---- */

/* Counting sort of 0 .. n-1 by key, stable: those of key k are out[begin[k] .. begin[k+1]). begin:
 * zeros, one more than there are keys. */
static void sort_by_key(const int64_t *key, int64_t n, int64_t keys, int64_t *begin, int64_t *out)
{
    int64_t *at = begin + 1; /* next free position of each key; finally its end */
    int64_t before = 0;

    for (int64_t i = 0; i < n; i++)
        at[key[i]]++;
    for (int64_t k = 0; k < keys; k++) {
        const int64_t here = at[k];

        at[k] = before;
        before += here;
    }
    for (int64_t i = 0; i < n; i++)
        out[at[key[i]]++] = i;
}

static void sort_samples(mf_slices *s)
{
    int64_t *file = s->queue; /* borrowed: not used yet */

    for (int64_t i = 0; i < s->set->count; i++)
        file[i] = mf_dataset_file(s->set, i);
    sort_by_key(file, s->set->count, s->n_files, s->file_begin, s->samples);
}

typedef struct sized {
    int64_t file, samples;
} sized;

static int largest_first(const void *a, const void *b)
{
    const sized *x = a, *y = b;

    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return x->file < y->file ? -1 : x->file > y->file;
}

/* Greedy: the largest files first, each to the stream with the fewest samples so far. owner: by
 * file. */
static void file_slices_assign(const mf_slices *s, sized *files, int64_t *load, int64_t *owner)
{
    for (int64_t f = 0; f < s->n_files; f++)
        files[f] = (sized){ f, s->file_begin[f + 1] - s->file_begin[f] };
    qsort(files, (size_t)s->n_files, sizeof *files, largest_first);
    for (int64_t i = 0; i < s->n_files; i++) {
        int64_t least = 0;

        for (int64_t k = 1; k < s->n_streams; k++)
            least = load[k] < load[least] ? k : least;
        load[least] += files[i].samples;
        owner[files[i].file] = least;
    }
}

static mf_status assign_files(mf_slices *s)
{
    sized *files = mf_calloc(s->n_files, sizeof *files);
    int64_t *load = mf_calloc(s->n_streams, sizeof *load);
    int64_t *owner = s->mixed; /* borrowed: not used yet */
    const mf_status st = files && load ? MF_OK : MF_NOMEM("slices");

    if (st == MF_OK) {
        file_slices_assign(s, files, load, owner);
        sort_by_key(owner, s->n_files, s->n_streams, s->stream_begin, s->files);
    }
    mf_free(files);
    mf_free(load);
    return st;
}

mf_status mf_slices_new(const mf_dataset *set, int64_t streams, mf_slices **out)
{
    mf_slices *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("slices");
    s->set = set;
    s->n_streams = streams;
    s->n_files = set->n_files > 0 ? set->n_files : 1;
    s->samples = mf_calloc(set->count, sizeof *s->samples);
    s->file_begin = mf_calloc(s->n_files + 1, sizeof *s->file_begin);
    s->files = mf_calloc(s->n_files, sizeof *s->files);
    s->stream_begin = mf_calloc(streams + 1, sizeof *s->stream_begin);
    s->queue = mf_calloc(set->count, sizeof *s->queue);
    s->next = mf_calloc(streams, sizeof *s->next);
    s->end = mf_calloc(streams, sizeof *s->end);
    s->mixed = mf_calloc(s->n_files, sizeof *s->mixed);
    st = s->samples && s->file_begin && s->files && s->stream_begin && s->queue && s->next &&
                 s->end && s->mixed
             ? MF_OK
             : MF_NOMEM("slices");
    if (st == MF_OK) {
        sort_samples(s);
        st = assign_files(s);
    }
    if (st != MF_OK) {
        mf_slices_free(s);
        return st;
    }
    *out = s;
    return MF_OK;
}

void mf_slices_free(mf_slices *s)
{
    if (!s)
        return;
    mf_free(s->samples);
    mf_free(s->file_begin);
    mf_free(s->files);
    mf_free(s->stream_begin);
    mf_free(s->queue);
    mf_free(s->next);
    mf_free(s->end);
    mf_free(s->mixed);
    mf_free(s);
}

/* ---- an epoch ---- */

static void fill_queues(mf_slices *s, mf_philox *p)
{
    int64_t at = 0;

    for (int64_t k = 0; k < s->n_streams; k++) {
        const int64_t n = s->stream_begin[k + 1] - s->stream_begin[k];

        memcpy(s->mixed, s->files + s->stream_begin[k], (size_t)n * sizeof *s->mixed);
        mf_order_mix(p, s->mixed, n);
        s->next[k] = at;
        for (int64_t i = 0; i < n; i++) {
            const int64_t *begin = s->file_begin + s->mixed[i], m = begin[1] - begin[0];

            memcpy(s->queue + at, s->samples + begin[0], (size_t)m * sizeof *s->queue);
            mf_order_mix(p, s->queue + at, m);
            at += m;
        }
        s->end[k] = at;
    }
}

static int64_t longest_stream(const mf_slices *s)
{
    int64_t best = 0;

    for (int64_t k = 1; k < s->n_streams; k++)
        best = s->end[k] - s->next[k] > s->end[best] - s->next[best] ? k : best;
    return best;
}

/* Takes n samples for a shard; there are as many. */
static void file_slices_take(mf_slices *s, int64_t stream, int64_t n, int64_t *out)
{
    while (n > 0) {
        const int64_t left = s->end[stream] - s->next[stream], m = n < left ? n : left;

        memcpy(out, s->queue + s->next[stream], (size_t)m * sizeof *out);
        s->next[stream] += m;
        out += m;
        n -= m;
        if (n > 0)
            stream = longest_stream(s);
    }
}

/* A batch of `samples` samples, each shard's from its stream. */
static void file_slices_take_batch(mf_slices *s, int64_t samples, int64_t *out)
{
    for (int64_t k = 0; k < s->n_streams; k++) {
        const int64_t from = mf_shard_begin(samples, s->n_streams, k);

        file_slices_take(s, k, mf_shard_begin(samples, s->n_streams, k + 1) - from, out + from);
    }
}

mf_status mf_slicing_check(mf_slicing slice)
{
    if (slice == MF_SLICE_ELEMENT || slice == MF_SLICE_FILE || slice == MF_SLICE_FILE_BATCH)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "invalid slicing %d: see mf_slicing", (int)slice);
}

void mf_slices_order(mf_slices *s, uint64_t seed, uint64_t epoch, int64_t batch, bool in_turn,
                     int64_t *order)
{
    const uint64_t per_epoch = (uint64_t)((s->set->count + batch - 1) / batch);
    mf_philox p = mf_philox_init(seed ^ 0x736c69636573u, epoch); /* "slices" */

    fill_queues(s, &p);
    for (uint64_t b = 0; b < per_epoch; b++) {
        const int64_t first = (int64_t)b * batch, left = s->set->count - first;
        const int64_t samples = left < batch ? left : batch;

        if (in_turn)
            file_slices_take(s, (int64_t)((epoch * per_epoch + b) % (uint64_t)s->n_streams),
                             samples, order + first);
        else
            file_slices_take_batch(s, samples, order + first);
    }
}

/* ---- queries ---- */

const int64_t *mf_slices_files(const mf_slices *s, int64_t stream, int64_t *n)
{
    *n = s->stream_begin[stream + 1] - s->stream_begin[stream];
    return s->files + s->stream_begin[stream];
}

/* FNV-1a, over numbers. */
static uint64_t add_to_hash(uint64_t hash, int64_t x)
{
    return (hash ^ (uint64_t)x) * UINT64_C(0x100000001b3);
}

int64_t mf_slices_fingerprint(const mf_slices *s)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = add_to_hash(hash, s->n_streams);
    for (int64_t f = 0; f < s->n_files; f++) {
        hash = add_to_hash(hash, s->file_begin[f + 1] - s->file_begin[f]);
        for (int64_t i = s->file_begin[f]; i < s->file_begin[f + 1]; i++)
            hash = add_to_hash(hash, mf_dataset_sample_id(s->set, s->samples[i]));
    }
    return (int64_t)(hash >> 1);
}
