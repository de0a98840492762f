/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_hint.c - datasets that only give hints for the execution of their input: prefetching,
 * number of threads, rewriting. Elements and order are the input's, so they return the input. */
#include "ops/dataset/dataset_op.h"

static mf_status hint_run(mf_kernel *k)
{
    mf_dataset_op *d;

    MF_TRY(mf_dataset_op_of(k->in[0], &d));
    mf_kernel_set(k, 0, k->in[0]);
    return MF_OK;
}

static mf_status prefetch_run(mf_kernel *k)
{
    if (k->in[1]->count != 1 || mf_tensor_int_at(k->in[1], 0) < -1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "buffer_size must be >= 0 or set buffer_size to be -1 "
                                            "for auto-tuning");
    return hint_run(k);
}

/* ---- AssertCardinality ---- */

typedef struct dataset_hint_counting {
    mf_cursor cursor;
    int64_t n;
} dataset_hint_counting;

static mf_status assert_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    dataset_hint_counting *k = (dataset_hint_counting *)c;
    const int64_t want = mf_dataset_op_int(c->set, 1);

    MF_TRY(mf_cursor_next(c->input, w, row, end));
    k->n += !*end;
    if (*end && k->n != want)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "Input dataset was expected to contain %lld elements but contained only "
                       "%lld elements.",
                       (long long)want, (long long)k->n);
    if (want >= 0 && k->n > want)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "Input dataset was expected to contain %lld elements but contained at least "
                       "%lld elements.",
                       (long long)want, (long long)k->n);
    return MF_OK;
}

static int64_t assert_size(const mf_dataset_op *d)
{
    return mf_dataset_op_int(d, 1);
}

static const mf_dataset_op_kind asserted = { .name = "AssertCardinality",
                                             .cursor_bytes = sizeof(dataset_hint_counting),
                                             .like_input = true,
                                             .on_input = true,
                                             .next = assert_next,
                                             .size = assert_size };
MF_DATASET_OP_KERNEL(asserted)

#define HINT(NAME, ARGS, ATTRS, RUN)                                                               \
    {                                                                                              \
        .name = NAME, .def = "(input_dataset:variant" ARGS MF_DATASET_OP_OUT ATTRS,                \
        .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = mf_infer_scalar, .grad = mf_grad_none,     \
        .run = RUN                                                                                 \
    }
#define TYPES MF_DATASET_OP_TYPES "}"

const mf_op mf_ops_dataset_hint[] = {
    HINT("PrefetchDataset", ", buffer_size:int64",
         MF_DATASET_OP_TYPES ", slack_period:int=0, legacy_autotune:bool=true, "
                             "buffer_size_min:int=0" MF_DATASET_OP_META,
         prefetch_run),
    HINT("OptionsDataset", "", "serialized_options:string, " MF_DATASET_OP_TYPES MF_DATASET_OP_META,
         hint_run),
    HINT("ModelDataset", "",
         "algorithm:int=0, cpu_budget:int=0, ram_budget:int=0, " MF_DATASET_OP_TYPES "}", hint_run),
    HINT("RewriteDataset", ", rewrite_name:string", TYPES, hint_run),
    HINT("OptimizeDataset", ", optimizations:string",
         MF_DATASET_OP_TYPES ", optimization_configs:list(string)=[]}", hint_run),
    HINT("OptimizeDatasetV2",
         ", optimizations_enabled:string, optimizations_disabled:string, "
         "optimizations_default:string",
         MF_DATASET_OP_TYPES ", optimization_configs:list(string)=[]}", hint_run),
    HINT("FinalizeDataset", "", "has_captured_ref:bool=false, " TYPES, hint_run),
    HINT("MaxIntraOpParallelismDataset", ", max_intra_op_parallelism:int64", TYPES, hint_run),
    HINT("PrivateThreadPoolDataset", ", num_threads:int64", TYPES, hint_run),
    HINT("AssertNextDataset", ", transformations:string", TYPES, hint_run),
    MF_DATASET_OP_OP("AssertCardinalityDataset",
                     "(input_dataset:variant, cardinality:int64" MF_DATASET_OP_OUT TYPES, asserted),
    { 0 },
};
