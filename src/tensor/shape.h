/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h - shapes, fully or partly known. */
#ifndef MF_TENSOR_SHAPE_H
#define MF_TENSOR_SHAPE_H

#include "base/buf.h"
#include "base/status.h"

#include <meshflow/tensor.h>

enum { MF_UNKNOWN_DIM = -1, MF_UNKNOWN_RANK = -1 };

typedef struct mf_shape {
    int rank; /* MF_UNKNOWN_RANK, or 0..MF_MAX_RANK */
    int64_t dims[MF_MAX_RANK]; /* MF_UNKNOWN_DIM or >= 0 */
} mf_shape;

/* MF_SHAPE(2, 3): a constant shape; MF_SCALAR: rank 0. */
#define MF_SHAPE(...)                                                                              \
    ((mf_shape){ .rank = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),              \
                 .dims = { __VA_ARGS__ } })
#define MF_SCALAR ((mf_shape){ .rank = 0 })
#define MF_SHAPE_UNKNOWN ((mf_shape){ .rank = MF_UNKNOWN_RANK })

bool mf_shape_is_static(const mf_shape *s);
bool mf_shape_equal(const mf_shape *a, const mf_shape *b);
/* Could the same tensor have both shapes? */
bool mf_shape_compatible(const mf_shape *a, const mf_shape *b);
/* Elements of a static shape. INVALID_ARGUMENT when a dimension is unknown or the product
 * overflows. */
MF_MUST mf_status mf_shape_count(const mf_shape *s, int64_t *out);
/* Product of dims[from..to) of a shape already known to be valid. */
int64_t mf_shape_span(const mf_shape *s, int from, int to);
/* INVALID_ARGUMENT naming rank or dimension when these cannot be a static shape. */
MF_MUST mf_status mf_shape_from_dims(const int64_t *dims, int64_t rank, mf_shape *out);
/* The combination of both shapes; INVALID_ARGUMENT if they contradict each other. */
MF_MUST mf_status mf_shape_merge(const mf_shape *a, const mf_shape *b, mf_shape *out);
/* NumPy's broadcasting, unknown dimensions included.
 * Fails: INVALID_ARGUMENT "Incompatible shapes: [2,3] vs. [4]". */
MF_MUST mf_status mf_shape_broadcast(const mf_shape *a, const mf_shape *b, mf_shape *out);

/* "[2,?,3]", "<unknown>", "[]" as TensorFlow prints them. The buffer holds any shape. */
enum { MF_SHAPE_TEXT = 192 };
const char *mf_shape_text(const mf_shape *s, char text[MF_SHAPE_TEXT]);

/* Turn a possibly negative axis into 0..rank-1; false when out of range. */
static inline bool mf_axis_fix(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return false;
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

#endif
