/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.h - what a model that compares has learned: its embeddings, how often the nearest is
 * of the same class, how well pairs are told apart. */
#ifndef MF_REPORT_EMBEDDINGS_H
#define MF_REPORT_EMBEDDINGS_H

#include "train/step/trainer.h"

/* What the model's layer "embedding" says of each sample, [n,width]; of pairs, of the first.
 * NOT_FOUND: there is no such layer. Owns: mf_tensor_free(). */
MF_MUST mf_status mf_embed(mf_trainer *t, mf_dataset *set, mf_tensor **out);
/* A column of integers, of all samples. NOT_FOUND: there is none of that name. Owns: mf_free(). */
MF_MUST mf_status mf_read_labels(const mf_dataset *set, const char *name, int32_t **out);

/* Part of the rows whose nearest other row has their label. Of equally near ones the first counts.
 */
MF_MUST mf_status mf_recall_at_1(const mf_tensor *rows, const int32_t *labels, int threads,
                                 double *out);

/* Distances of pairs, and whether both are the same (1) or not (0): the threshold below which pairs
 * are best called the same. Of equally good ones the smallest. */
MF_MUST mf_status mf_best_threshold(const float *distances, const int32_t *same, int64_t n,
                                    double *threshold);
/* Part of the pairs that are called rightly by it. */
double mf_verification(const float *distances, const int32_t *same, int64_t n, double threshold);

/* ---- scatter_plot.c ---- */

/* Rows [n,width] as points of the plane where they differ most (principal components), coloured by
 * label, as an SVG file. names: of the labels; NULL: they have none. At most 2000 are drawn. */
MF_MUST mf_status mf_scatter_write(const mf_tensor *rows, const int32_t *labels,
                                   const char *const *names, int64_t n_names, const char *title,
                                   const char *path);

#endif
