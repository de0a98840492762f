/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_op.h - tf.data datasets: values (variants) that can be iterated any number of times,
 * element by element.
 *
 * A dataset consists of the inputs of its op, its function, and a kind, which is a table of
 * functions. It is immutable. A cursor is one iteration and belongs to its creator; cursors of
 * datasets on top of others hold cursors of those. An element is a row of tensors, one per part.
 *
 * Everything runs on the thread that requests an element, even if the client asks for parallel
 * calls or prefetching: elements and their order are the same. */
#ifndef MF_OPS_DATASET_DATASET_OP_H
#define MF_OPS_DATASET_DATASET_OP_H

#include "ops/dataset/function_call.h"

typedef struct mf_dataset_op mf_dataset_op;
typedef struct mf_cursor mf_cursor;

enum {
    MF_SIZE_INFINITE = -1,
    MF_SIZE_UNKNOWN = -2,
    MF_DATASET_OP_DEPTH = 2000, /* maximum depth of nested datasets, each a stack frame */
};

/* The context of an iteration: the step that requests elements, the functions compiled for this
 * iteration, and state of datasets across cursors (seeds, caches). All zero: a new iteration.
 * Thread: one at a time. */
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
    const char *name; /* TensorFlow's name without "Dataset" */
    size_t cursor_bytes;
    /* Parts, types and shapes are those of input 0; otherwise from output_types and output_shapes.
     */
    bool like_input;
    /* Input 0 is a dataset, and its cursor exists from the start. */
    bool on_input;
    const char *option; /* its only boolean attribute, or NULL */
    mf_status (*check)(mf_dataset_op *d); /* optional: rejects inputs, or corrects types and shapes
                                           */
    mf_status (*begin)(mf_cursor *c, mf_walk *w); /* optional; all fields are zero before */
    /* Fills the empty row, or sets *end. After the end it must set *end again. */
    mf_status (*next)(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end);
    void (*end)(mf_cursor *c); /* optional: frees the fields */
    int64_t (*size)(const mf_dataset_op *d); /* number of elements, or one of MF_SIZE_*; NULL:
                                                unknown */
} mf_dataset_op_kind;

struct mf_dataset_op {
    mf_object object;
    const mf_dataset_op_kind *kind;
    int n_parts, n_args, depth;
    mf_dtype *types; /* of the parts */
    mf_shape *shapes; /* known shapes of the parts */
    mf_tensor *args; /* the op's inputs */
    mf_callee *function; /* NULL: none */
    int captured, n_captured; /* of args: passed to the function after the element */
    bool option;
};

struct mf_cursor {
    mf_dataset_op *set; /* a reference */
    mf_cursor *input; /* with on_input; otherwise for use by the kind. Freed with the cursor */
    int depth;
};

extern const mf_object_type mf_dataset_op_type;

/* ---- data sets ---- */

/* A dataset of this kind without inputs; *out has one reference. */
MF_MUST mf_status mf_dataset_op_new(const mf_dataset_op_kind *kind, int n_parts,
                                    const mf_dtype *types, const mf_shape *shapes, int n_args,
                                    mf_dataset_op **out);
/* Sets *t to a scalar variant that holds the dataset. Takes over the reference, even on failure. */
MF_MUST mf_status mf_dataset_op_wrap(mf_dataset_op *d, mf_tensor *t);
/* The dataset in a variant. Fails: INVALID_ARGUMENT (not a dataset). */
MF_MUST mf_status mf_dataset_op_of(const mf_tensor *t, mf_dataset_op **out);
/* The dataset in argument i, which was checked at creation. */
mf_dataset_op *mf_dataset_op_arg(const mf_dataset_op *d, int i);
/* Argument i, a scalar. */
static inline int64_t mf_dataset_op_int(const mf_dataset_op *d, int i)
{
    return mf_tensor_int_at(&d->args[i], 0);
}
int64_t mf_dataset_op_size(const mf_dataset_op *d);
int64_t mf_dataset_op_input_size(const mf_dataset_op *d); /* of argument 0 */
/* Fails: INVALID_ARGUMENT (different parts). */
MF_MUST mf_status mf_dataset_op_same_parts(const mf_dataset_op *a, const mf_dataset_op *b);

/* ---- walking ---- */

/* `parent`: the outer cursor, or NULL. */
MF_MUST mf_status mf_cursor_begin(mf_walk *w, mf_dataset_op *d, const mf_cursor *parent,
                                  mf_cursor **out);
/* Row: one empty slot per part; stays empty at the end and on failure. Fails: CANCELLED,
 * DEADLINE_EXCEEDED of the step. */
MF_MUST mf_status mf_cursor_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end);
void mf_cursor_end(mf_cursor *c);
/* The state of c's dataset in this iteration, created on first use; borrowed, valid as long as the
 * cursor. */
MF_MUST mf_status mf_cursor_state(const mf_cursor *c, mf_walk *w, mf_object_make *make,
                                  mf_object **out);
void mf_walk_deinit(mf_walk *w);
/* Calls the dataset's function on an element. */
MF_MUST mf_status mf_cursor_call(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                 int n_element, const mf_dtype *types, int n_results,
                                 mf_tensor *results);
/* The same for a function that returns a dataset with the parts of c's; returns a cursor over it.
 */
MF_MUST mf_status mf_cursor_call_sequence(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                          int n_element, mf_cursor **out);
/* The same for a function that returns a boolean. */
MF_MUST mf_status mf_cursor_call_test(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                      int n_element, bool *out);

/* ---- rows ---- */

/* n empty slots; NULL: out of memory. */
mf_tensor *mf_row_new(int n);
void mf_row_clear(mf_tensor *row, int n);
void mf_row_free(mf_tensor *row, int n); /* row may be NULL */
void mf_row_move(mf_tensor *to, mf_tensor *from, int n);

/* Elements in memory. */
typedef struct mf_dataset_rows {
    mf_tensor *parts; /* of row 0, then row 1, ... */
    int64_t n, cap;
    int n_parts;
} mf_dataset_rows;
/* Appends the row by moving it. */
MF_MUST mf_status mf_rows_add(mf_dataset_rows *rows, mf_tensor *row);
void mf_rows_deinit(mf_dataset_rows *rows);

/* ---- ops ---- */

/* prepare and release of all ops that create a dataset. */
MF_MUST mf_status mf_dataset_op_prepare(mf_prepare *p);
void mf_dataset_op_release(void *state);
/* The dataset of this kind over the op's inputs; one reference for the caller. */
MF_MUST mf_status mf_dataset_op_make(const mf_kernel *k, const mf_dataset_op_kind *kind,
                                     mf_dataset_op **out);
/* run: sets it as output 0. */
MF_MUST mf_status mf_dataset_op_run(mf_kernel *k, const mf_dataset_op_kind *kind);
/* Moves the row of n parts to the outputs of k, if number, types and declared shapes (attribute
 * output_shapes) match. */
MF_MUST mf_status mf_row_put(mf_kernel *k, mf_tensor *row, int n);
/* Types and shapes of elements. */
typedef struct mf_element_spec {
    int n;
    const mf_dtype *types;
    const mf_shape *shapes; /* NULL: unknown */
} mf_element_spec;
/* Fails: INVALID_ARGUMENT, with TensorFlow's message, if elements are incompatible with `wanted`.
 */
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
