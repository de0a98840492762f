/* SPDX-License-Identifier: Apache-2.0 */
/* attr.h - attribute values, and the one text syntax for them.
 *
 * The text stands in op definitions (defaults), in the builder and in op samples:
 *   true  3  -1.5  'text'  float  [1,2,3]  ['a','b']  [float,int32]  shape[2,?]  shape?  @function
 *   uint8[3]{255,0,0}  (a tensor of numbers)
 * It is always read against an expected type, so "[]" or "3" are never ambiguous. */
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
    MF_ATTR_PLACEHOLDER, /* stands for an attribute of the enclosing function's caller */
} mf_attr_kind;

typedef struct mf_bytes {
    const char *data; /* NUL-terminated for convenience, but may hold NULs */
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
 * which whoever owns the arena releases (see mf_graph_own_tensor). */
struct mf_attr {
    mf_attr_kind kind; /* of the elements, for a list; NONE for a list without elements */
    bool is_list;
    int64_t n; /* elements; 1 when not a list */
    union {
        int64_t i;
        float f;
        bool b;
        mf_dtype type;
        mf_bytes s;
        mf_shape *shape;
        mf_tensor *tensor;
        mf_func_ref *func;
        /* lists: arrays of n */
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

/* "int", "list(type)" ... as op definitions spell it. */
const char *mf_attr_kind_name(mf_attr_kind kind);
/* false when `text` is no attribute type. */
bool mf_attr_kind_find(const char *text, size_t len, mf_attr_kind *kind, bool *is_list);

/* Read one value of the given type from *text, advancing it. INVALID_ARGUMENT quoting the place. */
MF_MUST mf_status mf_attr_parse(const char **text, mf_attr_kind kind, bool is_list, mf_arena *arena,
                                mf_attr *out);
/* Append in the same syntax (tensors: a summary). */
void mf_attr_print(const mf_attr *attr, mf_buf *out);
bool mf_attr_equal(const mf_attr *a, const mf_attr *b);
/* A copy whose memory is in `arena`; tensors keep sharing storage and headers are borrowed. */
MF_MUST mf_status mf_attr_copy(const mf_attr *src, mf_arena *arena, mf_attr *out);

#endif
