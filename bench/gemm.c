/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - rates of matrix products: squares, products of the zoo's layers with their gradients,
 * small ones, batches. The last column is the share of the FMA peak, measured here in registers.
 *
 * Usage: gemm [-t THREADS] [PATTERN]; the best of several rounds counts, so a loaded machine
 * disturbs little. On one thread unless -t is given; the share is that of one core times threads.
 * The instruction set is the best one, or MESHFLOW_NUMERICS.
 *
 * Estimate: a register block of 14 x 32 floats does 28 multiply-adds for 16 loads, which the ports
 * sustain; packing costs about 1 / 32 of the time for tiles of 256 rows. So 90 % is the goal. */
#include "ops/math/gemm.h"

#include "../tests/unit/ops/kernel_sets.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "bench.h"

#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 5, PEAK_STEPS = 2000000, CHAINS = 16 };
#define ROUND_FLOPS 3e8 /* a few milliseconds */

KERNEL_SETS(mf_gemm_run, gemm_of_set)

/* ---- the peak ---- */

typedef struct peak {
    const char *set;
    double f32, bf16; /* flop per ns; 0: no instruction for it */
} peak;

#if defined(__x86_64__)
/* FLOPS: of one instruction. The chains are independent; there are enough for any latency. */
#define PEAK_LOOP(NAME, TARGET, V, ZERO, STEP, FLOPS)                                              \
    __attribute__((target(TARGET))) static double NAME(void)                                       \
    {                                                                                              \
        double best = 0;                                                                           \
                                                                                                   \
        for (int r = 0; r < ROUNDS; r++) {                                                         \
            const int64_t start = mf_clock_ns();                                                   \
            V x[CHAINS], all = ZERO;                                                               \
            double rate;                                                                           \
                                                                                                   \
            _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) x[i] = ZERO;                 \
            for (int s = 0; s < PEAK_STEPS / CHAINS; s++) {                                        \
                _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++)                          \
                {                                                                                  \
                    x[i] = STEP(x[i]);                                                             \
                    __asm__ volatile("" : "+v"(x[i]));                                             \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) all = all + x[i];            \
            __asm__ volatile("" : : "v"(all));                                                     \
            rate = (double)PEAK_STEPS * (FLOPS) / (double)(mf_clock_ns() - start);                 \
            best = rate > best ? rate : best;                                                      \
        }                                                                                          \
        return best;                                                                               \
    }

#define STEP_AVX2(x) _mm256_fmadd_ps(x, x, x)
#define STEP_AVX512(x) _mm512_fmadd_ps(x, x, x)
#define STEP_BF16(x) _mm512_dpbf16_ps(x, (__m512bh)(x), (__m512bh)(x))
PEAK_LOOP(peak_avx2, "avx2,fma", __m256, _mm256_setzero_ps(), STEP_AVX2, 16)
PEAK_LOOP(peak_avx512, "avx512f", __m512, _mm512_setzero_ps(), STEP_AVX512, 32)
PEAK_LOOP(peak_bf16, "avx512bf16", __m512, _mm512_setzero_ps(), STEP_BF16, 64)
#endif

static peak find_peak(mf_isa set)
{
    peak p = { mf_isa_name(set), 0, 0 };

#if defined(__x86_64__)
    if (set >= MF_ISA_AVX512_BF16)
        p.bf16 = peak_bf16();
    if (set >= MF_ISA_AVX512)
        p.f32 = peak_avx512();
    else if (__builtin_cpu_supports("fma"))
        p.f32 = peak_avx2();
#endif
    return p;
}

/* ---- products ---- */

typedef struct product {
    const char *subject;
    int64_t m, n, k, batch;
    bool ta, tb;
    int64_t shards, samples;
} product;

