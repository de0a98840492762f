/* SPDX-License-Identifier: Apache-2.0 */
/* segment_util.c - the loops that combine rows by segment ids (SegmentSum, UnsortedSegment*,
 * SparseSegment*). */
#include "ops/math/segment_util.h"

#include "ops/math/elementwise.h"

#include <float.h>
#include <math.h>

enum { PIECE = 65536, MAX_PIECES = 16 };

/* Accumulates x[j] * scale in acc[j]. 16-bit floats accumulate in float. */
typedef void row_fn(void *acc, const void *x, int64_t n, double scale);

#define ROW_LOOP(NAME, kind, ACC, OP)                                                              \
    static void NAME##_##kind(void *acc, const void *in, int64_t n, double scale)                  \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        ACC *a = acc;                                                                              \
        const ACC factor = (ACC)scale;                                                             \
        (void)factor;                                                                              \
        MF_IVDEP                                                                                   \
        for (int64_t j = 0; j < n; j++) {                                                          \
            const ACC v = (ACC)MF_LD_##kind(x, j);                                                 \
            a[j] = (ACC)OP(a[j], v);                                                               \
        }                                                                                          \
    }
#define SUM(a, b) ((a) + (b))
#define SCALED_SUM(a, b) ((a) + (b) * (factor))
#define PROD(a, b) ((a) * (b))
#define WIDE_PROD(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define FMAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define FMIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define IMAX(a, b) ((b) > (a) ? (b) : (a))
#define IMIN(a, b) ((b) < (a) ? (b) : (a))

#define EACH_FLOAT(NAME, OP)                                                                       \
    ROW_LOOP(NAME, f32, float, OP)                                                                 \
    ROW_LOOP(NAME, f64, double, OP)                                                                \
    ROW_LOOP(NAME, f16, float, OP)                                                                 \
    ROW_LOOP(NAME, bf16, float, OP)
#define EACH_UNSIGNED(NAME, OP)                                                                    \
    ROW_LOOP(NAME, u8, uint8_t, OP)                                                                \
    ROW_LOOP(NAME, u16, uint16_t, OP)                                                              \
    ROW_LOOP(NAME, u32, uint32_t, OP)                                                              \
    ROW_LOOP(NAME, u64, uint64_t, OP)
#define EACH_SIGNED(NAME, OP)                                                                      \
    ROW_LOOP(NAME, i8, int8_t, OP)                                                                 \
    ROW_LOOP(NAME, i16, int16_t, OP)                                                               \
    ROW_LOOP(NAME, i32, int32_t, OP)                                                               \
    ROW_LOOP(NAME, i64, int64_t, OP)
EACH_FLOAT(sum, SUM)
EACH_FLOAT(scaled, SCALED_SUM)
EACH_FLOAT(prod, PROD)
EACH_FLOAT(max, FMAX)
EACH_FLOAT(min, FMIN)
EACH_UNSIGNED(sum, SUM)
EACH_UNSIGNED(prod, WIDE_PROD)
EACH_UNSIGNED(max, IMAX)
EACH_UNSIGNED(min, IMIN)
EACH_SIGNED(max, IMAX)
EACH_SIGNED(min, IMIN)
ROW_LOOP(sum, c64, float _Complex, SUM)
ROW_LOOP(sum, c128, double _Complex, SUM)
ROW_LOOP(prod, c64, float _Complex, PROD)
ROW_LOOP(prod, c128, double _Complex, PROD)

/* Sums and products of signed integers have the bits of unsigned ones. */
#define SIGNED_AS_UNSIGNED(NAME)                                                                   \
    [MF_DTYPE_I8] = NAME##_u8, [MF_DTYPE_I16] = NAME##_u16, [MF_DTYPE_I32] = NAME##_u32,           \
    [MF_DTYPE_I64] = NAME##_u64
static row_fn *const loops[][MF_DTYPE_COUNT] = {
    [MF_SEGMENT_SUM] = { MF_FN_FLOATS(sum), MF_FN_UNSIGNED(sum), SIGNED_AS_UNSIGNED(sum),
                         MF_FN_COMPLEX(sum) },
    [MF_SEGMENT_PROD] = { MF_FN_FLOATS(prod), MF_FN_UNSIGNED(prod), SIGNED_AS_UNSIGNED(prod),
                          MF_FN_COMPLEX(prod) },
    [MF_SEGMENT_MAX] = { MF_FN_FLOATS(max), MF_FN_INTS(max) },
    [MF_SEGMENT_MIN] = { MF_FN_FLOATS(min), MF_FN_INTS(min) },
};
static row_fn *const scaled_loops[MF_DTYPE_COUNT] = { MF_FN_FLOATS(scaled) };

