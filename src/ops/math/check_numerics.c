/* SPDX-License-Identifier: Apache-2.0 */
/* check_numerics.c - CheckNumerics: passes a tensor on, or fails if it contains NaN or Inf; and
 * _AllFinite, which returns whether all tensors are finite. */
#include "graph/split.h"
#include "ops/math/math_util.h"

#include <stdatomic.h>

enum { HAS_NAN = 1, HAS_PLUS = 2, HAS_MINUS = 4 };

/* Single pass without branches: x - x is 0 for finite numbers and NaN for others. */
#define SCAN_KIND(NAME, kind, EXPR)                                                                \
    static unsigned NAME##_##kind(const void *data, int64_t n)                                     \
    {                                                                                              \
        const MF_S_##kind *a = data;                                                               \
        unsigned found = 0;                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const MF_C_##kind x = MF_LD_##kind(a, i);                                              \
            const unsigned bad = x - x != 0;                                                       \
            found |= bad * (x > 0 ? HAS_PLUS : x < 0 ? HAS_MINUS : HAS_NAN);                       \
        }                                                                                          \
        return found;                                                                              \
    }
MF_EACH_FLOAT(SCAN_KIND, scan, )

typedef unsigned scan_fn(const void *data, int64_t n);
static scan_fn *const scans[MF_DTYPE_COUNT] = { MF_FN_FLOATS(scan) };

static mf_status scan(mf_kernel *k, unsigned *found)
{
    const mf_tensor *in = k->in[0];

    if (!scans[in->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(in->dtype));
    *found = scans[in->dtype](in->data, in->count);
    if (*found == 0)
        mf_kernel_view(k, 0, 0, &in->shape);
    return MF_OK;
}

static mf_status check_numerics_check_run(mf_kernel *k)
{
    unsigned found;

    MF_TRY(scan(k, &found));
    if (found == 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%.800s : Tensor had %s values",
                   mf_node_string(k->node, "message"),
                   found == HAS_NAN  ? "NaN"
                   : found & HAS_NAN ? "Inf and NaN"
                                     : "Inf");
}

/* V2 distinguishes the infinities. */
static mf_status check_v2_run(mf_kernel *k)
{
    static const char *const words[] = {
        [HAS_NAN] = "NaN",
        [HAS_PLUS] = "+Inf",
        [HAS_MINUS] = "-Inf",
        [HAS_PLUS | HAS_MINUS] = "-Inf and +Inf",
        [HAS_PLUS | HAS_NAN] = "+Inf and NaN",
        [HAS_MINUS | HAS_NAN] = "-Inf and NaN",
        [HAS_PLUS | HAS_MINUS | HAS_NAN] = "-Inf, +Inf, and NaN",
    };
    unsigned found;

    MF_TRY(scan(k, &found));
    if (found == 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%.800s : Tensor had %s values",
                   mf_node_string(k->node, "message"), words[found]);
}

static mf_status check_numerics_check_grad(mf_grad *g)
{
    g->dx[0] =
        mf_applyf(g->graph, g->node->op_name, MF_IN(g->dy[0]),
                  "message='Not a number (NaN) or infinity (Inf) values detected in gradient.'");
    return MF_OK;
}

/* ---- many tensors ---- */

/* NaN and Inf, without the sign, have bits of at least `limit`, the exponent mask. An integer
 * maximum takes a fraction of the time of float comparisons. */
#define BAD_KIND(kind, bits, limit)                                                                \
    static bool has_bad_##kind(const void *data, int64_t from, int64_t to)                         \
    {                                                                                              \
        const bits *a = data, sign = (bits)((bits)1 << (8 * sizeof(bits) - 1));                    \
        bits most = 0;                                                                             \
        for (int64_t i = from; i < to; i++) {                                                      \
            const bits x = (bits)(a[i] & (bits)~sign);                                             \
            most = x > most ? x : most;                                                            \
        }                                                                                          \
        return most >= (limit);                                                                    \
    }
BAD_KIND(f64, uint64_t, 0x7ff0000000000000u)
BAD_KIND(f32, uint32_t, 0x7f800000u)
BAD_KIND(f16, uint16_t, 0x7c00u)
BAD_KIND(bf16, uint16_t, 0x7f80u)

typedef bool bad_fn(const void *data, int64_t from, int64_t to);
static bad_fn *const bad_fns[MF_DTYPE_COUNT] = { MF_FN_FLOATS(has_bad) };

typedef struct finite_job {
    const mf_kernel *k;
    atomic_bool bad;
} finite_job;

/* The elements of all tensors are treated as one sequence. */
static void finite_piece(void *ctx, int64_t piece)
{
    finite_job *job = ctx;
    int64_t from = piece * MF_LOOP_GRAIN, left = MF_LOOP_GRAIN;
    bool bad = false;

    for (int i = 0; i < job->k->n_in && left > 0 && !bad; i++) {
        const mf_tensor *t = job->k->in[i];
        const int64_t n = t->count - from < left ? t->count - from : left;

        if (n > 0) {
            bad = bad_fns[t->dtype](t->data, from, from + n);
            left -= n;
        }
        from = n > 0 ? 0 : from - t->count;
    }
    if (bad)
        atomic_store_explicit(&job->bad, true, memory_order_relaxed);
}

static mf_status finite_run(mf_kernel *k)
{
    finite_job job = { .k = k };
    int64_t total = 0;
    mf_tensor *out;

    for (int i = 0; i < k->n_in; i++)
        total += k->in[i]->count;
    MF_TRY(mf_kernel_parallel(k, (total + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN, finite_piece, &job));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(bool *)out->data = !atomic_load(&job.bad);
    return MF_OK;
}

#define CHECK_OP(NAME, RUN)                                                                        \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(tensor:T) -> (output:T) {T:type in floats, message:string} is_stateful",          \
        .flags = MF_OP_VIEW, .infer = mf_infer_same, .grad = check_numerics_check_grad,            \
        .run = RUN, .split = mf_split_same,                                                        \
        .samples = MF_SAMPLES("f32[2,3] ; message='x'", "f64[3] ; message='x'",                    \
                              "bf16[3] ; message='x' !nograd", "f16[] ; message='x' !nograd",      \
                              "f32[0] ; message=''", "f32[2]{1,nan} ; message='x' !fails",         \
                              "f32[2]{1,-inf} ; message='x' !fails",                               \
                              "f16[2]{inf,nan} ; message='x' !fails")                              \
    }

const mf_op mf_ops_check[] = {
    CHECK_OP("CheckNumerics", check_numerics_check_run),
    CHECK_OP("CheckNumericsV2", check_v2_run),
    { .name = "_AllFinite",
      .def = "(inputs:N*T) -> (finite:bool) {N:int>=1, T:type in floats}",
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .run = finite_run,
      .samples = MF_SAMPLES("f32[2,3] f32[5] f32[] ; !notf", "f64[3] ; !notf",
                            "f16[9000] f16[0] f16[9000] ; !notf", "bf16[2] bf16[2] ; !notf",
                            "f32[2]{1,nan} f32[3] ; !notf", "f32[3] f32[2]{1,-inf} ; !notf") },
    { 0 },
};
