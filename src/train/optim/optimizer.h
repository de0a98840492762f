/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h - optimizers build ops: TensorFlow's Apply* for each weight, on slots beside it. */
#ifndef MF_TRAIN_OPTIM_OPTIMIZER_H
#define MF_TRAIN_OPTIM_OPTIMIZER_H

#include "models/model.h"

#include <meshflow/train.h>

/* A variable of the training besides the weights: a slot, a counter. */
typedef struct mf_state {
    const char *name; /* as TensorFlow names it: "dense/kernel/Momentum" */
    mf_dtype dtype;
    mf_shape shape;
    mf_output handle, initial;
    mf_output value; /* its value before the step; empty until it is requested */
} mf_state;

/* All updates of a step, under construction. */
typedef struct mf_updates {
    mf_model *model;
    mf_graph *graph;
    const struct mf_optimizer_kind *kind;
    mf_options o; /* the optimizer's settings */
    mf_output learning_rate; /* float scalar of this step */
    mf_output step; /* int64 scalar: steps done before this one */
    mf_node *guard; /* updates wait for it; NULL: none */
    double weight_decay, ema; /* 0: none */
    bool hogwild; /* Apply ops write without a lock, see docs/guides/training.md */
    mf_state *states;
    int64_t n_states, cap_states;
    mf_node **done; /* every node that must run */
    int64_t n_done, cap_done;
} mf_updates;

/* One weight to be updated. */
typedef struct mf_update {
    mf_updates *all;
    const mf_weight *weight;
    mf_output gradient; /* of the complete weight, or of the rows `ids`, each id once */
    mf_output ids; /* empty: the complete weight */
    mf_node *decay; /* the update waits for it; NULL: the weight does not decay */
} mf_update;

typedef struct mf_optimizer_kind {
    const char *name;
    const char *settings; /* all have learning_rate */
    const char *about;
    void (*apply)(const mf_update *u);
    void (*finish)(mf_updates *all); /* once, after all weights; NULL: nothing */
    bool whole; /* it needs the complete weight, not only each element */
} mf_optimizer_kind;

extern const mf_optimizer_kind mf_optimizers[]; /* name NULL ends it */

/* "adam beta_1=0.8". Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_optimizer_parse(const char *text, mf_arena *arena,
                                     const mf_optimizer_kind **kind, mf_options *out);

/* Read optimizer, weight_decay, ema and hogwild. Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_updates_begin(mf_updates *all, mf_model *model,
                                   const mf_compile_options *options);
/* All updates of one weight: decay, the optimizer's update, the moving average. */
void mf_update_weight(mf_update *u);

/* ---- for optimizers; errors go to the graph ---- */

bool mf_update_is_sparse(const mf_update *u);
/* The gradient of the complete weight: zeros in rows that are not among the ids. */
mf_output mf_update_dense_gradient(const mf_update *u);
/* The complete weight after its decay, before the update. */
mf_output mf_update_value(const mf_update *u);
/* The handle of the slot "WEIGHT/name" of the weight's shape, filled with `value` at first. */
mf_output mf_update_slot(const mf_update *u, const char *name, double value);
/* The same with another shape. */
mf_output mf_update_slot_shaped(const mf_update *u, const char *name, const mf_shape *shape,
                                double value);
/* The same beginning with `initial`. */
mf_output mf_update_slot_like(const mf_update *u, const char *name, mf_output initial);
/* The value of a slot before the step. */
mf_output mf_update_read(const mf_update *u, mf_output slot);
/* The value of a scalar of all weights ("beta1_power") before the step. The first request creates
 * it with the initial `value`. */
mf_output mf_updates_scalar(mf_updates *all, const char *name, double value);
/* Its value for the next step. */
void mf_updates_scalar_set(mf_updates *all, const char *name, mf_output next);
/* This step's number as a float; the first is 1. */
mf_output mf_updates_count(const mf_updates *all);
/* This node is part of the step. */
void mf_updates_add(mf_updates *all, mf_output node);
/* A float setting as a constant. */
mf_output mf_updates_setting(const mf_updates *all, const char *name);
/* mf_apply(u->all->graph, op, inputs); the node is added to the step, after the decay. */
void mf_update_apply(const mf_update *u, const char *op, const mf_output *inputs,
                     const char *attributes);

#endif
