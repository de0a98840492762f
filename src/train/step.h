/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - the graph of a training step: loss, gradients by shard, updates. */
#ifndef MF_TRAIN_STEP_H
#define MF_TRAIN_STEP_H

#include "train/optimizer.h"

#include <meshflow/train.h>

/* A number reported of every step: the sum of `per_batch` over samples, by metric. */
typedef struct mf_report {
    const char *name; /* "loss", "accuracy" */
    const struct mf_metric_kind *metric; /* NULL: a sum to be divided by the samples */
    mf_output of_batch; /* in inference, of the samples fed */
    mf_output of_step; /* in training, over all shards */
} mf_report;

typedef struct mf_step_graph {
    mf_model *model;
    mf_output label, learning_rate;
    mf_output inverse; /* 1 / samples of the step */
    mf_updates updates;
    const mf_update *weights; /* that are updated, with their gradients as applied */
    int n_weights;
    mf_report reports[MF_MAX_RESULTS]; /* loss first */
    int n_reports;
    int n_buckets; /* of what is exchanged with other workers */
    mf_output global_step; /* its handle */
    mf_node *train, *init; /* targets */
} mf_step_graph;

enum { MF_DEFAULT_SHARDS = 8 };

/* Owns: the graph's arena, except what mf_step_graph_deinit() frees. */
MF_MUST mf_status mf_step_graph_init(mf_step_graph *s, mf_model *model,
                                     const mf_compile_options *options);
void mf_step_graph_deinit(mf_step_graph *s);

#endif
