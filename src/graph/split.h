/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - the sharding rule of an op: how its computation can be split. It is stated by
 * mf_op.split; no other part of the system has knowledge about single ops.
 *
 * A rule names the dimensions of inputs and outputs with letters, as in einsum: "mk,kn->mn". All
 * dimensions of one letter are split alike, and each device runs the same op on its pieces. A
 * letter without an output is contracted: the results of the pieces must be added (or compared)
 * afterwards. A dimension without a letter must not be split.
 *
 * A dimension can consist of a letter and elements inside each of its indices: where a reshape
 * turns [b,t] into [b*t], the latter is letter b with t elements inside.
 *
 * A function that states a rule is called with static shapes; a variable's handle has the shape of
 * its value. A function that states nothing leaves all dimensions unsplit. */
#ifndef MF_GRAPH_SPLIT_H
#define MF_GRAPH_SPLIT_H

#include "graph/op.h"

enum { MF_SPLIT_LETTERS = 32, MF_SPLIT_ATTRS = 2 };

/* The consequence of splitting a letter. */
typedef enum mf_cut {
    MF_CUT_FREE, /* all indices are independent */
    MF_CUT_SUM, /* the results of the pieces must be added */
    MF_CUT_MAX, /* the maximum of the results counts */
    MF_CUT_MIN,
    MF_CUT_ONE, /* one piece has the result, the others have zeros */
} mf_cut;

/* Is the combined result bitwise independent of the split? */
static inline bool mf_cut_is_exact(mf_cut cut)
{
    return cut == MF_CUT_FREE || cut == MF_CUT_ONE;
}

typedef struct mf_split_letter {
    int64_t size;
    mf_cut cut;
    int64_t least; /* below this size of a piece, rounding may differ from that of the unsplit op */
    bool some; /* a piece must not be empty */
} mf_split_letter;

#define MF_SPLIT_ROUNDS INT64_MAX /* for any piece */

typedef struct mf_split_dim {
    int letter; /* -1: not split */
    int64_t inside; /* elements of the dimension per index of the letter */
    /* For an input over which a window slides (step > 0, and inside is 1): index x needs the
     * elements [x * step - before, x * step - before + span) that exist; with several indices per
     * element (per > 1), the elements that contain these. */
    int64_t step, before, span, per;
} mf_split_dim;

static inline int64_t mf_split_floor(int64_t x, int64_t by)
{
    return x >= 0 ? x / by : -((by - 1 - x) / by);
}

/* The elements that a range of indices needs. */
static inline void mf_split_window(const mf_split_dim *dim, int64_t *begin, int64_t *end)
{
    const int64_t per = dim->per > 1 ? dim->per : 1;

    *begin = mf_split_floor(*begin * dim->step - dim->before, per);
    *end = mf_split_floor((*end - 1) * dim->step - dim->before + dim->span - 1, per) + 1;
}

/* The indices of a letter on one device. */
typedef struct mf_split_piece {
    int64_t begin, size;
    bool cut; /* not all indices */
} mf_split_piece;

typedef struct mf_split_shape {
    mf_split_dim dims[MF_MAX_RANK];
} mf_split_shape;

/* The valid indices into a letter; other indices are errors, also with a split. */
typedef enum mf_split_range {
    MF_INDEX_ANY,
    MF_INDEX_BELOW, /* below the size of the letter: negative indices are ignored */
    MF_INDEX_INSIDE,
} mf_split_range;

