/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_test.h - graphs that run on one device and on a mesh, and what must be the same. */
#ifndef MESH_TEST_H
#define MESH_TEST_H

#include "graph/op.h"
#include "mf_test.h"

#include <meshflow/mesh.h>

/* Numbers between -1 and 1. */
mf_tensor *mesh_numbers(const mf_shape *shape, uint64_t seed);
/* Classes below `n`. */
mf_tensor *mesh_classes(int64_t count, int32_t n, uint64_t seed);
/* The largest |a - b| / (1 + |a|). They must be of one type and shape. */
double mesh_distance(const mf_tensor *a, const mf_tensor *b);

enum { MESH_RUN_ENDS = 4 };

/* Names end with NULL. */
typedef struct mesh_run {
    const char *feeds[MESH_RUN_ENDS + 1];
    const mf_tensor *values[MESH_RUN_ENDS];
    const char *fetches[MESH_RUN_ENDS + 1];
} mesh_run;

/* It gives on a mesh, where something is cut, what it gives on one device: the same numbers, up
 * to rounding, or the same error. */
void mesh_compare(const mf_graph *g, const char *mesh, const char *layout, const mesh_run *r);

/* Two dense layers, a loss and momentum: feeds "x", "label"; targets "init", "train"; fetches
 * "loss" and the variables' "w1/read", "b1/read", "w2/read", "b2/read". Dimensions are called
 * batch, pixels, hidden, classes. */
typedef struct mesh_mlp {
    int64_t batch, pixels, hidden, classes;
} mesh_mlp;

mf_graph *mesh_mlp_graph(const mesh_mlp *sizes);

enum { MESH_MLP_RESULTS = 5 }; /* the loss of the last step, and the variables */

/* So many steps. results are the caller's. */
void mesh_mlp_train(mf_session *session, const mesh_mlp *sizes, int steps,
                    mf_tensor *results[MESH_MLP_RESULTS]);

#endif
