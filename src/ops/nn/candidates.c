/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - ComputeAccidentalHits: sampled classes that are true classes. */
#include "base/mem.h"
#include "graph/op.h"

#include <float.h>
#include <stdlib.h>

typedef struct candidate {
    int64_t id, at;
} candidate;

/* By id; duplicates in reverse order. */
static int by_id(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->at > y->at ? -1 : x->at < y->at;
}

/* Index of the class among the sampled ones, or -1. */
static int64_t candidates_find(const candidate *sorted, int64_t n, int64_t id)
{
    int64_t low = 0, high = n;

    while (low < high) {
        const int64_t mid = low + (high - low) / 2;

        if (sorted[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && sorted[low].id == id ? sorted[low].at : -1;
}

static mf_status hits_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 1));
    for (int i = 0; i < 3; i++)
        in->out[i] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

static mf_status hits_check(const mf_kernel *k)
{
    const mf_shape *truth = &k->in[0]->shape;
    const int64_t n = mf_node_int(k->node, "num_true");
    char text[MF_SHAPE_TEXT];

    if (truth->rank != 2 || truth->dims[1] != n)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "true_candidates must be a batch_size * num_true matrix, got %s for num_true "
            "= %lld",
            mf_shape_text(truth, text), (long long)n);
    if (k->in[1]->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "sampled_candidates must be a vector, got %s",
                       mf_shape_text(&k->in[1]->shape, text));
    return MF_OK;
}

static mf_status hits_run(mf_kernel *k)
{
    const mf_tensor *truth = k->in[0], *sampled = k->in[1];
    const int64_t *classes = truth->data,
                  per_row = truth->shape.rank == 2 ? truth->shape.dims[1] : 1;
    candidate *sorted = mf_calloc(sampled->count + 1, sizeof *sorted);
    mf_tensor *rows, *ids, *weights;
    int64_t n = 0;
    mf_status st;

    if (!sorted)
        return MF_NOMEM("candidates");
    MF_TRY_TO(done, hits_check(k));
    for (int64_t i = 0; i < sampled->count; i++)
        sorted[i] = (candidate){ ((const int64_t *)sampled->data)[i], i };
    qsort(sorted, (size_t)sampled->count, sizeof *sorted, by_id);
    for (int64_t i = 0; i < truth->count; i++)
        n += candidates_find(sorted, sampled->count, classes[i]) >= 0;
    MF_TRY_TO(done, mf_kernel_out(k, 0, &MF_SHAPE(n), &rows));
    MF_TRY_TO(done, mf_kernel_out(k, 1, &MF_SHAPE(n), &ids));
    MF_TRY_TO(done, mf_kernel_out(k, 2, &MF_SHAPE(n), &weights));
    n = 0;
    for (int64_t i = 0; i < truth->count; i++) {
        const int64_t at = candidates_find(sorted, sampled->count, classes[i]);

        if (at < 0)
            continue;
        ((int32_t *)rows->data)[n] = (int32_t)(i / per_row);
        ((int64_t *)ids->data)[n] = at;
        ((float *)weights->data)[n++] = -FLT_MAX; /* added to a logit, it excludes the class */
    }
done:
    mf_free(sorted);
    return st;
}

const mf_op mf_op_compute_accidental_hits = {
    .name = "ComputeAccidentalHits",
    .def = "(true_classes:int64, sampled_candidates:int64) -> (indices:int32, ids:int64, "
           "weights:float) {num_true:int, seed:int=0, seed2:int=0}",
    .infer = hits_infer,
    .grad = mf_grad_none,
    .run = hits_run,
    .samples = MF_SAMPLES("i64[3,2]{1,2,3,4,5,6} i64[4]{3,9,6,1} ; num_true=2",
                          "i64[2,1]{7,7} i64[3]{7,1,7} ; num_true=1",
                          "i64[0,1] i64[2]{1,2} ; num_true=1", "i64[2,1]{1,2} i64[0] ; num_true=1",
                          "i64[2,2]{1,2,3,4} i64[2]{1,2} ; num_true=1 !fails",
                          "i64[2,1]{1,2} i64[1,2]{1,2} ; num_true=1 !fails"),
};
