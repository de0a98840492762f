/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_variables.h - moves all variables of a session from one layout to another. */
#ifndef MF_SPMD_LOWER_RESHARD_VARIABLES_H
#define MF_SPMD_LOWER_RESHARD_VARIABLES_H

#include "graph/resource.h"
#include "graph/spmd_op.h"
#include "spmd/lower/spmd_compile.h"

/* A local device. */
typedef struct mf_relay_end {
    mf_mesh_link *link; /* its `self` is the number of the device */
    mf_resources *before, *after; /* the stores of the old and new slices */
    int64_t planned; /* bytes to be received; set by mf_reshard_variables() */
} mf_relay_end;

typedef struct mf_relay {
    const mf_meshes *from, *to; /* with equal numbers of devices */
    const mf_mesh_variables *before, *after; /* of the same graph */
    mf_relay_end *ends;
    int n;
    mf_pool *pool;
    const mf_run_options *options;
    void (*failed)(void *ctx, mf_status why); /* called by any thread, possibly several times:
                                                 unblock the other devices */
    void *ctx;
} mf_relay;

/* Each device receives exactly the elements that it lacks, once. `before` is not changed, even on
 * failure. Fails: FAILED_PRECONDITION (a variable has no value), or with the error of another
 * device.
 * Collective. */
MF_MUST mf_status mf_reshard_variables(const mf_relay *r);

#endif
