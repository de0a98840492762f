/* SPDX-License-Identifier: Apache-2.0 */
/* row_math.h - sums, maxima and exponentials over a row of numbers, in a fixed order.
 *
 * Sums keep ROW_LANES partial sums that are added by a tree, block by block, the blocks in double:
 * compilers vectorise this without reordering. */
#ifndef MF_OPS_MATH_ROW_MATH_H
#define MF_OPS_MATH_ROW_MATH_H

#include "ops/math/vmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ROW_LANES = 16, ROW_BLOCK = 1024 };

/* The functions of vmath.h with the suffixes used here. */
#define mf_row_exp_f32 mf_expf
#define mf_row_exp_f64 mf_exp
#define mf_row_log_f32 mf_logf
#define mf_row_log_f64 mf_log

/* TERM(i) is the i-th summand. The sum is stored in `RESULT` (double). */
#define MF_ROW_SUM(T, RESULT, n, TERM)                                                             \
    do {                                                                                           \
        (RESULT) = 0;                                                                              \
        for (int64_t from_ = 0; from_ < (n); from_ += ROW_BLOCK) {                                 \
            const int64_t to_ = from_ + ROW_BLOCK < (n) ? from_ + ROW_BLOCK : (n);                 \
            T lane_[ROW_LANES] = { 0 };                                                            \
            int64_t i_ = from_;                                                                    \
                                                                                                   \
            for (; i_ + ROW_LANES <= to_; i_ += ROW_LANES)                                         \
                for (int l_ = 0; l_ < ROW_LANES; l_++)                                             \
                    lane_[l_] += TERM(i_ + l_);                                                    \
            for (int l_ = 0; i_ < to_; i_++, l_++)                                                 \
                lane_[l_] += TERM(i_);                                                             \
            for (int w_ = ROW_LANES / 2; w_ > 0; w_ /= 2)                                          \
                for (int l_ = 0; l_ < w_; l_++)                                                    \
                    lane_[l_] += lane_[l_ + w_];                                                   \
            (RESULT) += (double)lane_[0];                                                          \
        }                                                                                          \
    } while (0)

#define MF_ROW_FUNCTIONS(SUFFIX, T, I)                                                             \
    typedef T mf_row_vector_##SUFFIX __attribute__((vector_size(32)));                             \
    typedef I mf_row_bits_##SUFFIX __attribute__((vector_size(32)));                               \
    /* Where v is larger than max, or no number. */                                                \
    static inline mf_row_vector_##SUFFIX mf_row_larger_##SUFFIX(mf_row_vector_##SUFFIX max,        \
                                                                mf_row_vector_##SUFFIX v)          \
    {                                                                                              \
        const mf_row_bits_##SUFFIX more = (v > max) | (v != v);                                    \
                                                                                                   \
        return (mf_row_vector_##SUFFIX)(((mf_row_bits_##SUFFIX)v & more) |                         \
                                        ((mf_row_bits_##SUFFIX)max & ~more));                      \
    }                                                                                              \
    /* The largest of n >= 1 numbers; NaN when one is. */                                          \
    static inline T mf_row_max_##SUFFIX(const T *x, int64_t n)                                     \
    {                                                                                              \
        enum { VECTOR = 32 / sizeof(T) };                                                          \
        mf_row_vector_##SUFFIX max[ROW_LANES / VECTOR];                                            \
        T lane[ROW_LANES];                                                                         \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (int l = 0; l < ROW_LANES; l++)                                                        \
            lane[l] = x[0];                                                                        \
        memcpy(max, lane, sizeof max);                                                             \
        for (; i + ROW_LANES <= n; i += ROW_LANES)                                                 \
            for (int l = 0; l < ROW_LANES / VECTOR; l++) {                                         \
                mf_row_vector_##SUFFIX v;                                                          \
                                                                                                   \
                memcpy(&v, x + i + l * VECTOR, sizeof v);                                          \
                max[l] = mf_row_larger_##SUFFIX(max[l], v);                                        \
            }                                                                                      \
        memcpy(lane, max, sizeof max);                                                             \
        for (int l = 0; i < n; i++, l++)                                                           \
            lane[l] = x[i] > lane[l] || x[i] != x[i] ? x[i] : lane[l];                             \
        for (int l = 1; l < ROW_LANES; l++)                                                        \
            lane[0] = lane[l] > lane[0] || lane[l] != lane[l] ? lane[l] : lane[0];                 \
        return lane[0];                                                                            \
    }                                                                                              \
    /* out[i] = e^(x[i] - shift) (out may be x); returns their sum. */                             \
    static inline T mf_row_exp_sum_##SUFFIX(const T *x, T shift, int64_t n, T *out)                \
    {                                                                                              \
        double sum;                                                                                \
                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = mf_row_exp_##SUFFIX(x[i] - shift);                                            \
        MF_ROW_SUM(T, sum, n, MF_ROW_OUT);                                                         \
        return (T)sum;                                                                             \
    }
#define MF_ROW_OUT(i) out[i]
MF_ROW_FUNCTIONS(f32, float, int32_t)
MF_ROW_FUNCTIONS(f64, double, int64_t)

#endif
