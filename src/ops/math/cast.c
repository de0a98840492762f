/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c - conversions between all number types.
 *
 * Eleven plain types have a loop for every pair. 16-bit floats are converted through float, complex
 * numbers through their real part, in blocks on the stack. Real numbers that do not fit an integer
 * give the same result as on x86: the smallest int32 for 8 to 32 bits (then truncated), the
 * smallest int64 otherwise. Integers are truncated. Any number except 0 is true, including NaN. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/math/math_util.h"

static inline int32_t float_to_i32(float x)
{
    return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)x : INT32_MIN;
}

static inline int32_t double_to_i32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

static inline int64_t to_i64(double x)
{
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

static inline uint64_t to_u64(double x)
{
    const double above = x - 9223372036854775808.0;

    return x < 9223372036854775808.0 || !(above < 9223372036854775808.0)
               ? (uint64_t)to_i64(x)
               : (uint64_t)to_i64(above) ^ 1ull << 63;
}

#define TO_I32(x) MF_PICK_REAL(x, float_to_i32, double_to_i32)

/* Conversion of a value to each type, from a real and from an integer. */
#define REAL_TO_f32(v) ((float)(v))
#define REAL_TO_f64(v) ((double)(v))
#define REAL_TO_i8(v) ((int8_t)TO_I32(v))
#define REAL_TO_i16(v) ((int16_t)TO_I32(v))
#define REAL_TO_i32(v) (TO_I32(v))
#define REAL_TO_i64(v) (to_i64((double)(v)))
#define REAL_TO_u8(v) ((uint8_t)TO_I32(v))
#define REAL_TO_u16(v) ((uint16_t)TO_I32(v))
#define REAL_TO_u32(v) ((uint32_t)to_i64((double)(v)))
#define REAL_TO_u64(v) (to_u64((double)(v)))
#define REAL_TO_b8(v) ((uint8_t)((v) != 0))
#define INT_TO_f32(v) ((float)(v))
#define INT_TO_f64(v) ((double)(v))
#define INT_TO_i8(v) ((int8_t)(v))
#define INT_TO_i16(v) ((int16_t)(v))
#define INT_TO_i32(v) ((int32_t)(v))
#define INT_TO_i64(v) ((int64_t)(v))
#define INT_TO_u8(v) ((uint8_t)(v))
#define INT_TO_u16(v) ((uint16_t)(v))
#define INT_TO_u32(v) ((uint32_t)(v))
#define INT_TO_u64(v) ((uint64_t)(v))
#define INT_TO_b8(v) ((uint8_t)((v) != 0))
#define PLAIN(v) (v)
#define TRUTH(v) ((v) != 0)

typedef void cast_fn(const void *from, void *to, int64_t n);

#define CAST_LOOP(FAMILY, READ, src, dst)                                                          \
    static void src##_to_##dst(const void *from, void *to, int64_t n)                              \
    {                                                                                              \
        const MF_S_##src *a = from;                                                                \
        MF_S_##dst *o = to;                                                                        \
        MF_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            o[i] = FAMILY##_TO_##dst(READ(a[i]));                                                  \
    }
#define CAST_LOOPS_OF(FAMILY, READ, src)                                                           \
    CAST_LOOP(FAMILY, READ, src, f32)                                                              \
    CAST_LOOP(FAMILY, READ, src, f64)                                                              \
    CAST_LOOP(FAMILY, READ, src, i8)                                                               \
    CAST_LOOP(FAMILY, READ, src, i16)                                                              \
    CAST_LOOP(FAMILY, READ, src, i32)                                                              \
    CAST_LOOP(FAMILY, READ, src, i64)                                                              \
    CAST_LOOP(FAMILY, READ, src, u8)                                                               \
    CAST_LOOP(FAMILY, READ, src, u16)                                                              \
    CAST_LOOP(FAMILY, READ, src, u32)                                                              \
    CAST_LOOP(FAMILY, READ, src, u64)                                                              \
    CAST_LOOP(FAMILY, READ, src, b8)
CAST_LOOPS_OF(REAL, PLAIN, f32)
CAST_LOOPS_OF(REAL, PLAIN, f64)
CAST_LOOPS_OF(INT, PLAIN, i8)
CAST_LOOPS_OF(INT, PLAIN, i16)
CAST_LOOPS_OF(INT, PLAIN, i32)
CAST_LOOPS_OF(INT, PLAIN, i64)
CAST_LOOPS_OF(INT, PLAIN, u8)
CAST_LOOPS_OF(INT, PLAIN, u16)
CAST_LOOPS_OF(INT, PLAIN, u32)
CAST_LOOPS_OF(INT, PLAIN, u64)
CAST_LOOPS_OF(INT, TRUTH, b8)

#define CASTS_OF(src)                                                                              \
    {                                                                                              \
        [MF_DTYPE_F32] = src##_to_f32, [MF_DTYPE_F64] = src##_to_f64, [MF_DTYPE_I8] = src##_to_i8, \
        [MF_DTYPE_I16] = src##_to_i16, [MF_DTYPE_I32] = src##_to_i32,                              \
        [MF_DTYPE_I64] = src##_to_i64, [MF_DTYPE_U8] = src##_to_u8, [MF_DTYPE_U16] = src##_to_u16, \
        [MF_DTYPE_U32] = src##_to_u32, [MF_DTYPE_U64] = src##_to_u64,                              \
        [MF_DTYPE_BOOL] = src##_to_b8                                                              \
    }
static cast_fn *const casts[MF_DTYPE_COUNT][MF_DTYPE_COUNT] = {
    [MF_DTYPE_F32] = CASTS_OF(f32), [MF_DTYPE_F64] = CASTS_OF(f64), [MF_DTYPE_I8] = CASTS_OF(i8),
    [MF_DTYPE_I16] = CASTS_OF(i16), [MF_DTYPE_I32] = CASTS_OF(i32), [MF_DTYPE_I64] = CASTS_OF(i64),
    [MF_DTYPE_U8] = CASTS_OF(u8),   [MF_DTYPE_U16] = CASTS_OF(u16), [MF_DTYPE_U32] = CASTS_OF(u32),
    [MF_DTYPE_U64] = CASTS_OF(u64), [MF_DTYPE_BOOL] = CASTS_OF(b8),
};

/* ---- types that go through another one ---- */

enum { BLOCK = 512 };

/* The plain type that a type is converted through. */
static mf_dtype stand_in(mf_dtype t)
{
    return t == MF_DTYPE_F16 || t == MF_DTYPE_BF16 || t == MF_DTYPE_C64 ? MF_DTYPE_F32
           : t == MF_DTYPE_C128                                         ? MF_DTYPE_F64
                                                                        : t;
}

/* Converts elements to that plain type. */
static void cast_unpack(mf_dtype t, const void *from, void *to, int64_t n)
{
    float *f = to;
    double *d = to;

    for (int64_t i = 0; t == MF_DTYPE_F16 && i < n; i++)
        f[i] = mf_f16_to_f32(((const mf_f16 *)from)[i]);
    for (int64_t i = 0; t == MF_DTYPE_BF16 && i < n; i++)
        f[i] = mf_bf16_to_f32(((const mf_bf16 *)from)[i]);
    for (int64_t i = 0; t == MF_DTYPE_C64 && i < n; i++)
        f[i] = ((const float *)from)[2 * i];
    for (int64_t i = 0; t == MF_DTYPE_C128 && i < n; i++)
        d[i] = ((const double *)from)[2 * i];
}

static void cast_pack(mf_dtype t, const void *from, void *to, int64_t n)
{
    const float *f = from;
    const double *d = from;

    for (int64_t i = 0; t == MF_DTYPE_F16 && i < n; i++)
        ((mf_f16 *)to)[i] = mf_f16_from_f32(f[i]);
    for (int64_t i = 0; t == MF_DTYPE_BF16 && i < n; i++)
        ((mf_bf16 *)to)[i] = mf_bf16_from_f32(f[i]);
    for (int64_t i = 0; t == MF_DTYPE_C64 && i < n; i++)
        ((float _Complex *)to)[i] = f[i];
    for (int64_t i = 0; t == MF_DTYPE_C128 && i < n; i++)
        ((double _Complex *)to)[i] = d[i];
}

/* Mantissa bits of a real type, for Truncate. */
static int mantissa_bits(mf_dtype t)
{
    return t == MF_DTYPE_F64 || t == MF_DTYPE_C128  ? 52
           : t == MF_DTYPE_F32 || t == MF_DTYPE_C64 ? 23
           : t == MF_DTYPE_F16                      ? 10
           : t == MF_DTYPE_BF16                     ? 7
                                                    : 64;
}

/* Mantissa bits that Truncate drops; 0: none. As in TensorFlow, bfloat16 is truncated only from
 * float, and conversions from real to complex are not truncated. */
static int truncated_bits(mf_dtype src, mf_dtype dst)
{
    const int kept = mantissa_bits(dst), had = mantissa_bits(stand_in(src));

    if (mf_dtype_is_int(src) || src == MF_DTYPE_BOOL || mantissa_bits(src) <= kept)
        return 0;
    if (dst == MF_DTYPE_BF16 && src != MF_DTYPE_F32)
        return 0;
    return mf_dtype_is_complex(dst) && !mf_dtype_is_complex(src) ? 0 : had - kept;
}

/* Clears the last `bits` of each mantissa, so that the following conversion does not round. */
static void clear_bits(mf_dtype t, void *data, int64_t n, int bits)
{
    float *f = data;
    double *d = data;

    for (int64_t i = 0; t == MF_DTYPE_F32 && i < n; i++) {
        uint32_t u;

        memcpy(&u, &f[i], 4);
        u &= f[i] != f[i] ? ~0u : ~0u << bits;
        memcpy(&f[i], &u, 4);
    }
    for (int64_t i = 0; t == MF_DTYPE_F64 && i < n; i++) {
        uint64_t u;

        memcpy(&u, &d[i], 8);
        u &= d[i] != d[i] ? ~0ull : ~0ull << bits;
        memcpy(&d[i], &u, 8);
    }
}

/* ---- the kernel ---- */

typedef struct cast_job {
    mf_dtype src, dst;
    const char *from;
    char *to;
    int64_t n;
    int clear; /* mantissa bits to clear before a lossy conversion; 0: round */
} cast_job;

/* Converts up to BLOCK elements through plain types. */
static void cast_block(const cast_job *job, const void *from, void *to, int64_t n)
{
    const mf_dtype src = stand_in(job->src), dst = stand_in(job->dst);
    double a[BLOCK], b[BLOCK]; /* room for any plain type */
    const void *in = from;
    void *out = dst == job->dst ? to : b;

    if (src != job->src) {
        cast_unpack(job->src, from, a, n);
        in = a;
    } else if (job->clear) {
        memcpy(a, from, (size_t)n * mf_dtype_cell(src));
        in = a;
    }
    if (job->clear)
        clear_bits(src, a, n, job->clear);
    MF_ASSERT(casts[src][dst]); /* checked by cast_run() */
    casts[src][dst](in, out, n);
    if (dst != job->dst)
        cast_pack(job->dst, b, to, n);
}

/* complex64 to complex128 and back: twice as many reals. */
static void cast_complex(const cast_job *job, const char *from, char *to, int64_t n)
{
    const cast_job reals = { .src = stand_in(job->src),
                             .dst = stand_in(job->dst),
                             .clear = job->clear };
    const size_t src_size = mf_dtype_cell(reals.src), dst_size = mf_dtype_cell(reals.dst);

    for (int64_t i = 0; i < 2 * n; i += BLOCK)
        cast_block(&reals, from + (size_t)i * src_size, to + (size_t)i * dst_size,
                   2 * n - i < BLOCK ? 2 * n - i : BLOCK);
}

static void cast_piece(void *ctx, int64_t piece)
{
    const cast_job *job = ctx;
    const int64_t from = piece * MF_LOOP_GRAIN;
    const int64_t end = from + MF_LOOP_GRAIN < job->n ? from + MF_LOOP_GRAIN : job->n;
    const size_t src_size = mf_dtype_cell(job->src), dst_size = mf_dtype_cell(job->dst);
    const char *in = job->from + (size_t)from * src_size;
    char *out = job->to + (size_t)from * dst_size;

    if (mf_dtype_is_complex(job->src) && mf_dtype_is_complex(job->dst)) {
        cast_complex(job, in, out, end - from);
        return;
    }
    if (casts[job->src][job->dst] && !job->clear) {
        casts[job->src][job->dst](in, out, end - from);
        return;
    }
    for (int64_t i = 0; i < end - from; i += BLOCK)
        cast_block(job, in + (size_t)i * src_size, out + (size_t)i * dst_size,
                   end - from - i < BLOCK ? end - from - i : BLOCK);
}

static mf_status cast_run(mf_kernel *k)
{
    const mf_tensor *in = k->in[0];
    const mf_dtype dst = mf_type_base(k->node->out_types[0]);
    cast_job job = { .src = in->dtype, .dst = dst, .from = in->data, .n = in->count };
    const int64_t pieces = (in->count + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN;
    mf_tensor *out;

    if (in->dtype != dst && !casts[stand_in(in->dtype)][stand_in(dst)])
        return MF_FAIL(MF_UNIMPLEMENTED, "Cast %s to %s is not supported", mf_dtype_name(in->dtype),
                       mf_dtype_name(dst));
    MF_TRY(mf_kernel_out(k, 0, &in->shape, &out));
    if (in->dtype == dst)
        return mf_cells_copy(dst, out->data, 0, in->data, 0, in->count);
    job.to = out->data;
    if (mf_node_bool(k->node, "Truncate"))
        job.clear = truncated_bits(in->dtype, dst);
    return mf_kernel_parallel(k, pieces, cast_piece, &job);
}

/* Values of small constants are propagated: shapes are often cast between int32 and int64. */
static mf_status cast_infer(mf_infer *in)
{
    const mf_tensor *value = in->in_value ? in->in_value[0] : NULL;
    const mf_dtype dst = mf_type_base(in->node->out_types[0]);
    mf_tensor out = { 0 };

    in->out[0] = in->in[0];
    if (!value || !mf_dtype_is_int(value->dtype) || !mf_dtype_is_int(dst))
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&out, dst, &value->shape));
    casts[value->dtype][dst](value->data, out.data, value->count);
    mf_infer_value(in, 0, &out);
    mf_tensor_clear(&out);
    return MF_OK;
}

