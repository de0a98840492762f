/* SPDX-License-Identifier: Apache-2.0 */
/* collective_keys.h - which collectives a run has, and whether others take part in them. */
#ifndef MF_TF_SERVER_COLLECTIVE_KEYS_H
#define MF_TF_SERVER_COLLECTIVE_KEYS_H

#include "graph/graph.h"

typedef struct mf_collectives {
    int64_t key; /* TensorFlow's: it follows from the keys of all of them; 0: there are none */
    bool is_shared; /* groups have members elsewhere */
} mf_collectives;

/* What a run has of them that lies in these graphs (each may be NULL). */
MF_MUST mf_status mf_collectives_find(mf_graph *const *graphs, int n, mf_collectives *out);

#endif
