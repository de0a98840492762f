/* SPDX-License-Identifier: Apache-2.0 */
/* conv_tiles.c - conv_tile.h for floats and for pairs of bfloat16. */
#include "ops/nn/conv_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define MF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MF_UNROLL _Pragma("GCC unroll 16")
#endif

/* Every pair of vectors and rows up to the maximum. */
#define UP_TO_6(X, nv) X(nv, 1) X(nv, 2) X(nv, 3) X(nv, 4) X(nv, 5) X(nv, 6)
#define UP_TO_8(X, nv) UP_TO_6(X, nv) X(nv, 7) X(nv, 8)
#define UP_TO_12(X, nv) UP_TO_8(X, nv) X(nv, 9) X(nv, 10) X(nv, 11) X(nv, 12)
#define UP_TO_14(X, nv) UP_TO_12(X, nv) X(nv, 13) X(nv, 14)

#if defined(__AVX512F__)
#define LANES 16
#define MF_CONV_MOST_ROWS                                                                          \
    {                                                                                              \
        14, 14, 8, 6                                                                               \
    }
#define MF_CONV_EACH_TILE(X) UP_TO_14(X, 1) UP_TO_14(X, 2) UP_TO_8(X, 3) UP_TO_6(X, 4)
#else
#define LANES 8
#define MF_CONV_MOST_ROWS                                                                          \
    {                                                                                              \
        12, 6                                                                                      \
    }
#define MF_CONV_EACH_TILE(X) UP_TO_12(X, 1) UP_TO_6(X, 2)
#endif

#define CELL float
#define fn(name) conv_float_##name
#if defined(__AVX512F__)
#define V __m512
#define ZERO _mm512_setzero_ps()
#define LOAD(p) _mm512_loadu_ps(p)
#define SPLAT(c) _mm512_set1_ps(c)
#define MULADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#elif defined(__FMA__)
#define V __m256
#define ZERO _mm256_setzero_ps()
#define LOAD(p) _mm256_loadu_ps(p)
#define SPLAT(c) _mm256_set1_ps(c)
#define MULADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#else
typedef float conv_vector __attribute__((vector_size(32)));
typedef float conv_loose_vector __attribute__((vector_size(32), aligned(4), may_alias));
#define V conv_vector
#define ZERO ((conv_vector){ 0 })
#define LOAD(p) ((conv_vector) * (const conv_loose_vector *)(p))
#define SPLAT(c) ((c) - (conv_vector){ 0 })
#define MULADD(sum, a, b) ((sum) + (a) * (b))
#endif
#define W V
#include "ops/nn/conv_tile.h"

const mf_conv_tiles *mf_conv_tiles_float(void)
{
    return &conv_float_tiles;
}

/* Processors with AMX execute VDPBF16PS at a quarter of the rate of multiply-adds: there, bfloat16
 * is widened. */
#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
#define HAS_PAIRS 1
typedef uint32_t bf16_pair __attribute__((may_alias, aligned(2)));
#define CELL bf16_pair
#define fn(name) conv_bf16_##name
#define V __m512
#define W __m512i
#define ZERO _mm512_setzero_ps()
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(c) _mm512_set1_epi32((int)(c))
#define MULADD(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#include "ops/nn/conv_tile.h"
#endif

const mf_conv_tiles *mf_conv_tiles_bf16(void)
{
#if defined(HAS_PAIRS)
    return &conv_bf16_tiles;
#else
    return NULL;
#endif
}