static mf_status cast_grad(mf_grad *g)
{
    const mf_dtype src = mf_grad_type(g->x[0]), dst = mf_grad_type(g->dy[0]);

    if (((MF_T_FLOATS | MF_T_COMPLEX) >> src & 1) && ((MF_T_FLOATS | MF_T_COMPLEX) >> dst & 1))
        g->dx[0] = mf_applyf(g->graph, "Cast", MF_IN(g->dy[0]), "DstT=%s", mf_dtype_name(src));
    return MF_OK;
}

const mf_op mf_op_cast = {
    .name = "Cast",
    .rows = mf_rows_first,
    .def = "(x:SrcT) -> (y:DstT) {SrcT:type, DstT:type, Truncate:bool=false}",
    .infer = cast_infer,
    .grad = cast_grad,
    .run = cast_run,
    .split = mf_split_same,
    .samples = MF_SAMPLES(
        "f32[2,3] ; DstT=double", "f64[5] ; DstT=float", "f32[7] ; DstT=half !nograd",
        "f32[7] ; DstT=bfloat16 !nograd", "bf16[3] ; DstT=float !nograd",
        "f16[] ; DstT=double !nograd",
        "f64[6]{1.00048828125,-1.99999,1e-7,65519,nan,1e300} ; DstT=half Truncate=true !nograd",
        "f32[4]{1.0078124,-3.99999,nan,1e38} ; DstT=bfloat16 Truncate=true !nograd",
        "f32[9]{nan,inf,-inf,3.9,-3.9,300.5,-129,3e9,1e30} ; DstT=int32",
        "f32[7]{3.9,-3.9,300.5,-129,70000,3e9,nan} ; DstT=int8",
        "f32[6]{3.9,-3.9,300.5,3e9,1e30,nan} ; DstT=int64",
        "f32[5]{3.9,-1,3e9,9.3e18,1e30} ; DstT=uint64",
        "f64[3]{3.9,300.5,70000} ; DstT=uint16 !notf", "f32[3]{0,-0,nan} ; DstT=bool",
        "i32[5]{1,-1,300,70000,-2147483648} ; DstT=int8", "i64[3]{-1,4294967297,7} ; DstT=uint32",
        "u8[3]{0,200,255} ; DstT=int8", "i64[3]{9007199254740993,-1,3} ; DstT=double",
        "u64[2]{18446744073709551615,3} ; DstT=float", "bool[4] ; DstT=float",
        "bool[4] ; DstT=int32", "i32[4] ; DstT=bool", "i32[4] ; DstT=half",
        "c64[3] ; DstT=complex128 !nograd", "c128[3] ; DstT=float !nograd",
        "f32[3] ; DstT=complex64 !nograd", "i32[3] ; DstT=complex128", "c64[3] ; DstT=int32",
        "f32[0] ; DstT=int32", "i32[] ; DstT=int64", "f32[3] ; DstT=float",
        "str[2] ; DstT=string !notf", "str[2] ; DstT=int32 !fails", "f32[2] ; DstT=string !fails"),
};
