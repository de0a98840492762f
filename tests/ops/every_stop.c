/* SPDX-License-Identifier: Apache-2.0 */
/* every_stop.c - every op ends with its step, and frees its memory. To test one op: OP=Relu make
 * test T=every_stop */
#include "base/quota.h"
#include "base/stop.h"
#include "mf_test.h"
#include "op_harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Run until the n-th stop check. *reached: the run had that many checks. */
static mf_status run_until(const mf_case *c, int64_t n, bool *reached)
{
    mf_answer a = { 0 };
    mf_status st;

    mf_stop_fail_at(n);
    st = mf_case_run(c, c->graph, 2, NULL, &a);
    *reached = mf_stop_has_failed();
    mf_stop_fail_at(0);
    mf_answer_deinit(&a);
    return st;
}

/* ---- at every check ---- */

enum { KEPT = 4096 }; /* bytes: names and other data that are allocated once */

static bool stops_at(const mf_op *op, const char *text, const mf_case *c, int64_t n, bool *reached)
{
    const int64_t used = mf_quota_used();
    const mf_status st = run_until(c, n, reached);

    if (*reached && st != MF_CANCELLED) {
        mf_complain(op, text, "check %lld said that the step has ended, but it is %s", (long long)n,
                    mf_status_name(st));
        return false;
    }
    if (mf_quota_used() > used + KEPT) {
        mf_complain(op, text, "stopped at check %lld, %lld bytes are not given back", (long long)n,
                    (long long)(mf_quota_used() - used));
        return false;
    }
    return true;
}

static bool stops(const mf_op *op, const char *text, mf_sample *s, int64_t *checks)
{
    bool good = true, reached = true;
    mf_case c;

    if (mf_case_build(op, s, &c) == MF_OK && !s->fails) {
        (void)run_until(&c, 0, &reached); /* allocate everything that is allocated once */
        reached = true;
        for (int64_t n = 1, more = 1; good && reached; more = n / 2 + 1, n += more) {
            good = stops_at(op, text, &c, n, &reached);
            *checks += reached;
        }
    }
    mf_case_deinit(&c);
    return good;
}

static bool each_sample(const mf_op *op,
                        bool (*fn)(const mf_op *, const char *, mf_sample *, int64_t *),
                        int64_t *sum)
{
    bool good = true;

    for (int i = 0; op->samples[i]; i++) {
        mf_sample s;

        if (mf_sample_parse(op->samples[i], (uint64_t)i + 1, &s) == MF_OK)
            good = fn(op, op->samples[i], &s, sum) && good;
        mf_sample_deinit(&s);
    }
    return good;
}

/* Ops whose work can be much larger than their inputs and outputs: they must check for a stop. */
static bool must_ask(const mf_op *op)
{
    static const char *const names[] = {
        "CropAndResize",
        "CropAndResizeGradBoxes",
        "CropAndResizeGradImage",
        "DynamicPartition",
        "Einsum",
        "LRN",
        "LogUniformCandidateSampler",

        "MatrixDeterminant",
        "MaxPool",
        "MaxPool3D",
        "NonMaxSuppressionV3",
        "ParseExample",
        "ParseSingleExample",
        "Qr",
        "RegexReplace",
        "SelfAdjointEigV2",
        "SparseSegmentSum",
        "SparseTensorDenseMatMul",
        "Split",
        "SplitV",
        "StringJoin",
        "StringSplitV2",
        "Substr",
        "Svd",
        "Unpack",
        "UnsortedSegmentJoin",
        "UnsortedSegmentSum",
    };

    for (int i = 0; i < MF_COUNT(names); i++) {
        if (strcmp(names[i], op->name) == 0)
            return true;
    }
    return false;
}

static bool op_stops(const mf_op *op)
{
    int64_t checks = 0;
    const bool good = each_sample(op, stops, &checks);

    if (checks > 0 || !must_ask(op))
        return good;
    mf_complain(op, "all samples", "it never asks whether its step has ended");
    return false;
}

MF_TEST_TIMEOUT(every_op_ends_with_its_step_and_gives_its_memory_back, 240)
{
    T_EQ(mf_each_op("runs after its step ended", op_stops), 0);
}

/* ---- large counts ---- */

enum {
    CHECKS = 100, /* until the step ends */
    SECONDS = 60 /* for all samples of an op, which normally take a second */
};

static void end_soon(const mf_op *op, const mf_sample *s)
{
    bool reached;
    mf_case c;

    if (mf_case_build(op, s, &c) == MF_OK)
        (void)run_until(&c, CHECKS, &reached);
    mf_case_deinit(&c);
}

/* Replaces each of the first integers, one after the other, by the largest valid count. */
static void with_large_values(const mf_op *op, mf_sample *s)
{
    for (int i = 0; i < s->n_in; i++) {
        mf_tensor *t = &s->in[i].value, keep = *t;

        if (!mf_dtype_is_int(t->dtype) || mf_dtype_cell(t->dtype) < 4 || t->count > 8)
            continue;
        for (int64_t k = 0; k < keep.count; k++) {
            *t = (mf_tensor){ 0 };
            if (mf_tensor_clone(t, &keep) == MF_OK) {
                mf_tensor_put(t, k, INT32_MAX);
                end_soon(op, s);
            }
            mf_tensor_clear(t);
        }
        *t = keep;
    }
}

static void with_large_attributes(const mf_op *op, mf_sample *s)
{
    char keep[sizeof s->attrs];
    const mf_opdef *def;

    if (mf_op_def(op, &def) != MF_OK)
        return;
    memcpy(keep, s->attrs, sizeof keep);
    for (int a = 0; a < def->n_attrs; a++) {
        if (def->attrs[a].kind != MF_ATTR_INT)
            continue;
        (void)snprintf(s->attrs, sizeof s->attrs,
                       def->attrs[a].is_list ? "%s %s=[1,1000000,1000000,1]" : "%s %s=1000000",
                       strstr(keep, def->attrs[a].name) ? "" : keep, def->attrs[a].name);
        end_soon(op, s);
    }
    memcpy(s->attrs, keep, sizeof keep);
}

static void with_large_counts(const mf_op *op, mf_sample *s)
{
    with_large_values(op, s);
    with_large_attributes(op, s);
}

/* Nothing to compute, but large counts to iterate over. */
static bool ends_soon(const mf_op *op, const char *text, mf_sample *s, int64_t *sum)
{
    (void)text;
    (void)sum;
    with_large_counts(op, s);
    for (int i = 0; i < s->n_in; i++) {
        mf_tensor *t = &s->in[i].value, keep = *t;

        for (int d = 0; d < keep.shape.rank; d++) {
            mf_shape empty = keep.shape;

            empty.dims[d] = 0;
            *t = (mf_tensor){ 0 };
            if (mf_tensor_alloc(t, keep.dtype, &empty) == MF_OK)
                with_large_counts(op, s);
            mf_tensor_clear(t);
        }
        *t = keep;
    }
    return true;
}

static bool op_ends_soon(const mf_op *op)
{
    (void)alarm(SECONDS);
    return each_sample(op, ends_soon, NULL);
}

MF_TEST_TIMEOUT(every_op_with_large_counts_ends_with_its_step, 300)
{
    T_EQ(mf_each_op("runs after its step ended", op_ends_soon), 0);
}