typedef struct mf_split {
    const mf_node *node;
    int n_in, n_out;
    const mf_shape *in, *out;
    const mf_tensor *const *in_value; /* NULL if unknown */
    /* To be stated; initially no dimension has a letter. */
    mf_split_shape *in_dims, *out_dims;
    mf_split_letter letters[MF_SPLIT_LETTERS];
    int n_letters;
    /* This input is a list of sizes, one per dimension of output 0; for split dimensions it must
     * have the sizes of the piece. -1: none. */
    int sizes_input;
    /* Bit set of inputs in which the op is additive: op(a + b) = op(a) + op(b), so a pending sum
     * can be added after the op. The other inputs must be complete. 0: not additive. */
    uint32_t additive;
    /* If a contracted letter is split: use another op on the same inputs, and divide the result.
     * NULL: the same op. */
    const char *op_if_cut;
    int64_t divide_if_cut; /* 0: no division */
    /* Indices into a letter. If it is split, indices outside the piece become -1 and the others are
     * relative to its beginning; -1: no such input. */
    int index_letter, index_input;
    mf_split_range index_range;
    int count_input; /* a scalar with the size of the letter; -1: none */
    const char *op_if_index_cut; /* on the first two inputs; NULL: the same op on all inputs */
    int rows_input; /* indices outside the piece are removed together with the rows of this input;
                       -1:
                       they stay, as -1 */
    /* Change attributes (there are *n, in any order) for pieces of the letters, or add some, up to
     * MF_SPLIT_ATTRS; memory is the arena's. NULL: no change. */
    mf_status (*fix)(const struct mf_split *s, const mf_split_piece *pieces, mf_named_attr *attrs,
                     int *n, mf_arena *arena);
    const char *offset_attr; /* an attribute to which the beginning of the piece is added, */
    int offset_letter; /* for this letter. NULL: none */
} mf_split;

typedef void mf_split_fn(mf_split *s);

/* A new letter; -1 if there are too many, which means not split. */
int mf_split_new(mf_split *s, int64_t size, mf_cut cut);
void mf_split_in(mf_split *s, int input, int dim, int letter);
void mf_split_out(mf_split *s, int output, int dim, int letter);
/* An attribute that fix() may change; NULL: no such attribute. */
mf_attr *mf_split_attr(mf_named_attr *attrs, int n, const char *name);
/* State the rule as text: "mk,kn->mn", with the actual ranks; '.' is not split. Letters without an
 * output are contracted with `contracted`. States nothing if ranks differ. */
void mf_split_text(mf_split *s, const char *text, mf_cut contracted);

/* ---- common rules ---- */

/* The rule of an op; NULL: none. Elementwise ops have an implicit rule. */
mf_split_fn *mf_op_split(const mf_op *op);
/* The first `n` inputs broadcast elementwise to output 0. */
void mf_split_elementwise(mf_split *s);
void mf_split_broadcast(mf_split *s, int n);
/* The same, additive in all inputs together: Add. */
void mf_split_additive(mf_split *s);
/* The same, additive in one input if the other is a scalar: Mul. */
void mf_split_scaled(mf_split *s);
/* A letter for dimension d of an input, which is dimension `out` of output 0. */
void mf_split_through(mf_split *s, int input, int d, int out);
/* Inputs [first, first + n) and all outputs have the same dimensions except `axis`, which is not
 * split; if `in` or `out` is false, that side does not have it. axis: as numbered on the side that
 * has it. */
void mf_split_around(mf_split *s, int first, int n, int axis, bool in, bool out);
/* The integer in a scalar input as an axis; false: unknown or invalid. */
bool mf_split_axis(const mf_split *s, int input, int rank, int *axis);
/* Output 0 has the elements of input 0, in the same order, with another shape. */
void mf_split_regroup(mf_split *s);
/* Output 0 corresponds to input 0 elementwise, other inputs are not split. */
void mf_split_same(mf_split *s);
/* The same, and additive: Identity. */
void mf_split_identity(mf_split *s);
/* Rows of input 0 selected by the indices in input 1, along the first dimension of input 0: if that
 * is split, `op` selects the existing ones. */
void mf_split_rows(mf_split *s, const char *op);
/* The first `variables` inputs have one shape; rows of them are written, selected by `indices`. If
 * rows are split, each device writes its own rows. */
void mf_split_own_rows(mf_split *s, int variables, int indices, int rows);
/* Variables of one shape, a gradient of that shape, and scalars: updates, reads. */
void mf_split_update(mf_split *s);
/* Dimensions of input 0 before `from` get letters; the others are not split. */
void mf_split_leading(mf_split *s, int from);
/* Output 0 is input 0 without these axes, or with size 1 for each (`keep`). MF_CUT_FREE: the axes
 * are not split. */
void mf_split_reduce(mf_split *s, const bool *axes, bool keep, mf_cut cut);

#endif
