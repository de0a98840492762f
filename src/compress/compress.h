/* SPDX-License-Identifier: Apache-2.0 */
/* compress.h - methods that make a trained model smaller and faster. Each takes its settings
 * (compress_settings.h), and appends a line for each layer to `report`.
 * docs/guides/model-compression.md */
#ifndef MF_COMPRESS_COMPRESS_H
#define MF_COMPRESS_COMPRESS_H

#include "compress/compress_settings.h"
#include "compress/compressed_model.h"

/* Structured pruning: removes the filters of convolutions and units of dense layers with the
 * smallest kernels, and shrinks the layers that consume them. A pattern with a star skips layers
 * that cannot be pruned. Fails: INVALID_ARGUMENT, NOT_FOUND. */
MF_MUST mf_status mf_compress_units(mf_compressed *s, const mf_units_settings *how, mf_buf *report);

/* Low-rank factorization: kernels become products of two smaller ones, by singular value
 * decomposition. A pattern with a star skips kernels that would not get smaller. Fails:
 * INVALID_ARGUMENT, NOT_FOUND. */
MF_MUST mf_status mf_compress_rank(mf_compressed *s, const mf_rank_settings *how, mf_buf *report);
/* a (rows x rank) times b (rank x columns) is the best approximation of the matrix. rank 0: chosen
 * by `energy`. *error: relative to the matrix, in the Frobenius norm. Owns: a and b must be empty.
 */
MF_MUST mf_status mf_low_rank(const mf_tensor *matrix, int64_t *rank, double energy, mf_tensor *a,
                              mf_tensor *b, double *error);

/* Weight sharing: the weights of a kernel take one of 2^bits values, found by k-means. Zeros stay
 * zeros, and do not count as a value. */
MF_MUST mf_status mf_compress_share(mf_compressed *s, const mf_share_settings *how, mf_buf *report);
/* Replaces the elements of `x` that are not 0 by at most n different values. *error: root mean
 * square. */
MF_MUST mf_status mf_share_values(float *x, int64_t count, int n, double *error);

/* Quantization: finds the ranges of the inputs of layers on samples of the data; the model then
 * computes in 8-bit integers. */
MF_MUST mf_status mf_compress_quantize(mf_compressed *s, const mf_quantize_settings *q,
                                       mf_dataset *data, const mf_compile_options *options,
                                       mf_buf *report);
/* Rounds the kernels of these layers to the values of their 8-bit representation. */
MF_MUST mf_status mf_compress_round(mf_compressed *s, const mf_quantize_settings *q);

/* ---- measuring ---- */

typedef struct mf_measured {
    int64_t bytes;
    double value; /* of the first metric, or the loss */
    double inferred; /* inference: samples per second */
    double step; /* training step: seconds */
} mf_measured;

/* The first metric over all samples. */
MF_MUST mf_status mf_measure_value(const mf_compressed *s, const mf_compile_options *options,
                                   mf_dataset *test, const char **name, double *value);
/* The speed of both models, measured alternately, so that other load affects both: the fastest of
 * several rounds. */
MF_MUST mf_status mf_measure_speed(const mf_compressed *const both[2],
                                   const mf_compile_options *options, mf_dataset *train,
                                   int64_t batch, mf_measured *const out[2]);

#endif
