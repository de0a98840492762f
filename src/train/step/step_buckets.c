/* SPDX-License-Identifier: Apache-2.0 */
/* step_buckets.c - groups the gradients of a step into buckets, which
 * dist/data_parallel/gradient_allreduce.c exchanges. */
#include "train/step/step_buckets.h"

#include "base/param.h"

MF_PARAM_INT(gradient_bucket_bytes, 4 << 20, "approximate size of a gradient bucket in bytes");

static int64_t step_buckets_bytes_of(const mf_step_graph *s, int result)
{
    for (int i = 0; i < s->n_gradients; i++) {
        const mf_gradient *g = &s->gradients[i];

        if (g->at == result)
            return mf_shape_span(&g->weight->shape, 0, g->weight->shape.rank) *
                   (int64_t)mf_dtype_cell(g->weight->dtype);
    }
    return 0; /* little */
}

/* The weight of this gradient, or of these rows; "": none. */
static const char *step_buckets_name_of(const mf_step_graph *s, int result)
{
    for (int i = 0; i < s->n_gradients; i++) {
        const mf_gradient *g = &s->gradients[i];

        if (g->at == result)
            return g->weight->name;
    }
    return "";
}

static bool step_buckets_is_rows(const mf_step_graph *s, int result)
{
    if (result >= s->first_kept && result < s->first_kept + s->n_kept)
        return true;
    for (int i = 0; i < s->n_gradients; i++) {
        const mf_gradient *g = &s->gradients[i];

        if (g->ids >= 0 && (g->at == result || g->ids == result))
            return true;
    }
    return false;
}

/* Gradients of the last layers are ready first: buckets fill up from the end. Rows have their own
 * buckets, and so do values of another type. */
mf_status mf_step_fill_buckets(mf_step_graph *s, const mf_outputs *results, mf_arena *arena,
                               mf_buf *buckets, mf_buf *names)
{
    const int n = results->n;
    int64_t *bucket = MF_ARENA_ARRAY(arena, int64_t, n), filled = 0;
    mf_dtype type = MF_DTYPE_INVALID;
    int64_t id = s->whole.loss ? 1 : 0;
    bool rows = false;

    if (!bucket)
        return MF_NOMEM("buckets");
    for (int i = n - 1; i >= 0; i--) {
        const mf_output o = results->at[i];
        const mf_dtype own = mf_type_base(o.node->out_types[o.port]);
        const bool first = i == n - 1;

        if (!first && (step_buckets_is_rows(s, i) != rows || (!rows && own != type) ||
                       filled >= MF_PARAM(gradient_bucket_bytes))) {
            id++;
            filled = 0;
        }
        rows = step_buckets_is_rows(s, i);
        type = own;
        filled += step_buckets_bytes_of(s, i);
        bucket[i] = id;
    }
    for (int i = 0; i < n; i++) {
        mf_buf_printf(buckets, "%s%lld", i ? "," : "", (long long)bucket[i]);
        mf_buf_printf(names, "%s'%s'", i ? "," : "", step_buckets_name_of(s, i));
    }
    s->n_buckets = (int)id + 1;
    s->n_results = n;
    s->bucket = bucket;
    MF_TRY(mf_buf_finish(names));
    return mf_buf_finish(buckets);
}
