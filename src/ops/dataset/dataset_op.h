/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op.h - data sets as TensorFlow's clients describe them: values (variants) that can be
 * walked through any number of times, element by element.
 *
 * A data set is what its op was given: its inputs, its function, and a kind, a table of functions.
 * It never changes. A cursor is one walk through it and belongs to whoever began it; cursors of
 * data sets on top of others hold cursors of those. An element is a row of tensors, one for each
 * part.
 *
 * Everything runs in the thread that asks for an element, also where the client asks for parallel
 * calls or for elements ahead of time: what comes out, and in which order, is the same. */
#ifndef MF_OPS_DATASET_DATASET_OP_H
#define MF_OPS_DATASET_DATASET_OP_H

#include "ops/dataset/function_call.h"

typedef struct mf_dataset_op mf_dataset_op;
typedef struct mf_cursor mf_cursor;

enum {
    MF_SIZE_INFINITE = -1,
    MF_SIZE_UNKNOWN = -2,
    MF_DATASET_OP_DEPTH = 2000, /* data sets on top of each other, each a frame of the stack */
};

/* What a walk reaches: the step that asks, the functions compiled for this walk, and what data sets
 * keep from one cursor to the next (seeds, caches). All zero: a new walk. Thread: one at a time. */
typedef struct mf_walk {
    const mf_step *step;
    mf_function_calls calls;
    struct mf_dataset_kept {
        mf_dataset_op *set; /* a reference */
        mf_object *state;
    } * kept;
    int64_t n_kept, cap_kept, sweep_at;
} mf_walk;

typedef struct mf_dataset_op_kind {
    const char *name; /* TensorFlow's, without "Dataset" */
    size_t cursor_bytes;
    /* Parts, types and shapes are those of input 0; else output_types and output_shapes say. */
    bool like_input;
    /* Input 0 is a data set, and a cursor through it is there from the beginning. */
    bool on_input;
    const char *option; /* the one boolean attribute it looks at, or NULL */
    mf_status (*check)(mf_dataset_op *d); /* optional: refuses inputs, or corrects what is known */
    mf_status (*begin)(mf_cursor *c, mf_walk *w); /* optional: fields are zero before */
    /* Fill the empty row, or set *end. Called again after the end: it must say so again. */
    mf_status (*next)(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end);
    void (*end)(mf_cursor *c); /* optional: what begin and next have left in the fields */
    int64_t (*size)(const mf_dataset_op *d); /* elements, or one of MF_SIZE_*; NULL: unknown */
} mf_dataset_op_kind;

struct mf_dataset_op {
    mf_object object;
    const mf_dataset_op_kind *kind;
    int n_parts, n_args, depth;
    mf_dtype *types; /* of the parts */
    mf_shape *shapes; /* what is known of them */
    mf_tensor *args; /* the op's inputs */
    mf_callee *function; /* NULL: none */
    int captured, n_captured; /* of args: what goes to the function behind an element */
    bool option;
};

struct mf_cursor {
    mf_dataset_op *set; /* a reference */
    mf_cursor *input; /* with on_input; else for the kind to use, and ended with the cursor */
    int depth;
};

extern const mf_object_type mf_dataset_op_type;

/* ---- data sets ---- */

/* A data set of this kind without inputs; *out has one reference. */
MF_MUST mf_status mf_dataset_op_new(const mf_dataset_op_kind *kind, int n_parts,
                                    const mf_dtype *types, const mf_shape *shapes, int n_args,
                                    mf_dataset_op **out);
/* *t becomes a scalar variant that holds the data set; takes over the reference, also on failure.
 */
MF_MUST mf_status mf_dataset_op_wrap(mf_dataset_op *d, mf_tensor *t);
/* The data set in a variant. INVALID_ARGUMENT when there is none. */
MF_MUST mf_status mf_dataset_op_of(const mf_tensor *t, mf_dataset_op **out);
/* The one in argument i, which was checked when the data set was made. */
mf_dataset_op *mf_dataset_op_arg(const mf_dataset_op *d, int i);
/* Argument i, a scalar. */
static inline int64_t mf_dataset_op_int(const mf_dataset_op *d, int i)
{
    return mf_tensor_int_at(&d->args[i], 0);
}
int64_t mf_dataset_op_size(const mf_dataset_op *d);
int64_t mf_dataset_op_input_size(const mf_dataset_op *d); /* of argument 0 */
/* INVALID_ARGUMENT unless both have the same parts. */
MF_MUST mf_status mf_dataset_op_same_parts(const mf_dataset_op *a, const mf_dataset_op *b);

