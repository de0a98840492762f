/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what a model is inside: a graph, and what of it are inputs, weights and outputs. */
#ifndef MF_MODELS_MODEL_H
#define MF_MODELS_MODEL_H

#include "compiler/compiler.h"
#include "graph/settings.h"

#include <meshflow/model.h>

#include <stdatomic.h>

/* A place where rows of a table are looked up: its gradient concerns these rows alone. */
typedef struct mf_lookup {
    mf_output ids; /* integers of any shape */
    mf_output rows; /* ids' shape, then the table's row */
    struct mf_lookup *next;
} mf_lookup;

typedef struct mf_weight {
    const char *name; /* "conv2d/kernel" */
    mf_dtype dtype;
    mf_shape shape;
    mf_output handle; /* VarHandleOp */
    mf_output value; /* read at the beginning of a step */
    mf_output initial; /* its first value */
    mf_lookup *lookups; /* used by rows; NULL: as a whole, through `value` */
    bool trained; /* by gradients; else the layer says how it moves, or it stays */
    double l1, l2; /* regularisation */
} mf_weight;

/* A moving statistic: in training, weight = momentum * weight + (1 - momentum) * mean over the
 * samples of what the shards say. */
typedef struct mf_moving {
    mf_weight *weight;
    mf_output batch; /* of the samples at hand */
    double momentum;
} mf_moving;

/* Rows of a weight that samples leave for those at their place of the next batch. */
typedef struct mf_kept {
    mf_weight *weight;
    mf_output next; /* of the samples at hand */
} mf_kept;

/* A layer as it was made, for summaries. */
typedef struct mf_layer_made {
    const char *name, *kind;
    mf_output output;
    int64_t first_weight, n_weights; /* in mf_model.weights; parts' included */
    int depth; /* 0: not part of another layer. Parts come after the whole */
    bool recompute; /* its inside is computed again for gradients, instead of being kept */
} mf_layer_made;

/* An output under a name. */
typedef struct mf_left {
    const char *name; /* a string constant */
    mf_output output;
} mf_left;

struct mf_model {
    atomic_int refs; /* the caller's, and one for each trainer */
    mf_graph *graph;
    mf_compile shapes; /* of the graph so far, see mf_model_shape() */
    mf_weight **weights; /* in the order they were made */
    int64_t n_weights, cap_weights;
    mf_moving *moving;
    int64_t n_moving, cap_moving;
    mf_kept *kept;
    int64_t n_kept, cap_kept;
    mf_output *losses; /* of layers, a number for each sample: added to the loss */
    int64_t n_losses, cap_losses;
    mf_left *left; /* what layers leave for the loss and metrics that go with them */
    int64_t n_left, cap_left;
    mf_output *inputs; /* placeholders named like columns */
    int64_t n_inputs, cap_inputs;
    mf_output output;
    const char *loss, *metrics; /* that go with a model of the zoo, see zoo.h; else NULL */
    mf_output seed; /* int64 scalar, fed when weights get their first values */
    mf_output clock; /* int64 [3]: seed, step, place of the first sample; fed in training */
    mf_layer_made *made; /* in the order of the calls */
    int64_t n_made, cap_made;
    int64_t n_layers; /* that are not part of another: the last one's mf_node_layer() */
    int depth; /* of the layer that is being built */
    bool frozen; /* it has trainable=false */
    bool compiled; /* a trainer is made of it, or was; nothing is added any more */
    const char *changes; /* of settings of layers, see layer_overrides.h; NULL: none */
    mf_map layers; /* kind in lower case -> int64_t: how many there are, for names */
};

/* A trainer keeps its model: mf_model_free() releases the caller's reference only. */
void mf_model_ref(mf_model *model);

/* As mf_graph_refuses(), of the model's graph; also FAILED_PRECONDITION where the model has been
 * compiled. model may be NULL if status is a failure. */
bool mf_model_refuses(mf_model *model, mf_status status);

/* What is known about an output's shape; the first dimension of a batch is not. Errors go to the
 * graph. */
mf_shape mf_model_shape(mf_model *model, mf_output output);
/* "there is no layer 'Dens'; did you mean 'Dense'?" `option` of `meshflow models` lists them all.
 */
mf_status mf_model_unknown(const char *what, const char *name, const char *closest,
                           const char *option);
/* The first dimension of what is fed are samples, which layouts call "batch" (mf_name_dims). */
void mf_model_name_batch(mf_graph *g, mf_output in, int rank);
mf_weight *mf_model_weight(const mf_model *model, const char *name); /* NULL when there is none */

/* Leave an output for a loss or a metric, under a name that lives as long; find it there (an empty
 * output: no layer has left one). Of several the last counts. */
void mf_model_leave(mf_model *model, const char *name, mf_output output);
mf_output mf_model_left(const mf_model *model, const char *name);

#endif
