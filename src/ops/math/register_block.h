/* SPDX-License-Identifier: Apache-2.0 */
/* register_block.h - the size of a block of a matrix product that is kept in vector registers: MR
 * rows of two vectors. */
#ifndef MF_OPS_MATH_REGISTER_BLOCK_H
#define MF_OPS_MATH_REGISTER_BLOCK_H

/* The accumulators leave registers for the operands. BLOCK_CASES: every number of rows. */
#if defined(__AVX512F__)
enum { VECTOR = 64, MR = 14 };
#define BLOCK_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
enum { VECTOR = 32, MR = 6 };
#define BLOCK_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

/* UNROLL: a loop over the block, completely. With sanitizers there is one block for all sizes
 * instead of one for each: their checks of every access in every case would take minutes to
 * compile. */
#if defined(MF_SANITIZED)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 28")
#endif

#endif
