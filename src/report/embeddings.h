/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.h - evaluation of a contrastive model: its embeddings, recall@1, and verification
 * accuracy on pairs. */
#ifndef MF_REPORT_EMBEDDINGS_H
#define MF_REPORT_EMBEDDINGS_H

#include "train/step/trainer.h"

/* The output of the model's layer "embedding" for each sample, [n,width]; of pairs, for the first
 * sample. NOT_FOUND: the model has no such layer. Owns: mf_tensor_free(). */
MF_MUST mf_status mf_embed(mf_trainer *t, mf_dataset *set, mf_tensor **out);
/* An integer column of all samples. NOT_FOUND: the data has no column of this name. Owns:
 * mf_free(). */
MF_MUST mf_status mf_read_labels(const mf_dataset *set, const char *name, int32_t **out);

/* The fraction of rows whose nearest other row has the same label. Ties: the first row counts. */
MF_MUST mf_status mf_recall_at_1(const mf_tensor *rows, const int32_t *labels, int threads,
                                 double *out);

/* Distances of pairs, and same: 1 if both samples of a pair have the same class, else 0.
 * *threshold: the distance below which classifying pairs as the same is most accurate; ties: the
 * smallest. */
MF_MUST mf_status mf_best_threshold(const float *distances, const int32_t *same, int64_t n,
                                    double *threshold);
/* The fraction of pairs that this threshold classifies correctly. */
double mf_verification(const float *distances, const int32_t *same, int64_t n, double threshold);

/* ---- scatter_plot.c ---- */

/* The rows [n,width] projected on their two principal components, coloured by label, as an SVG
 * file. names: of the labels; NULL: none. At most 2000 points are drawn. */
MF_MUST mf_status mf_scatter_write(const mf_tensor *rows, const int32_t *labels,
                                   const char *const *names, int64_t n_names, const char *title,
                                   const char *path);

#endif