/* The initial value of a row. */
static double neutral(const mf_segments *s, mf_dtype type)
{
    switch (s->op) {
    case MF_SEGMENT_SUM:
        return 0;
    case MF_SEGMENT_PROD:
        return 1;
    case MF_SEGMENT_MAX:
    case MF_SEGMENT_MIN:
        break;
    }
    const double most = s->gaps_are_zero ? (double)INFINITY /* infinite, so that empty rows
                                                               can be recognized and set to
                                                               zero */
                        : type == MF_DTYPE_F64  ? DBL_MAX
                        : type == MF_DTYPE_F16  ? 65504.0
                        : type == MF_DTYPE_BF16 ? 0x1.FEp127
                                                : (double)FLT_MAX;

    return s->op == MF_SEGMENT_MAX ? -most : most;
}

/* The extreme integers do not all fit a double: they are written as bits. */
static void fill_int_extreme(mf_tensor *acc, bool least)
{
    const size_t item = mf_dtype_cell(acc->dtype);
    const bool is_signed = acc->dtype == MF_DTYPE_I8 || acc->dtype == MF_DTYPE_I16 ||
                           acc->dtype == MF_DTYPE_I32 || acc->dtype == MF_DTYPE_I64;
    const uint8_t body = least ? 0 : 0xff, top = is_signed ? (least ? 0x80 : 0x7f) : body;
    uint8_t *p = acc->data;

    memset(p, body, (size_t)acc->count * item);
    for (int64_t i = 0; is_signed && i < acc->count; i++)
        p[(size_t)(i + 1) * item - 1] = top;
}

static void fill_neutral(const mf_segments *s, mf_tensor *acc)
{
    const bool extreme = s->op == MF_SEGMENT_MAX || s->op == MF_SEGMENT_MIN;

    if (extreme && mf_dtype_is_int(acc->dtype)) {
        fill_int_extreme(acc, s->op == MF_SEGMENT_MAX);
    } else if (s->op == MF_SEGMENT_SUM) {
        memset(acc->data, 0, (size_t)acc->count * mf_dtype_cell(acc->dtype));
    } else {
        const double value = neutral(s, s->data->dtype);

        for (int64_t i = 0; i < acc->count; i++)
            mf_tensor_put(acc, i, value);
    }
}

typedef struct segment_util_job {
    const mf_segments *s;
    row_fn *fn;
    char *acc;
    size_t item, acc_item;
    int64_t segments, segments_per_piece;
} segment_util_job;

/* Each piece owns a range of output rows and scans all ids, so every row accumulates its inputs in
 * the order of the ids. */
static void segment_util_run_piece(void *ctx, int64_t piece)
{
    const segment_util_job *j = ctx;
    const mf_segments *s = j->s;
    const int64_t low = piece * j->segments_per_piece, high = low + j->segments_per_piece;
    const char *data = s->data->data;

    for (int64_t i = 0; i < s->n; i++) {
        const int64_t to = s->to[i], from = s->from ? s->from[i] : i;

        const bool mine = to >= low && to < high && to >= 0;

        if (mf_stopped_after(mine ? s->inner : 1))
            return;
        if (!mine)
            continue;
        j->fn(j->acc + (size_t)(to * s->inner) * j->acc_item,
              data + (size_t)(from * s->inner) * j->item, s->inner, s->scale ? s->scale[i] : 1.0);
    }
}

/* Divides a row by its count; integers as integers. */
static void normalise_row(mf_tensor *acc, int64_t row, int64_t inner, int64_t count,
                          mf_segment_norm norm)
{
    const double root = norm == MF_NORM_SQRT ? __builtin_sqrt((double)count) : (double)count;

    for (int64_t i = row * inner; i < (row + 1) * inner; i++) {
        if (acc->dtype == MF_DTYPE_F32)
            ((float *)acc->data)[i] /= (float)root;
        else if (acc->dtype == MF_DTYPE_F64)
            ((double *)acc->data)[i] /= root;
        else if (acc->dtype == MF_DTYPE_C64)
            ((float _Complex *)acc->data)[i] /= (float)root;
        else if (acc->dtype == MF_DTYPE_C128)
            ((double _Complex *)acc->data)[i] /= root;
        else if (acc->dtype == MF_DTYPE_I64)
            ((int64_t *)acc->data)[i] /= count;
        else if (acc->dtype == MF_DTYPE_U64)
            ((uint64_t *)acc->data)[i] /= (uint64_t)count;
        else {
            const int64_t mean = mf_tensor_int_at(acc, i) / count;

            mf_tensor_put(acc, i, (double)mean);
        }
    }
}

