/* SPDX-License-Identifier: Apache-2.0 */
/* rbm_plot.h - pictures of a trained restricted Boltzmann machine. */
#ifndef MF_REPORT_RBM_PLOT_H
#define MF_REPORT_RBM_PLOT_H

#include "train/step/trainer.h"

/* A trained RBM and what is needed to plot it. */
typedef struct mf_rbm {
    const mf_model *model;
    mf_trainer *trainer;
    const mf_dataset *set; /* has images of the RBM's size */
    uint64_t seed;
    int threads;
} mf_rbm;

/* True if the model has a layer RBM. */
bool mf_model_has_rbm(const mf_model *model);
/* Its filters, at most 100, each from black (the most negative weight) to white, as a PNG file. */
MF_MUST mf_status mf_rbm_plot_filters(const mf_rbm *m, const char *path);
/* The probabilities of the visible units of 64 Gibbs chains after this number of steps, as a PNG
 * file. Chains start from the persistent chains of the model, else from seeded noise. */
MF_MUST mf_status mf_rbm_plot_samples(const mf_rbm *m, int64_t steps, const char *path);

#endif
