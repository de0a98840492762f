/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - how an op may be cut: the rule that mf_op.split states, and nothing else in the system
 * knows of an op.
 *
 * A rule gives the dimensions of inputs and outputs letters, as an einsum does: "mk,kn->mn". Those
 * of one letter are cut alike, and each processor runs the very op on its pieces. A letter that no
 * output has is contracted: what the pieces give has to be added (or compared) afterwards. A
 * dimension without a letter is needed whole.
 *
 * A dimension may be made of a letter and what lies inside of each of its indices: where a reshape
 * makes [b,t] to [b*t], the latter is letter b with t inside.
 *
 * A function that states a rule is given shapes without unknown dimensions; a variable's handle has
 * the shape of its value. It says nothing where it knows nothing: then all is whole. */
#ifndef MF_GRAPH_SPLIT_H
#define MF_GRAPH_SPLIT_H

#include "graph/op.h"

enum { MF_SPLIT_LETTERS = 32, MF_SPLIT_ATTRS = 2 };

/* What happens where a letter is cut. */
typedef enum mf_cut {
    MF_CUT_FREE, /* every index stands for itself */
    MF_CUT_SUM, /* results of the pieces are to be added */
    MF_CUT_MAX, /* the largest of them counts */
    MF_CUT_MIN,
    MF_CUT_ONE, /* one of them has it, the others have zeros */
} mf_cut;

/* Does what becomes of the pieces not depend on how they were cut, to the bit? */
static inline bool mf_cut_is_exact(mf_cut cut)
{
    return cut == MF_CUT_FREE || cut == MF_CUT_ONE;
}

typedef struct mf_split_letter {
    int64_t size;
    mf_cut cut;
    int64_t least; /* of a smaller piece, numbers may be rounded otherwise than of the whole */
    bool some; /* a piece must have an index */
} mf_split_letter;

#define MF_SPLIT_ROUNDS INT64_MAX /* of any piece */

typedef struct mf_split_dim {
    int letter; /* -1: whole */
    int64_t inside; /* elements of the dimension for each index of the letter */
    /* Of an input, where windows slide over the dimension (step > 0, and inside is 1): index x
     * needs elements [x * step - before, x * step - before + span), as far as they are there; where
     * there are several to an element (per > 1), those that these lie in. */
    int64_t step, before, span, per;
} mf_split_dim;

static inline int64_t mf_split_floor(int64_t x, int64_t by)
{
    return x >= 0 ? x / by : -((by - 1 - x) / by);
}

/* From indices to the elements that they need. */
static inline void mf_split_window(const mf_split_dim *dim, int64_t *begin, int64_t *end)
{
    const int64_t per = dim->per > 1 ? dim->per : 1;

    *begin = mf_split_floor(*begin * dim->step - dim->before, per);
    *end = mf_split_floor((*end - 1) * dim->step - dim->before + dim->span - 1, per) + 1;
}

/* The indices of a letter that a processor has. */
typedef struct mf_split_piece {
    int64_t begin, size;
    bool cut; /* they are not all */
} mf_split_piece;

typedef struct mf_split_shape {
    mf_split_dim dims[MF_MAX_RANK];
} mf_split_shape;

/* Which indices into a letter the op takes; others are errors, also where it is cut. */
typedef enum mf_split_range {
    MF_INDEX_ANY,
    MF_INDEX_BELOW, /* below the letter's size: negative ones stand for nothing */
    MF_INDEX_INSIDE,
} mf_split_range;