static const product products[] = {
    { "square", 64, 64, 64, 1, 0, 0, 0, 0 },
    { "square", 128, 128, 128, 1, 0, 0, 0, 0 },
    { "square", 256, 256, 256, 1, 0, 0, 0, 0 },
    { "square", 512, 512, 512, 1, 0, 0, 0, 0 },
    { "square", 1024, 1024, 1024, 1, 0, 0, 0, 0 },
    { "square", 2048, 2048, 2048, 1, 0, 0, 0, 0 },
    { "square A'", 1024, 1024, 1024, 1, 1, 0, 0, 0 },
    { "square B'", 1024, 1024, 1024, 1, 0, 1, 0, 0 },
    { "mlp 1 B=32", 32, 128, 784, 1, 0, 0, 0, 0 },
    { "mlp 1 dW B=32", 784, 128, 32, 1, 1, 0, 8, 32 },
    { "mlp 1 B=128", 128, 128, 784, 1, 0, 0, 0, 0 },
    { "mlp 1 dW B=128", 784, 128, 128, 1, 1, 0, 8, 128 },
    { "mlp 1 dX B=128", 128, 784, 128, 1, 0, 1, 0, 0 },
    { "mlp 2 B=32", 32, 10, 128, 1, 0, 0, 0, 0 },
    { "mlp 2 dX B=32", 32, 128, 10, 1, 0, 1, 0, 0 },
    { "mlp 2 dW B=32", 128, 10, 32, 1, 1, 0, 8, 32 },
    { "mlp 2 B=128", 128, 10, 128, 1, 0, 0, 0, 0 },
    { "mlp 2 dX B=128", 128, 128, 10, 1, 0, 1, 0, 0 },
    { "mlp 2 dW B=128", 128, 10, 128, 1, 1, 0, 8, 128 },
    { "mlp 1 dW B=8", 784, 128, 8, 1, 1, 0, 8, 8 },
    { "cnn dense B=8", 8, 128, 3136, 1, 0, 0, 0, 0 },
    { "cnn dense B=128", 128, 128, 3136, 1, 0, 0, 0, 0 },
    { "cnn dense dX", 128, 3136, 128, 1, 0, 1, 0, 0 },
    { "cnn dense dW", 3136, 128, 128, 1, 1, 0, 8, 128 },
    { "lstm gates", 32, 256, 64, 1, 0, 0, 0, 0 },
    { "lstm gates all", 2048, 256, 64, 1, 0, 0, 0, 0 },
    { "lstm gates dX", 32, 64, 256, 1, 0, 1, 0, 0 },
    { "lstm gates dW", 64, 256, 2048, 1, 1, 0, 8, 32 },
    { "transformer qkv", 2048, 64, 64, 1, 0, 0, 0, 0 },
    { "transformer mlp", 2048, 256, 64, 1, 0, 0, 0, 0 },
    { "transformer dW", 64, 256, 2048, 1, 1, 0, 8, 32 },
    { "attention QK'", 64, 64, 32, 128, 0, 1, 0, 0 },
    { "attention PV", 64, 32, 64, 128, 0, 0, 0, 0 },
    { "one row", 1, 1024, 1024, 1, 0, 0, 0, 0 },
    { "one row B'", 1, 1024, 1024, 1, 0, 1, 0, 0 },
    { "four rows", 4, 1024, 1024, 1, 0, 0, 0, 0 },
    { "eight rows", 8, 1024, 1024, 1, 0, 0, 0, 0 },
};

static const struct {
    mf_dtype type;
    const char *name;
} types[] = { { MF_DTYPE_F32, "float" },
              { MF_DTYPE_BF16, "bfloat16" },
              { MF_DTYPE_F64, "double" } };

static void fill_operand(void *data, mf_dtype type, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)(i % 61) / 64 - 0.4;

        if (type == MF_DTYPE_F32)
            ((float *)data)[i] = (float)x;
        else if (type == MF_DTYPE_F64)
            ((double *)data)[i] = x;
        else
            ((mf_bf16 *)data)[i] = mf_bf16_from_f32((float)x);
    }
}

