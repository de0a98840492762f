/* SPDX-License-Identifier: Apache-2.0 */
/* ps_store.h - the variables of a parameter server: slices of weights and of their slots, and the
 * graph that updates them. */
#ifndef MF_DIST_PARAM_SERVER_PS_STORE_H
#define MF_DIST_PARAM_SERVER_PS_STORE_H

#include "dist/param_server/strategy_param_server.h"

typedef struct mf_ps_variable {
    const char *name;
    mf_variable *variable; /* a reference */
    int rows; /* updates change only the rows of this gradient; -1: all of it */
} mf_ps_variable;

/* Rows that an update changed. */
typedef struct mf_ps_changed {
    int64_t *ids, n, cap;
} mf_ps_changed;

/* Updates whose rows are known. */
enum { MF_PS_KNOWN_UPDATES = 3 };

typedef struct mf_ps_store {
    const mf_piece *slices;
    int n_slices;
    mf_model *model; /* of the slices alone */
    mf_step_graph graph;
    mf_resources *resources;
    mf_session *session;
    mf_ps_variable *variables; /* weights in the order of the slices, then the rest */
    int64_t n_variables;
    int64_t changes; /* counts updates; grows by more when the variables are set */
    mf_ps_changed *changed; /* by gradient: of the last updates, in a ring */
    /* of a run */
    const char **feeds;
    mf_tensor *values; /* by feed: clock, rate, then gradients and rows */
    int n_feeds;
} mf_ps_store;

/* t: the complete model and its settings. */
MF_MUST mf_status mf_ps_store_init(mf_ps_store *s, const mf_trainer *t, const mf_placement *place,
                                   int server);
void mf_ps_store_deinit(mf_ps_store *s);

/* The buffers for gradient i, and (rows) for its ids, to be filled before an update. */
mf_tensor *mf_ps_store_gradient(mf_ps_store *s, int i);
mf_tensor *mf_ps_store_rows(mf_ps_store *s, int i);
MF_MUST mf_status mf_ps_store_update(mf_ps_store *s, int64_t step, float learning_rate);

/* Do updates change only the rows of this table that have a gradient? Some optimizers, and weight
 * decay, change all. */
bool mf_ps_store_changes_rows(const mf_ps_store *s, int weight);

/* Its global_step: each update has counted it up. */
MF_MUST mf_status mf_ps_store_steps(const mf_ps_store *s, int64_t *out);

/* All variables, for a checkpoint, or (slots) without the weights, which workers have; and back. */
MF_MUST mf_status mf_ps_store_write(const mf_ps_store *s, bool slots, mf_ps_out *out);
/* The same into memory that has the result of a write at `changes`: of tables, only changed rows
 * are written. */
MF_MUST mf_status mf_ps_store_rewrite(const mf_ps_store *s, bool slots, int64_t changes,
                                      mf_ps_out *out);
/* The size of that in bytes. */
MF_MUST mf_status mf_ps_store_size(const mf_ps_store *s, bool slots, size_t *out);
MF_MUST mf_status mf_ps_store_read(mf_ps_store *s, mf_ps_reader *in);

#endif
