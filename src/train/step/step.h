/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - the graph of a training step: loss, gradients by shard, updates. */
#ifndef MF_TRAIN_STEP_STEP_H
#define MF_TRAIN_STEP_STEP_H

#include "train/loop/nan_guard.h"

#include <meshflow/train.h>

/* A number reported of every step: the sum of `per_batch` over samples, by metric. */
typedef struct mf_report {
    const char *name; /* "loss", "accuracy" */
    const struct mf_metric_kind *metric; /* NULL: a sum to be divided by the samples */
    mf_output of_batch; /* in inference, of the samples fed */
    mf_output of_step; /* in training, over all shards */
} mf_report;

/* A gradient between the shards and its weight. */
typedef struct mf_gradient {
    mf_weight *weight;
    int at; /* its result of the map: of the weight, or of rows */
    int ids; /* the rows' numbers; -1: the complete weight */
    mf_output value, rows; /* of all shards; rows: their numbers */
} mf_gradient;

/* Which task updates the weights. */
typedef enum mf_step_role {
    MF_STEP_UPDATES, /* this one: results of the map are sums */
    MF_STEP_PULLS, /* a server: in place of gradients the map returns the new weights (or rows and
                      their numbers), which are assigned */
    MF_STEP_SERVES, /* this one, for workers: gradients are fed, "gradient/0", "rows/0" ... in order
                     */
} mf_step_role;

/* Inputs and outputs of a loss over all samples of a step. All workers have all of it, and compute
 * the same. */
typedef struct mf_whole {
    const char *loss; /* its name; NULL: each sample has a loss of its own */
    mf_output outputs, labels; /* of the model, for all samples */
    mf_output losses; /* [samples] */
    mf_output gradients; /* of their mean, by the outputs */
} mf_whole;

typedef struct mf_step_graph {
    mf_model *model;
    mf_shape label_shape; /* of a batch; dimensions may be unknown */
    mf_output label, learning_rate;
    mf_output inverse; /* 1 / samples of the step */
    mf_updates updates;
    mf_guard guard;
    const mf_update *weights; /* that are updated, with their gradients as applied */
    int n_weights;
    mf_report reports[MF_MAX_RESULTS]; /* loss first */
    int n_reports;
    mf_step_role role;
    mf_gradient *gradients; /* in the order of the weights */
    int n_gradients;
    int n_results; /* of the map: reports, moving statistics, kept rows, gradients */
    int first_kept, n_kept; /* of these, rows that samples keep for the next step */
    int64_t *bucket; /* by result: the bucket that it is exchanged in */
    int n_buckets; /* a global loss has the first one for itself */
    mf_whole whole;
    mf_output global_step; /* its handle */
    mf_node *train, *init; /* targets */
} mf_step_graph;

enum { MF_DEFAULT_SHARDS = 8 };

/* Owns: the graph's arena, except what mf_step_graph_deinit() frees. */
MF_MUST mf_status mf_step_graph_init(mf_step_graph *s, mf_model *model,
                                     const mf_compile_options *options, mf_step_role role);
void mf_step_graph_deinit(mf_step_graph *s);

#endif
