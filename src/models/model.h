/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - internals of a model: a graph, and its inputs, weights and outputs. */
#ifndef MF_MODELS_MODEL_H
#define MF_MODELS_MODEL_H

#include "compiler/compiler.h"
#include "graph/settings.h"

#include <meshflow/model.h>

#include <stdatomic.h>

/* A lookup of table rows: its gradient has only these rows. */
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
    mf_output value; /* read at the start of a step */
    mf_output initial; /* its initial value */
    mf_lookup *lookups; /* rows that are looked up; NULL: used as a whole, through `value` */
    bool trained; /* by gradients; otherwise the layer updates it, or it is constant */
    double l1, l2; /* regularisation */
} mf_weight;

/* A moving statistic: in training, weight = momentum * weight + (1 - momentum) * mean over the
 * samples of the shards' values. */
typedef struct mf_moving {
    mf_weight *weight;
    mf_output batch; /* of the shard */
    double momentum;
} mf_moving;

/* State that samples pass on to the samples at the same position of the next batch. */
typedef struct mf_carried_state {
    mf_weight *weight;
    mf_output next; /* of the shard */
} mf_carried_state;

/* A layer, for summaries. */
typedef struct mf_layer_made {
    const char *name, *kind;
    mf_output output;
    int64_t first_weight, n_weights; /* in mf_model.weights; including nested layers */
    int depth; /* 0: not nested. Nested layers come after the outer one */
    bool recompute; /* activations are recomputed in the backward pass */
} mf_layer_made;

/* A named output. */
typedef struct mf_named_output {
    const char *name; /* a string constant */
    mf_output output;
} mf_named_output;

struct mf_model {
    atomic_int refs; /* the caller's, and one per trainer */
    mf_graph *graph;
    mf_compile shapes; /* inferred shapes so far, see mf_model_shape() */
    mf_weight **weights; /* in order of creation */
    int64_t n_weights, cap_weights;
    mf_moving *moving;
    int64_t n_moving, cap_moving;
    mf_carried_state *carried;
    int64_t n_kept, cap_kept;
    mf_output *losses; /* terms that layers add to the loss: one number per sample */
    int64_t n_losses, cap_losses;
    mf_named_output *left; /* outputs that layers store for a loss or a metric */
    int64_t n_left, cap_left;
    mf_output *inputs; /* placeholders named after columns */
    int64_t n_inputs, cap_inputs;
    mf_output output;
    const char *loss, *metrics; /* defaults of a model of the zoo, see zoo.h; otherwise NULL */
    mf_output seed; /* int64 scalar, fed when weights are initialized */
    mf_output clock; /* int64 [3]: seed, step, index of the first sample; fed in training */
    mf_layer_made *made; /* in the order of the calls */
    int64_t n_made, cap_made;
    int64_t n_layers; /* outermost layers: mf_node_layer() of the last one */
    int depth; /* of the layer under construction */
    bool frozen; /* it has trainable=false */
    bool compiled; /* a trainer has been created: nothing can be added */
    const char *changes; /* overrides of layers' settings, see layer_overrides.h; NULL: none */
    mf_map layers; /* lower-case kind -> int64_t number of layers, for names */
};

/* A trainer holds a reference to its model: mf_model_free() releases only the caller's. */
void mf_model_ref(mf_model *model);

/* As mf_graph_refuses() for the model's graph; also FAILED_PRECONDITION if the model is compiled.
 * model may be NULL if status is a failure. */
bool mf_model_refuses(mf_model *model, mf_status status);

/* The known shape of an output; the batch dimension is unknown. Failures are recorded in the graph.
 */
mf_shape mf_model_shape(mf_model *model, mf_output output);
/* "there is no layer 'Dens'; did you mean 'Dense'?" `option` of `meshflow models` lists all names.
 */
mf_status mf_model_unknown(const char *what, const char *name, const char *closest,
                           const char *option);
/* Names the first dimension of an input "batch" for layouts (mf_name_dims). */
void mf_model_name_batch(mf_graph *g, mf_output in, int rank);
mf_weight *mf_model_weight(const mf_model *model, const char *name); /* NULL: not found */

/* Stores an output for a loss or a metric under a name with static lifetime; looks it up (an empty
 * output: no layer stored one). The last one stored wins. */
void mf_model_name_output(mf_model *model, const char *name, mf_output output);
mf_output mf_model_named_output(const mf_model *model, const char *name);

#endif
