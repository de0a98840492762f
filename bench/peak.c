/* SPDX-License-Identifier: Apache-2.0 */
/* peak.c - the peak of the processor: threads that only multiply and add in registers.
 *
 * Usage: peak [THREADS]     default: one for each core
 *
 * Prints one JSON object: GFLOP/s of all threads together by instruction set (0: the processor does
 * not have it), and the maximum for fp32 and bf16. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_THREADS = 1024, ROUNDS = 3, LOOPS = 20000 };

static const double SECONDS = 0.1; /* of a round */

/* ---- loops; each returns its floating-point operations ---- */

/* Twelve sums in flight hide the latency of two units. */
#define TWELVE(S) S(0) S(1) S(2) S(3) S(4) S(5) S(6) S(7) S(8) S(9) S(10) S(11)

__attribute__((target("avx2,fma"))) static double loop_avx2(void)
{
    const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
    __m256 sum[12];

    for (int i = 0; i < 12; i++)
        sum[i] = b;
    for (int n = 0; n < LOOPS; n++) {
#define STEP(i)                                                                                    \
    sum[i] = _mm256_fmadd_ps(sum[i], a, b);                                                        \
    __asm__ volatile("" : "+x"(sum[i]));
        TWELVE(STEP)
#undef STEP
    }
    return 2.0 * 8 * 12 * LOOPS;
}

__attribute__((target("avx512f"))) static double loop_avx512(void)
{
    const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
    __m512 sum[12];

    for (int i = 0; i < 12; i++)
        sum[i] = b;
    for (int n = 0; n < LOOPS; n++) {
#define STEP(i)                                                                                    \
    sum[i] = _mm512_fmadd_ps(sum[i], a, b);                                                        \
    __asm__ volatile("" : "+v"(sum[i]));
        TWELVE(STEP)
#undef STEP
    }
    return 2.0 * 16 * 12 * LOOPS;
}

__attribute__((target("avx512f,avx512bf16"))) static double loop_avx512_bf16(void)
{
    const __m512bh a = (__m512bh)_mm512_setzero_si512();
    __m512 sum[12];

    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_set1_ps(0.25F);
    for (int n = 0; n < LOOPS; n++) {
#define STEP(i)                                                                                    \
    sum[i] = _mm512_dpbf16_ps(sum[i], a, a);                                                       \
    __asm__ volatile("" : "+v"(sum[i]));
        TWELVE(STEP)
#undef STEP
    }
    return 2.0 * 32 * 12 * LOOPS;
}

/* Four products of tiles [16,32] and [32,16] in flight. */
__attribute__((target("amx-tile,amx-bf16"))) static double loop_amx_bf16(void)
{
    static const struct {
        unsigned char palette, start, unused[14];
        unsigned short bytes[16];
        unsigned char rows[16];
    } tiles = { 1, 0, { 0 }, { 64, 64, 64, 64, 64, 64 }, { 16, 16, 16, 16, 16, 16 } };

    _tile_loadconfig(&tiles);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int n = 0; n < LOOPS; n++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_release();
    return 2.0 * 16 * 16 * 32 * 4 * LOOPS;
}

/* ---- what the processor has ---- */

/* Linux gives a process the tiles when it asks for them. */
static int has_amx_bf16(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned int a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

/* Bit 5 of the first word of subleaf 1. (Not every compiler's __builtin_cpu_supports() knows it.)
 */
static int has_avx512_bf16(void)
{
    unsigned int a, b, c, d;

    return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a >> 5 & 1);
}

/* ---- threads ---- */

typedef struct peak_worker {
    double (*loop)(void);
    double rate;
} peak_worker;

/* Processor time of this thread: other processes do not change the result. */
static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *peak_work(void *arg)
{
    peak_worker *w = arg;
    double flops = 0, begin;

    (void)w->loop(); /* warm-up */
    begin = now();
    while (now() - begin < SECONDS)
        flops += w->loop();
    w->rate = flops / (now() - begin);
    return NULL;
}

/* GFLOP/s of all threads, the maximum of a few rounds. */
static double peak_of(double (*loop)(void), int has, int threads)
{
    static pthread_t thread[MOST_THREADS];
    static peak_worker workers[MOST_THREADS];
    double most = 0;

    for (int round = 0; has && round < ROUNDS; round++) {
        double sum = 0;

        for (int i = 0; i < threads; i++) {
            workers[i].loop = loop;
            if (pthread_create(&thread[i], NULL, peak_work, &workers[i]) != 0) {
                fprintf(stderr, "bench peak: cannot start %d threads\n", threads);
                exit(1);
            }
        }
        for (int i = 0; i < threads; i++) {
            (void)pthread_join(thread[i], NULL);
            sum += workers[i].rate;
        }
        most = sum > most ? sum : most;
    }
    return most * 1e-9;
}

static int usable_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : usable_cores();
    double avx2, avx512, avx512_bf16, amx_bf16;

    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "bench peak: '%s' is not a number of threads from 1 to %d\n", argv[1],
                MOST_THREADS);
        return 2;
    }
    __builtin_cpu_init();
    avx2 = peak_of(loop_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                   threads);
    avx512 = peak_of(loop_avx512, __builtin_cpu_supports("avx512f"), threads);
    avx512_bf16 = peak_of(loop_avx512_bf16, has_avx512_bf16(), threads);
    amx_bf16 = peak_of(loop_amx_bf16, has_amx_bf16(), threads);
    printf("{\"threads\":%d,\"avx2\":%.0f,\"avx512\":%.0f,\"avx512_bf16\":%.0f,\"amx_bf16\":%.0f,"
           "\"fp32\":%.0f,\"bf16\":%.0f}\n",
           threads, avx2, avx512, avx512_bf16, amx_bf16, larger(avx2, avx512),
           larger(larger(avx2, avx512), larger(avx512_bf16, amx_bf16)));
    return 0;
}
#else
int main(void)
{
    fprintf(stderr, "bench peak: measures x86-64 processors only\n");
    return 1;
}
#endif
