/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - scalars, histograms and tensors as serialised Summary messages for TensorBoard. */
#include "base/map.h"
#include "formats/histogram.h"
#include "ops/io/summary_util.h"
#include "proto/tensor_codec.h"

#include <math.h>

/* ---- putting a message together ---- */

mf_status mf_summary_init(mf_summary *s)
{
    *s = (mf_summary){ .arena = mf_arena_new() };
    tensorflow__summary__init(&s->message);
    return s->arena ? MF_OK : MF_NOMEM("a summary");
}

mf_status mf_summary_add(mf_summary *s, Tensorflow__Summary__Value *value)
{
    MF_TRY(mf_grow(&s->values, &s->cap, (int64_t)s->message.n_value + 1, sizeof *s->values));
    s->values[s->message.n_value++] = value;
    return MF_OK;
}

mf_status mf_summary_value(mf_summary *s, const char *tag, size_t len,
                           Tensorflow__Summary__Value **out)
{
    Tensorflow__Summary__Value *value = MF_ARENA_NEW(s->arena, Tensorflow__Summary__Value);
    char *copy = mf_arena_strndup(s->arena, tag, len);

    *out = value;
    if (!value || !copy)
        return MF_NOMEM("a summary");
    tensorflow__summary__value__init(value);
    value->tag = copy;
    return mf_summary_add(s, value);
}

mf_status mf_summary_store(mf_kernel *k, mf_summary *s)
{
    mf_buf buf = { 0 };
    mf_tensor *out;
    mf_status st;

    s->message.value = s->values;
    MF_TRY_TO(done, mf_kernel_out(k, 0, &MF_SCALAR, &out));
    MF_TRY_TO(done, mf_wire_encode(&s->message.base, &buf));
    st = mf_string_take(out->data, &buf);

done:
    mf_buf_deinit(&buf);
    return st;
}

void mf_summary_deinit(mf_summary *s)
{
    mf_free(s->values);
    mf_arena_free(s->arena);
}

/* ---- ScalarSummary ---- */

static mf_status scalar_add(const mf_kernel *k, mf_summary *s)
{
    const mf_tensor *tags = k->in[0], *values = k->in[1];

    for (int64_t i = 0; i < tags->count; i++) {
        const mf_string *tag = &mf_strings(tags)[i];
        Tensorflow__Summary__Value *v;

        MF_TRY(mf_summary_value(s, mf_string_data(tag), tag->len, &v));
        v->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
        v->simple_value = (float)mf_tensor_float_at(values, i);
    }
    return MF_OK;
}

static mf_status scalar_run(mf_kernel *k)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_summary s;
    mf_status st;

    if (!mf_shape_equal(&k->in[0]->shape, &k->in[1]->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "tags and values are not the same shape: %s != %s",
                       mf_shape_text(&k->in[0]->shape, a), mf_shape_text(&k->in[1]->shape, b));
    MF_TRY_TO(done, mf_summary_init(&s));
    MF_TRY_TO(done, scalar_add(k, &s));
    MF_TRY_TO(done, mf_summary_store(k, &s));

done:
    mf_summary_deinit(&s);
    return st;
}

/* ---- HistogramSummary ---- */

static mf_status summary_check_finite(const mf_kernel *k)
{
    const mf_tensor *values = k->in[1];

    for (int64_t i = 0; i < values->count; i++) {
        const double v = mf_tensor_float_at(values, i);

        if (isnan(v))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Nan in summary histogram for: %s", k->node->name);
        if (isinf(v))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Infinity in Histogram for: %s", k->node->name);
    }
    return MF_OK;
}

static mf_status histogram_add(const mf_kernel *k, mf_summary *s)
{
    const mf_string *tag = mf_strings(k->in[0]);
    mf_histogram *of = MF_ARENA_NEW(s->arena, mf_histogram);
    Tensorflow__HistogramProto *h = MF_ARENA_NEW(s->arena, Tensorflow__HistogramProto);
    Tensorflow__Summary__Value *v;

    MF_TRY(mf_summary_value(s, mf_string_data(tag), tag->len, &v));
    if (!of || !h)
        return MF_NOMEM("a histogram");
    MF_TRY(summary_check_finite(k));
    mf_histogram_of(k->in[1], of);
    tensorflow__histogram_proto__init(h);
    h->min = of->min;
    h->max = of->max;
    h->num = of->num;
    h->sum = of->sum;
    h->sum_squares = of->sum_squares;
    h->bucket_limit = of->limit;
    h->bucket = of->count;
    h->n_bucket_limit = h->n_bucket = (size_t)of->n;
    v->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_HISTO;
    v->histo = h;
    return MF_OK;
}

static mf_status summary_histogram_run(mf_kernel *k)
{
    mf_summary s;
    mf_status st;

    if (k->in[0]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "tags must be scalar");
    MF_TRY_TO(done, mf_summary_init(&s));
    MF_TRY_TO(done, histogram_add(k, &s));
    MF_TRY_TO(done, mf_summary_store(k, &s));

done:
    mf_summary_deinit(&s);
    return st;
}

