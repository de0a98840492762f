/* SPDX-License-Identifier: Apache-2.0 */
/* collective_keys.h - the collectives of a run, and whether they have members under other masters.
 */
#ifndef MF_TF_SERVER_COLLECTIVE_KEYS_H
#define MF_TF_SERVER_COLLECTIVE_KEYS_H

#include "graph/graph.h"

typedef struct mf_collectives {
    int64_t key; /* TensorFlow's graph key, derived from all instance keys; 0: no collectives */
    bool is_shared; /* groups have members under other masters */
} mf_collectives;

/* Finds the collectives of a run in these graphs (each may be NULL). */
MF_MUST mf_status mf_collectives_find(mf_graph *const *graphs, int n, mf_collectives *out);

#endif
