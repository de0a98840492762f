/* SPDX-License-Identifier: Apache-2.0 */
/* slice_placement.h - which parameter server holds which slices.
 *
 * By bytes, evenly: all weights in sequence, cut into as many equal pieces as there are servers.
 * Tables whose rows are looked up are cut between rows, each table over all servers, so that the
 * load of its rows is shared. Of the weights that must not be cut (an optimizer or a clipping needs
 * complete ones), the largest goes to the server with the fewest bytes, and so on.
 *
 * Or by a rule (weight_partition.h): weights are cut into shards, between rows of their first
 * dimension, and the shards are assigned to servers. A server has neighbouring shards of a weight,
 * as one slice. */
#ifndef MF_DIST_PARAM_SERVER_SLICE_PLACEMENT_H
#define MF_DIST_PARAM_SERVER_SLICE_PLACEMENT_H

#include "dist/param_server/weight_partition.h"
#include "models/model.h"

/* Elements [from, to) of a weight, in the order of memory. */
typedef struct mf_piece {
    const mf_weight *weight;
    int64_t from, to;
} mf_piece;

typedef struct mf_placement {
    int n_servers;
    mf_piece **slices; /* by server, in the order of the weights */
    int *n_slices;
} mf_placement;

/* Which weights may be cut. */
typedef enum mf_placement_cut {
    MF_CUT_ALL,
    MF_CUT_TABLES, /* only tables whose rows are looked up */
    MF_CUT_NONE,
} mf_placement_cut;

/* Of the weights that are trained. Owns: the arena. */
MF_MUST mf_status mf_placement_make(const mf_model *model, int servers, mf_placement_cut cut,
                                    mf_arena *arena, mf_placement *out);
/* The same by a rule other than MF_WEIGHT_PARTITION_EVEN. INVALID_ARGUMENT: it would cut a weight
 * that must not be cut; names the weight. */
MF_MUST mf_status mf_placement_assign(const mf_model *model, int servers, mf_placement_cut cut,
                                      const mf_weight_partition *rule, mf_arena *arena,
                                      mf_placement *out);
/* A server's slice of a weight; NULL: none. */
const mf_piece *mf_placement_find(const mf_placement *p, int server, const mf_weight *weight);
/* The shape of the slice as a variable: rows of a table, otherwise a column (of a vector: a
 * vector). */
mf_shape mf_piece_shape(const mf_piece *s);

#endif
