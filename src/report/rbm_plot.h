/* SPDX-License-Identifier: Apache-2.0 */
/* rbm_plot.h - pictures of what a restricted Boltzmann machine has learned. */
#ifndef MF_REPORT_RBM_PLOT_H
#define MF_REPORT_RBM_PLOT_H

#include "train/step/trainer.h"

/* A trained machine and what is needed to draw it. */
typedef struct mf_rbm {
    const mf_model *model;
    mf_trainer *trainer;
    const mf_dataset *set; /* has images of the machine's size */
    uint64_t seed;
    int threads;
} mf_rbm;

/* Does the model have a layer RBM? */
bool mf_model_has_rbm(const mf_model *model);
/* Its filters, 100 at most, each from black (the most negative) to white, as a PNG file. */
MF_MUST mf_status mf_rbm_plot_filters(const mf_rbm *m, const char *path);
/* Where 64 chains are after so many steps, as a PNG file: the chances of the values. They begin
 * where persistent chains are, else at noise by the seed. */
MF_MUST mf_status mf_rbm_plot_samples(const mf_rbm *m, int64_t steps, const char *path);

#endif