static mf_gemm make_gemm(const product *p, mf_dtype type)
{
    const size_t cell = mf_dtype_cell(type);
    const int64_t a = p->m * p->k, b = p->k * p->n;
    mf_gemm g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .c_type = type,
        .shards = p->shards,
        .samples = p->samples,
        .batch_rank = p->batch > 1,
        .batch_dims = { p->batch },
        .a = { .type = type, .row = p->ta ? 1 : p->k, .col = p->ta ? p->m : 1 },
        .b = { .type = type, .row = p->tb ? 1 : p->n, .col = p->tb ? p->k : 1 },
    };
    void *at = mf_calloc(p->batch * a + 16, cell);
    void *bt = mf_calloc(p->batch * b + 16, cell);

    fill_operand(at, type, p->batch * a);
    fill_operand(bt, type, p->batch * b);
    g.a.data = at;
    g.b.data = bt;
    g.a.batch_stride[0] = a;
    g.b.batch_stride[0] = b;
    g.c = mf_calloc(p->batch * p->m * p->n + 16, cell);
    mf_gemm_c_follows(&g);
    return g;
}

static void free_gemm(mf_gemm *g)
{
    mf_free((void *)(uintptr_t)g->a.data);
    mf_free((void *)(uintptr_t)g->b.data);
    mf_free(g->c);
}

/* flop per ns, of the best round. */
static double measure(const mf_kernel *k, const mf_gemm *g, double flops)
{
    const int64_t calls = (int64_t)(ROUND_FLOPS / flops) + 1;
    double best = 0;

    must(gemm_of_set[mf_isa_chosen()](k, g));
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = mf_clock_ns();
        double rate;

        for (int64_t i = 0; i < calls; i++)
            must(gemm_of_set[mf_isa_chosen()](k, g));
        rate = flops * (double)calls / (double)(mf_clock_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static void run_product(const mf_kernel *k, const product *p, int type, double peak_rate)
{
    const double flops = 2.0 * (double)(p->m * p->n * p->k * p->batch);
    mf_gemm g = make_gemm(p, types[type].type);
    const double rate = measure(k, &g, flops);
    char size[64];

    (void)snprintf(size, sizeof size, "%lldx%lldx%lld%s", (long long)p->m, (long long)p->n,
                   (long long)p->k,
                   p->batch > 1    ? " batch"
                   : p->shards > 0 ? " shards"
                                   : "");
    printf("%-18s %-24s %-9s %9.1f %9.2f us %6.1f %%\n", p->subject, size, types[type].name, rate,
           flops / rate / 1e3, 100 * rate / peak_rate);
    free_gemm(&g);
}

int main(int argc, char **argv)
{
    const mf_isa set = mf_isa_chosen();
    const peak top = find_peak(set);
    const mf_node node = { 0 };
    mf_step step = { 0 };
    const mf_kernel k = { .node = &node, .step = &step };
    int threads = 1, opt;
    char row[64];

    while ((opt = getopt(argc, argv, "t:")) == 't')
        threads = atoi(optarg);
    must(mf_pool_new(threads, &step.pool));
    printf("# %s, FMA peak %.1f GFLOP/s per core, bfloat16 %.1f; %d threads\n", top.set, top.f32,
           top.bf16, threads);
    printf("%-18s %-24s %-9s %9s %12s %8s\n", "subject", "m x n x k", "type", "GFLOP/s", "time",
           "of peak");
    for (int t = 0; t < MF_COUNT(types); t++) {
        const double rate = types[t].type == MF_DTYPE_F64                    ? top.f32 / 2
                            : types[t].type == MF_DTYPE_BF16 && top.bf16 > 0 ? top.bf16
                                                                             : top.f32;

        for (int i = 0; i < MF_COUNT(products); i++) {
            (void)snprintf(row, sizeof row, "%s %s", products[i].subject, types[t].name);
            if (optind < argc && !strstr(row, argv[optind]))
                continue;
            if (types[t].type != MF_DTYPE_F32 && products[i].shards > 0)
                continue;
            run_product(&k, &products[i], t, rate * threads);
        }
    }
    mf_pool_free(step.pool);
    return 0;
}
