/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h - optimizers build ops: TensorFlow's Apply* for each weight, on slots beside it. */
#ifndef MF_TRAIN_OPTIMIZER_H
#define MF_TRAIN_OPTIMIZER_H

#include "models/model.h"

/* A variable that training keeps besides the weights: a slot, a count. */
typedef struct mf_state {
    const char *name; /* as TensorFlow names it: "dense/kernel/Momentum" */
    mf_dtype dtype;
    mf_shape shape;
    mf_output handle, initial;
} mf_state;

/* All updates of a step while they are being built. */
typedef struct mf_updates {
    mf_model *model;
    mf_graph *graph;
    const struct mf_optimizer_kind *kind;
    mf_options o; /* the optimizer's settings */
    mf_output learning_rate; /* float scalar of this step */
    mf_output step; /* int64 scalar: steps done before this one */
    mf_node *guard; /* updates wait for it; NULL: none */
    mf_state *states;
    int64_t n_states, cap_states;
    mf_node **done; /* every node that must run */
    int64_t n_done, cap_done;
} mf_updates;

/* One weight to be updated. */
typedef struct mf_update {
    mf_updates *all;
    const mf_weight *weight;
    mf_output gradient; /* of the whole weight, or of the rows `ids`, each id once */
    mf_output ids; /* empty: the whole weight */
} mf_update;

typedef struct mf_optimizer_kind {
    const char *name;
    const char *settings; /* all have learning_rate */
    const char *about;
    void (*apply)(const mf_update *u);
    void (*finish)(mf_updates *all); /* once, after all weights; NULL: nothing */
} mf_optimizer_kind;

extern const mf_optimizer_kind mf_optimizers[]; /* name NULL ends it */

/* "adam beta_1=0.8". Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_optimizer_parse(const char *text, mf_arena *arena,
                                     const mf_optimizer_kind **kind, mf_options *out);

/* ---- for optimizers; errors go to the graph ---- */

/* The slot "WEIGHT/name" of the weight's shape, filled with `value` at first. */
mf_output mf_update_slot(const mf_update *u, const char *name, double value);
/* The same with another shape. */
mf_output mf_update_slot_shaped(const mf_update *u, const char *name, const mf_shape *shape,
                                double value);
/* One scalar for all weights ("beta1_power"), made when first asked for. */
mf_output mf_updates_scalar(mf_updates *all, const char *name, double value);
/* This node is part of the step. */
void mf_updates_add(mf_updates *all, mf_output node);
/* A float setting as a constant. */
mf_output mf_updates_setting(const mf_updates *all, const char *name);
/* Another name for mf_apply(u->all->graph, op, inputs), and the node is added to the step. */
void mf_update_apply(const mf_update *u, const char *op, const mf_output *inputs,
                     const char *attributes);

#endif
