/* SPDX-License-Identifier: Apache-2.0 */
/* compress.h - ways to make a trained model smaller and faster. Each takes settings as text; what
 * was done is told as a line for each layer. docs/guides/model-compression.md */
#ifndef MF_COMPRESS_COMPRESS_H
#define MF_COMPRESS_COMPRESS_H

#include "compress/compress_settings.h"
#include "compress/compressed_model.h"

/* Whole filters of convolutions and units of dense layers go, those of the smallest kernels:
 * "share=0.5 layers=*" leaves out half of them. What takes them in gets smaller, too. A star leaves
 * alone what cannot be cut. Fails: INVALID_ARGUMENT, NOT_FOUND. */
MF_MUST mf_status mf_compress_units(mf_compressed *s, const mf_units_settings *how, mf_buf *told);

/* Kernels become products of two smaller ones, by singular values: "rank=16", or "energy=0.95" of
 * the sum of their squares; "layers=dense". A star leaves alone what would not get smaller. */
MF_MUST mf_status mf_compress_rank(mf_compressed *s, const mf_rank_settings *how, mf_buf *told);
/* a (rows x rank) times b (rank x columns) is the nearest to the matrix. rank 0: as `energy` says.
 * *error: what is missing, relative to the matrix (Frobenius). Owns: a, b are empty slots before.
 */
MF_MUST mf_status mf_low_rank(const mf_tensor *matrix, int64_t *rank, double energy, mf_tensor *a,
                              mf_tensor *b, double *error);

/* Weights share a few values, 2^bits for each kernel, found by k-means: "bits=5 layers=*". Zeros
 * stay zeros, and are not counted. */
MF_MUST mf_status mf_compress_share(mf_compressed *s, const mf_share_settings *how, mf_buf *told);
/* The values of `x` that are not 0 become one of at most n. *error: root of the mean square. */
MF_MUST mf_status mf_share_values(float *x, int64_t count, int n, double *error);

/* Finds the ranges of what goes into layers, on samples of the data; from then on the model
 * computes with bytes. */
MF_MUST mf_status mf_compress_quantize(mf_compressed *s, const mf_quantize_settings *q,
                                       mf_dataset *data, const mf_compile_options *options,
                                       mf_buf *told);
/* Kernels of these layers become what bytes of them stand for. */
MF_MUST mf_status mf_compress_round(mf_compressed *s, const mf_quantize_settings *q);

/* ---- measuring ---- */

typedef struct mf_measured {
    int64_t bytes;
    double value; /* of the first metric, or the loss */
    double inferred; /* samples a second */
    double step; /* seconds */
} mf_measured;

/* The first metric over all samples. */
MF_MUST mf_status mf_measure_value(const mf_compressed *s, const mf_compile_options *options,
                                   mf_dataset *test, const char **name, double *value);
/* Speed of both, by turns, so that what else the machine does befalls both: the quickest of
 * several rounds. */
MF_MUST mf_status mf_measure_speed(const mf_compressed *const both[2],
                                   const mf_compile_options *options, mf_dataset *train,
                                   int64_t batch, mf_measured *const out[2]);

#endif