typedef struct mf_split {
    const mf_node *node;
    int n_in, n_out;
    const mf_shape *in, *out;
    const mf_tensor *const *in_value; /* NULL where it is not known */
    /* To be said; at first nothing has a letter. */
    mf_split_shape *in_dims, *out_dims;
    mf_split_letter letters[MF_SPLIT_LETTERS];
    int n_letters;
    /* This input is a list of sizes, one for each dimension of output 0: of dimensions that are
     * cut, it is to have those of the piece. -1: none is. */
    int sizes_input;
    /* Bits of inputs: the op of a sum of these is the sum of the op of each, so a sum may be made
     * afterwards. The others must be whole sums. 0: it is not so. */
    uint32_t additive;
    /* Where a contracted letter is cut, another op on the same inputs, and the result divided.
     * NULL: the same op. */
    const char *op_if_cut;
    int64_t divide_if_cut; /* 0: not divided */
    /* Indices into a letter. Where it is cut, those outside of the piece are -1, the others count
     * from where it begins; -1: there are none. */
    int index_letter, index_input;
    mf_split_range index_range;
    int count_input; /* a scalar that is the letter's size; -1: none is */
    const char *op_if_index_cut; /* on the first two inputs; NULL: the same op on all */
    int rows_input; /* indices outside of the piece are left out, and these rows with them; -1: they
                       stay, as -1 */
    /* Change attributes (of which there are *n, sorted or not) for pieces of the letters, or add up
     * to MF_SPLIT_ATTRS; memory is the arena's. NULL: they stay. */
    mf_status (*fix)(const struct mf_split *s, const mf_split_piece *pieces, mf_named_attr *attrs,
                     int *n, mf_arena *arena);
    const char *offset_attr; /* an attribute to which where the piece begins is added, */
    int offset_letter; /* of this letter. NULL: there is none */
} mf_split;

typedef void mf_split_fn(mf_split *s);

/* A new letter; -1 when there are too many, which means whole. */
int mf_split_new(mf_split *s, int64_t size, mf_cut cut);
void mf_split_in(mf_split *s, int input, int dim, int letter);
void mf_split_out(mf_split *s, int output, int dim, int letter);
/* One of the attributes that fix() may change; NULL: it is not there. */
mf_attr *mf_split_attr(mf_named_attr *attrs, int n, const char *name);
/* Say it as text: "mk,kn->mn", ranks as they are; '.' is whole. Letters of which no output has any
 * are contracted, by `contracted`. Says nothing where ranks differ. */
void mf_split_text(mf_split *s, const char *text, mf_cut contracted);

/* ---- rules that many ops have ---- */

/* The rule of an op; NULL: it has none. Elementwise ops need not state theirs. */
mf_split_fn *mf_op_split(const mf_op *op);
/* All inputs broadcast to output 0, element by element; the first `n` of them. */
void mf_split_elementwise(mf_split *s);
void mf_split_broadcast(mf_split *s, int n);
/* The same, and it is additive in all inputs together: Add. */
void mf_split_additive(mf_split *s);
/* The same, and it is additive in one input where the other is a scalar: Mul. */
void mf_split_scaled(mf_split *s);
/* A letter for dimension d of an input, which is dimension `out` of output 0. */
void mf_split_through(mf_split *s, int input, int d, int out);
/* Inputs [first, first + n) and all outputs have the same dimensions but for one, `axis`, which is
 * not cut; where `in` or `out` is false, these do not have it. axis: as the side that has it
 * counts.
 */
void mf_split_around(mf_split *s, int first, int n, int axis, bool in, bool out);
/* The integer in a scalar input as an axis; false: it is not known, or none. */
bool mf_split_axis(const mf_split *s, int input, int rank, int *axis);
/* Output 0 has the elements of input 0, in their order, under another shape. */
void mf_split_regroup(mf_split *s);
/* Output 0 is like input 0 in every element, other inputs are whole. */
void mf_split_same(mf_split *s);
/* The same, and additive: Identity. */
void mf_split_identity(mf_split *s);
/* Rows of input 0 by the indices in input 1, as the first dimension of input 0 counts them: where
 * that is cut, `op` takes those that are there. */
void mf_split_rows(mf_split *s, const char *op);
/* The first `variables` inputs are of one shape; rows of them are written, by `indices`: where rows
 * are cut, everybody writes its own. */
void mf_split_own_rows(mf_split *s, int variables, int indices, int rows);
/* Variables of one shape and a gradient of that shape; scalars besides: updates, reads. */
void mf_split_update(mf_split *s);
/* Dimensions of input 0 but those from `from` on stay; these are whole. */
void mf_split_leading(mf_split *s, int from);
/* Output 0 is input 0 without these axes, or with one for each (`keep`). MF_CUT_FREE: they are
 * needed whole. */
void mf_split_reduce(mf_split *s, const bool *axes, bool keep, mf_cut cut);

#endif
