/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_test.h - runs graphs on one device and on a mesh, and compares the results. */
#ifndef MESH_TEST_H
#define MESH_TEST_H

#include "graph/op.h"
#include "mf_test.h"

#include <meshflow/mesh.h>

/* Random numbers between -1 and 1. */
mf_tensor *mesh_numbers(const mf_shape *shape, uint64_t seed);
/* Random classes below `n`. */
mf_tensor *mesh_classes(int64_t count, int32_t n, uint64_t seed);
/* The maximum of |a - b| / (1 + |a|). Both must have the same type and shape. */
double mesh_distance(const mf_tensor *a, const mf_tensor *b);

enum { MESH_RUN_ENDS = 4 };

/* Names end with NULL. */
typedef struct mesh_run {
    const char *feeds[MESH_RUN_ENDS + 1];
    const mf_tensor *values[MESH_RUN_ENDS];
    const char *fetches[MESH_RUN_ENDS + 1];
} mesh_run;

/* Checks that a mesh communicates and gives the results of one device, up to rounding, or the same
 * error. */
void mesh_compare(const mf_graph *g, const char *mesh, const char *layout, const mesh_run *r);

/* Two dense layers, a loss and momentum: feeds "x", "label"; targets "init", "train"; fetches
 * "loss" and the variables' "w1/read", "b1/read", "w2/read", "b2/read". Dimensions are named batch,
 * pixels, hidden, classes. */
typedef struct mesh_mlp {
    int64_t batch, pixels, hidden, classes;
} mesh_mlp;

mf_graph *mesh_mlp_graph(const mesh_mlp *sizes);

enum { MESH_MLP_RESULTS = 5 }; /* the loss of the last step, and the variables */

/* Trains `steps` steps. The caller owns the results. */
void mesh_mlp_train(mf_session *session, const mesh_mlp *sizes, int steps,
                    mf_tensor *results[MESH_MLP_RESULTS]);

#endif
