/* SPDX-License-Identifier: Apache-2.0 */
/* attr.h - attribute values, and their text syntax.
 *
 * Op definitions (defaults), the builder and op samples use this syntax:
 *
 *   true  3  -1.5  'text'  float  [1,2,3]  ['a','b']  [float,int32]  shape[2,?]  shape?  @function
 *   uint8[3]{255,0,0}  (a tensor of numbers)
 *
 * Text is always parsed for an expected type, so "[]" and "3" are not ambiguous. */
#ifndef MF_GRAPH_ATTR_H
#define MF_GRAPH_ATTR_H

#include "base/buf.h"
#include "base/mem.h"
#include "tensor/tensor.h"

typedef enum mf_attr_kind {
    MF_ATTR_NONE,
    MF_ATTR_STRING,
    MF_ATTR_INT,
    MF_ATTR_FLOAT,
    MF_ATTR_BOOL,
    MF_ATTR_TYPE,
    MF_ATTR_SHAPE,
    MF_ATTR_TENSOR,
    MF_ATTR_FUNC,
    MF_ATTR_PLACEHOLDER, /* refers to an attribute of the call of the enclosing function */
} mf_attr_kind;

typedef struct mf_bytes {
    const char *data; /* NUL-terminated for convenience, but may contain NULs */
    size_t len;
} mf_bytes;

typedef struct mf_attr mf_attr;
typedef struct mf_named_attr mf_named_attr;

typedef struct mf_func_ref {
    const char *name;
    mf_named_attr *attrs;
    int n_attrs;
} mf_func_ref;

/* One value, or a list of values of one kind. Memory belongs to an arena, except tensor storage,
 * which the owner of the arena releases (see mf_graph_own_tensor). */
struct mf_attr {
    mf_attr_kind kind; /* kind of the elements of a list; NONE for an empty list */
    bool is_list;
    int64_t n; /* number of elements; 1 if not a list */
    union {
        int64_t i;
        float f;
        bool b;
        mf_dtype type;
        mf_bytes s;
        mf_shape *shape;
        mf_tensor *tensor;
        mf_func_ref *func;
        /* arrays of n, for lists */
        int64_t *ints; /* INT, BOOL and TYPE lists */
        float *floats;
        mf_bytes *strings;
        mf_shape *shapes;
        mf_tensor **tensors;
        mf_func_ref *funcs;
    };
};

struct mf_named_attr {
    const char *name;
    mf_attr value;
};

/* "int", "list(type)" ... as in op definitions. */
const char *mf_attr_kind_name(mf_attr_kind kind);
/* Returns false if `text` is not an attribute type. */
bool mf_attr_kind_find(const char *text, size_t len, mf_attr_kind *kind, bool *is_list);

/* Parse one value of the given type at *text and advance it. Fails: INVALID_ARGUMENT quoting the
 * position. */
MF_MUST mf_status mf_attr_parse(const char **text, mf_attr_kind kind, bool is_list, mf_arena *arena,
                                mf_attr *out);
/* Append in the same syntax (tensors: a summary). */
void mf_attr_print(const mf_attr *attr, mf_buf *out);
bool mf_attr_equal(const mf_attr *a, const mf_attr *b);
/* A copy whose memory is in `arena`; tensors share storage, and their headers are borrowed. */
MF_MUST mf_status mf_attr_copy(const mf_attr *src, mf_arena *arena, mf_attr *out);

#endif