/* ---- TensorSummaryV2 ---- */

static mf_status tensor_add(const mf_kernel *k, mf_summary *s)
{
    const mf_string *tag = mf_strings(k->in[0]), *metadata = mf_strings(k->in[2]);
    Tensorflow__Summary__Value *v;
    ProtobufCMessage *decoded;

    MF_TRY(mf_summary_value(s, mf_string_data(tag), tag->len, &v));
    MF_TRY(mf_wire_decode(&tensorflow__summary_metadata__descriptor, mf_string_data(metadata),
                          metadata->len, NULL, s->arena, &decoded));
    v->metadata = (Tensorflow__SummaryMetadata *)decoded;
    MF_TRY(mf_tensor_encode(k->in[1], s->arena, &v->tensor));
    v->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_TENSOR;
    return MF_OK;
}

static mf_status tensor_run(mf_kernel *k)
{
    mf_summary s;
    mf_status st;

    if (k->in[0]->shape.rank != 0 || k->in[2]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be scalar",
                       k->in[0]->shape.rank ? "tag" : "serialized_summary_metadata");
    MF_TRY_TO(done, mf_summary_init(&s));
    MF_TRY_TO(done, tensor_add(k, &s));
    MF_TRY_TO(done, mf_summary_store(k, &s));

done:
    mf_summary_deinit(&s);
    return st;
}

/* ---- MergeSummary ---- */

static mf_status merge_one(const mf_string *in, mf_summary *s, mf_map *tags)
{
    ProtobufCMessage *decoded;
    const Tensorflow__Summary *one;

    if (mf_wire_decode(&tensorflow__summary__descriptor, mf_string_data(in), in->len, NULL,
                       s->arena, &decoded) != MF_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Could not parse one of the summary inputs");
    one = (const Tensorflow__Summary *)decoded;
    for (size_t i = 0; i < one->n_value; i++) {
        const char *tag = one->value[i]->tag;

        /* A tag may occur twice in one input, but not in two. */
        if (tag[0] && mf_map_find(tags, tag) && mf_map_find(tags, tag) != in)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Duplicate tag %.200s found in summary inputs",
                           tag);
        if (tag[0])
            MF_TRY(mf_map_set(tags, tag, (void *)(uintptr_t)in));
        MF_TRY(mf_summary_add(s, one->value[i]));
    }
    return MF_OK;
}

static mf_status summary_merge_run(mf_kernel *k)
{
    mf_map tags = { 0 };
    mf_summary s;
    mf_status st;

    MF_TRY_TO(done, mf_summary_init(&s));
    for (int i = 0; i < k->n_in; i++) {
        for (int64_t j = 0; j < k->in[i]->count; j++)
            MF_TRY_TO(done, merge_one(&mf_strings(k->in[i])[j], &s, &tags));
    }
    MF_TRY_TO(done, mf_summary_store(k, &s));

done:
    mf_map_deinit(&tags);
    mf_summary_deinit(&s);
    return st;
}

#define SUMMARY_OP(NAME, DEF, RUN, ...)                                                            \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_infer_scalar, .grad = mf_grad_none, .run = RUN,      \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_summary[] = {
    SUMMARY_OP("ScalarSummary", "(tags:string, values:T) -> (summary:string) {T:type in reals}",
               scalar_run, "str[]{a} f32[]{1.5}", "str[2]{a,b} f64[2]{1,2}", "str[]{a} i32[]{3}",
               "str[0] f32[0]", "str[1] f32[2] !fails", "str[] f32[1] !fails"),
    SUMMARY_OP("HistogramSummary",
               "(tag:string, values:T) -> (summary:string) {T:type=float in reals}",
               summary_histogram_run, "str[]{h} f32[5]{0,1,2,3,10}", "str[]{h} i32[3,4]",
               "str[]{h} f64[0]", "str[]{h} f32[2]{-1e30,1e30}", "str[1]{h} f32[1] !fails",
               "str[]{h} f32[1]{nan} !fails", "str[]{h} f32[1]{inf} !fails"),
    SUMMARY_OP("TensorSummaryV2",
               "(tag:string, tensor:T, serialized_summary_metadata:string) -> (summary:string) "
               "{T:type}",
               tensor_run, "str[]{t} f32[2]{1,2} str[]{\x12\x01q}",
               "str[]{t} str[]{hello} str[]{\x12\x01q}",
               "str[1]{t} f32[2]{1,2} str[]{\x12\x01q} !fails",
               "str[]{t} f32[2] str[]{junk} !fails !notf"),
    SUMMARY_OP("MergeSummary", "(inputs:N*string) -> (summary:string) {N:int>=1}",
               summary_merge_run, "str[2]{,} str[2]{,}", "str[]{garbage} !fails"),
    { 0 },
};
