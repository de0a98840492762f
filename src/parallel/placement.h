/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - which parameter server holds what.
 *
 * By bytes, evenly: all weights one behind the other, cut into as many equal pieces as there are
 * servers. Tables whose rows are looked up are cut between rows, each table over all servers, so
 * that the load of its rows is shared. Where weights must stay whole (an optimizer or a clipping
 * that looks at a weight as a whole), the largest goes to whoever has least, and so on. */
#ifndef MF_PARALLEL_PLACEMENT_H
#define MF_PARALLEL_PLACEMENT_H

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

/* Of the weights that are trained. Owns: the arena. */
MF_MUST mf_status mf_placement_make(const mf_model *model, int servers, bool whole, mf_arena *arena,
                                    mf_placement *out);
/* What a server holds of a weight; NULL: nothing. */
const mf_piece *mf_placement_find(const mf_placement *p, int server, const mf_weight *weight);
/* Elements of the slice as a variable of its own: rows of a table, else a column (or, of a vector,
 * a vector). */
mf_shape mf_piece_shape(const mf_piece *s);

#endif