/* ---- walking ---- */

/* `parent`: the cursor on top, or NULL. */
MF_MUST mf_status mf_cursor_begin(mf_walk *w, mf_dataset_op *d, const mf_cursor *parent,
                                  mf_cursor **out);
/* Row: one empty slot for each part; stays empty at the end and on failure. CANCELLED and
 * DEADLINE_EXCEEDED as the step has it. */
MF_MUST mf_status mf_cursor_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end);
void mf_cursor_end(mf_cursor *c);
/* What c's data set keeps during this walk, made if absent; borrowed, stays as long as the cursor.
 */
MF_MUST mf_status mf_cursor_state(const mf_cursor *c, mf_walk *w, mf_object_make *make,
                                  mf_object **out);
void mf_walk_deinit(mf_walk *w);
/* The data set's function on an element. */
MF_MUST mf_status mf_cursor_call(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                 int n_element, const mf_dtype *types, int n_results,
                                 mf_tensor *results);
/* The same for a function that gives a data set, of the parts that c's has; the walk through it. */
MF_MUST mf_status mf_cursor_call_sequence(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                          int n_element, mf_cursor **out);
/* The same for a function that gives a boolean. */
MF_MUST mf_status mf_cursor_call_test(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                      int n_element, bool *out);

/* ---- rows ---- */

/* n empty slots; NULL: no memory. */
mf_tensor *mf_row_new(int n);
void mf_row_clear(mf_tensor *row, int n);
void mf_row_free(mf_tensor *row, int n); /* NULL is fine */
void mf_row_move(mf_tensor *to, mf_tensor *from, int n);

/* Elements in memory. */
typedef struct mf_dataset_rows {
    mf_tensor *parts; /* of row 0, then row 1, ... */
    int64_t n, cap;
    int n_parts;
} mf_dataset_rows;
/* Appends the row, moving it. */
MF_MUST mf_status mf_rows_add(mf_dataset_rows *rows, mf_tensor *row);
void mf_rows_deinit(mf_dataset_rows *rows);

/* ---- ops ---- */

/* prepare and release of all ops that make a data set. */
MF_MUST mf_status mf_dataset_op_prepare(mf_prepare *p);
void mf_dataset_op_release(void *state);
/* The data set of this kind over the op's inputs; one reference for the caller. */
MF_MUST mf_status mf_dataset_op_make(const mf_kernel *k, const mf_dataset_op_kind *kind,
                                     mf_dataset_op **out);
/* run: that is output 0. */
MF_MUST mf_status mf_dataset_op_run(mf_kernel *k, const mf_dataset_op_kind *kind);
/* The outputs of k become the row of n parts, which is moved, if number, types and declared shapes
 * (attribute output_shapes) fit. */
MF_MUST mf_status mf_row_put(mf_kernel *k, mf_tensor *row, int n);
/* What is known of elements. */
typedef struct mf_element_spec {
    int n;
    const mf_dtype *types;
    const mf_shape *shapes; /* NULL: nothing */
} mf_element_spec;
/* INVALID_ARGUMENT, in TensorFlow's words, unless elements may be what is wanted. */
MF_MUST mf_status mf_element_spec_fit(mf_element_spec wanted, mf_element_spec have);

#define MF_DATASET_OP_KERNEL(KIND)                                                                 \
    static mf_status KIND##_run(mf_kernel *k)                                                      \
    {                                                                                              \
        return mf_dataset_op_run(k, &(KIND));                                                      \
    }
#define MF_DATASET_OP_OP(NAME, DEF, KIND)                                                          \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = mf_infer_scalar, \
        .grad = mf_grad_none, .prepare = mf_dataset_op_prepare, .release = mf_dataset_op_release,  \
        .run = KIND##_run                                                                          \
    }
#define MF_DATASET_OP_OUT ") -> (handle:variant) {"
#define MF_DATASET_OP_TYPES "output_types:list(type)>=1, output_shapes:list(shape)>=1"
#define MF_DATASET_OP_META ", metadata:string=''}"

#endif
