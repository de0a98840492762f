/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_variables.h - all variables go from where they lie to where another layout wants them. */
#ifndef MF_SPMD_LOWER_RESHARD_VARIABLES_H
#define MF_SPMD_LOWER_RESHARD_VARIABLES_H

#include "graph/resource.h"
#include "graph/spmd_op.h"
#include "spmd/lower/spmd_compile.h"

/* A processor here. */
typedef struct mf_relay_end {
    mf_mesh_link *link; /* its `self` says which it is */
    mf_resources *before, *after; /* where its slices are, and where they go */
    int64_t planned; /* bytes to be received; by mf_reshard_variables() */
} mf_relay_end;

typedef struct mf_relay {
    const mf_meshes *from, *to; /* of as many processors */
    const mf_mesh_variables *before, *after; /* of the same graph */
    mf_relay_end *ends;
    int n;
    mf_pool *pool;
    const mf_run_options *options;
    void (*failed)(void *ctx,
                   mf_status why); /* by any thread, perhaps several times: free the others */
    void *ctx;
} mf_relay;

/* Each processor gets exactly what it lacks, once. `before` stays as it is, also after a failure.
 * Fails: FAILED_PRECONDITION (a variable has no value); as others do. Collective. */
MF_MUST mf_status mf_reshard_variables(const mf_relay *r);

#endif
