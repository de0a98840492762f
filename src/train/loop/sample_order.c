/* SPDX-License-Identifier: Apache-2.0 */
/* sample_order.c - names the order of the samples for checkpoints, checks it on resume, and chooses
 * the streams that a worker reads. */
#include "train/loop/sample_order.h"

#include "data/locality.h"
#include "train/loop/dist.h"

/* ---- the order ---- */

static mf_status sample_order_describe(const mf_dataset *set, const mf_iterator_options *order,
                                       mf_sliced *out)
{
    mf_slices *slices;

    *out = (mf_sliced){ 0 };
    if (order->slice == MF_SLICE_ELEMENT)
        return MF_OK;
    MF_TRY(mf_slices_new(set, order->shards, &slices));
    *out = (mf_sliced){ (int64_t)order->slice, order->batch, mf_slices_fingerprint(slices) };
    mf_slices_free(slices);
    return MF_OK;
}

static const char *sample_order_name_of(mf_sliced s)
{
    return s.by == MF_SLICE_ELEMENT ? "element" : s.by == MF_SLICE_FILE ? "file" : "file and batch";
}

mf_status mf_input_check_order(mf_trainer *t, const mf_dataset *set,
                               const mf_iterator_options *order)
{
    const mf_sliced was = t->sliced;
    mf_sliced now;

    MF_TRY(sample_order_describe(set, order, &now));
    if (t->step == 0) {
        t->sliced = now;
        return MF_OK;
    }
    if (was.by != now.by)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "training began with data sliced by %s, now it is sliced by %s: the order "
                       "is another; use --slice %s and the original strategy, or begin in "
                       "another folder",
                       sample_order_name_of(was), sample_order_name_of(now),
                       was.by == MF_SLICE_ELEMENT ? "element" : "file");
    if (was.batch != now.batch)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "training began with batches of %lld, now they are %lld: data that is "
                       "sliced by file has another order then; use --batch %lld, or begin in "
                       "another folder",
                       (long long)was.batch, (long long)now.batch, (long long)was.batch);
    if (was.files != now.files)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "training began with other files, or other samples in them: data that is "
                       "sliced by file has another order now; begin in another folder");
    t->sliced = now;
    return MF_OK;
}

/* For workers that lease batches: the locality of the streams, 255 for the most local one. */
static void rate_streams(mf_dist *dist, const double *near, int64_t streams)
{
    double most = 0.0;

    dist->locality.n = streams <= MF_COUNT(dist->locality.near) ? streams : 0;
    for (int64_t k = 0; k < streams; k++)
        most = near[k] > most ? near[k] : most;
    for (int64_t k = 0; k < dist->locality.n; k++)
        dist->locality.near[k] = (uint8_t)(most > 0.0 ? 255.0 * near[k] / most : 0.0);
}

mf_status mf_input_take_near(mf_trainer *t, const mf_dataset *set, const mf_iterator_options *order,
                             const char *patterns)
{
    mf_slices *slices = NULL;
    double *near;
    mf_status st;

    if (order->slice == MF_SLICE_ELEMENT || !t->dist || t->dist->size == 1)
        return MF_OK;
    near = mf_calloc(order->shards, sizeof *near);
    st = near ? mf_slices_new(set, order->shards, &slices) : MF_NOMEM("shards");
    if (st == MF_OK) {
        mf_locality_of_streams(set, slices, order->shards, patterns, near);
        if (MF_DIST_HAS(t->dist, membership, near))
            st = t->dist->ops.membership->near(t->dist, near);
        rate_streams(t->dist, near, order->shards);
    }
    mf_slices_free(slices);
    mf_free(near);
    return st;
}