/* Divides means, and sets rows without ids. */
static mf_status finish_rows(const mf_segments *s, mf_tensor *acc, int64_t segments)
{
    mf_tensor counts = { 0 };
    int64_t *count;

    if (s->norm == MF_NORM_NONE && !s->gaps_are_zero)
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&counts, MF_DTYPE_I64, &MF_SHAPE(segments)));
    count = counts.data;
    memset(count, 0, (size_t)segments * sizeof *count);
    for (int64_t i = 0; i < s->n; i++) {
        if (s->to[i] >= 0)
            count[s->to[i]]++;
    }
    for (int64_t row = 0; row < segments; row++) {
        const size_t bytes = (size_t)s->inner * mf_dtype_cell(acc->dtype);

        if (count[row] == 0 && s->gaps_are_zero)
            memset((char *)acc->data + (size_t)row * bytes, 0, bytes);
        else if (count[row] > 1 && s->norm != MF_NORM_NONE)
            normalise_row(acc, row, s->inner, count[row], s->norm);
    }
    mf_tensor_clear(&counts);
    return MF_OK;
}

static void segment_util_narrow(const mf_tensor *acc, mf_tensor *out)
{
    for (int64_t i = 0; i < out->count; i++) {
        const float v = ((const float *)acc->data)[i];

        if (out->dtype == MF_DTYPE_F16)
            ((mf_f16 *)out->data)[i] = mf_f16_from_f32(v);
        else
            ((mf_bf16 *)out->data)[i] = mf_bf16_from_f32(v);
    }
}

mf_status mf_segments_run(mf_kernel *k, const mf_segments *s)
{
    const mf_dtype type = s->data->dtype;
    const bool narrowed = type == MF_DTYPE_F16 || type == MF_DTYPE_BF16;
    segment_util_job j = { .s = s, .fn = s->scale ? scaled_loops[type] : loops[s->op][type] };
    mf_tensor acc = { 0 };
    int64_t pieces;
    mf_status st = MF_OK;

    if (!j.fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "%s of type %s is not supported", k->node->op_name,
                       mf_dtype_name(type));
    if (s->out->count == 0)
        return MF_OK;
    if (narrowed)
        MF_TRY(mf_tensor_alloc(&acc, MF_DTYPE_F32, &s->out->shape));
    else
        mf_tensor_set(&acc, s->out);
    fill_neutral(s, &acc);
    j.acc = acc.data;
    j.item = mf_dtype_cell(type);
    j.acc_item = mf_dtype_cell(acc.dtype);
    j.segments = s->out->count / s->inner;
    pieces = 1 + s->n * s->inner / PIECE;
    pieces = pieces > MAX_PIECES ? MAX_PIECES : pieces;
    pieces = pieces > j.segments ? j.segments : pieces;
    j.segments_per_piece = (j.segments + pieces - 1) / pieces;
    st = mf_kernel_parallel(k, pieces, segment_util_run_piece, &j);
    if (st == MF_OK)
        st = finish_rows(s, &acc, j.segments);
    if (st == MF_OK && narrowed)
        segment_util_narrow(&acc, s->out);
    mf_tensor_clear(&acc);
    return st;
}

mf_status mf_segment_ids(const mf_tensor *t, mf_tensor *out)
{
    int64_t *ids;

    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_I64, &MF_SHAPE(t->count)));
    ids = out->data;
    for (int64_t i = 0; i < t->count; i++)
        ids[i] = mf_tensor_int_at(t, i);
    return MF_OK;
}

mf_status mf_segment_check_sorted(const int64_t *ids, int64_t n)
{
    if (n > 0 && ids[0] < 0)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Segment id %lld out of range [0, %lld), possibly because 'segment_ids' input "
            "is not sorted.",
            (long long)ids[0], (long long)(ids[n - 1] < INT64_MAX ? ids[n - 1] + 1 : INT64_MAX));
    for (int64_t i = 1; i < n; i++) {
        if (ids[i] < ids[i - 1])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "segment ids are not increasing: segment_ids[%lld] = %lld after %lld",
                           (long long)i, (long long)ids[i], (long long)ids[i - 1]);
    }
    return MF_OK;
}
