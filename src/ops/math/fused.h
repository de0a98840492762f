/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h - elementwise ops merged by the pass `fuse`.
 *
 * The steps are the loops of the ops themselves, run one after another on a tile that stays in the
 * cache, so memory is read and written once, and the bits are those of the single ops. They are an
 * op of their own (`_Fused`), or an epilogue of another op that runs on each piece of its result
 * (`_MatMulThen`, `_Conv2DThen`).
 *
 * Attributes: ops[i] is the name of step i; args has the operands of all steps: k >= 0 is input k,
 * k < 0 is the result of step -1-k; types[i] is the result type of step i, params[i] its attribute.
 */
#ifndef MF_OPS_MATH_FUSED_H
#define MF_OPS_MATH_FUSED_H

#include "ops/math/elementwise.h"

#define MF_FUSED_ATTRS                                                                             \
    "ops:list(string)>=1, types:list(type)>=1, args:list(int)>=1, params:list(float)>=1"

typedef struct mf_fused mf_fused;

/* Reads the steps from a node's attributes. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_fused_read(const mf_node *node, const mf_dtype *in_types, int n_in,
                                mf_arena *arena, mf_fused **out);

typedef struct mf_fused_operand {
    const char *data;
    size_t size; /* of an element */
    bool whole, scalar; /* has the result's shape; is a single element */
    int64_t period; /* > 0: repeats after this many elements */
} mf_fused_operand;

/* The steps on actual operands. */
typedef struct mf_fused_run {
    const mf_fused *f;
    mf_broadcast b;
    int64_t inner; /* of the last merged dimension */
    mf_fused_operand in[MF_BROADCAST_INPUTS];
    char *out; /* may alias an operand of the same shape */
    size_t out_size;
} mf_fused_run;

MF_MUST mf_status mf_fused_begin(mf_fused_run *run, const mf_fused *f, const mf_shape *shape,
                                 const mf_shape *const *shapes, const void *const *data, void *out,
                                 size_t out_size);
/* Computes elements [from, to) of the result. Thread: any. */
void mf_fused_range(const mf_fused_run *run, int64_t from, int64_t to);

/* ---- steps after another op ---- */

/* Inputs of the op, followed by `more`: operand 0 is the op's result, operand k is more[k - 1]. */
#define MF_EPILOGUE_ATTRS "Tmore:list(type)>=0, " MF_FUSED_ATTRS
/* For the op "_<Name>Then" of an op <Name> with MF_OP_THEN. */
MF_MUST mf_status mf_epilogue_prepare(mf_prepare *p);
void mf_epilogue_release(void *state);
MF_MUST mf_status mf_epilogue_run(mf_kernel *k);

#endif
