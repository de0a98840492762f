/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - the graph of a training step: loss, gradients by shard, updates. */
#ifndef MF_TRAIN_STEP_STEP_H
#define MF_TRAIN_STEP_STEP_H

#include "train/loop/guard.h"

#include <meshflow/train.h>

/* A number reported of every step: the sum of `per_batch` over samples, by metric. */
typedef struct mf_report {
    const char *name; /* "loss", "accuracy" */
    const struct mf_metric_kind *metric; /* NULL: a sum to be divided by the samples */
    mf_output of_batch; /* in inference, of the samples fed */
    mf_output of_step; /* in training, over all shards */
} mf_report;

/* A gradient on its way from the shards to its weight. */
typedef struct mf_gradient {
    mf_weight *weight;
    int at; /* which result of the map it is: of the weight, or of rows */
    int ids; /* the rows' numbers; -1: the whole weight */
    mf_output value, rows; /* of all shards; rows: their numbers */
} mf_gradient;

/* Who updates. */
typedef enum mf_step_role {
    MF_STEP_UPDATES, /* we do: what comes out of the map are sums */
    MF_STEP_PULLS, /* a server does: what comes out of the map in place of gradients are the new
                      weights (or rows and their numbers), and they are assigned */
    MF_STEP_SERVES, /* for others: gradients are fed, "gradient/0", "rows/0" ... in order */
} mf_step_role;

/* What a loss sees that looks at all samples of a step together, and what it says. All workers have
 * all of it, and compute the same. */
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
    int first_kept, n_kept; /* of these, rows that samples leave for the next step */
    int64_t *bucket; /* by result: with which others it is exchanged with other workers */
    int n_buckets; /* a whole loss has the first one for itself */
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
