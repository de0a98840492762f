/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - an op's samples: one line of text gives inputs and attributes for a test.
 *
 *   "f32[2,3] f32[3]"                    random inputs; the types fix T
 *   "f32[4]@0.5:2"                       values drawn from [0.5, 2)        (default: [-2, 2))
 *   "i32[3]@0:5  i32[2]{1,0}  i32[]{3}"  integers in [0,5) (default [-4,5)); literal values
 *   "f32[2,3]~"                          not differentiated (the kink or the index of a gradient)
 *   "str[2]{ab,c}  str[3]"               strings: literal (no spaces or commas), random
 *   "bool[4]"                            random booleans
 *   "var:f32[3]"                         a variable with a random value: VarHandleOp for a resource
 *                                        argument, VariableV2 for a reference
 *   "f32[2,3] ; axis=1 keep_dims=true"   attributes after ';', in the builder's syntax
 *   "; shape=shape[2] dtype=float"       no inputs
 *   "f32[1] !nograd"                     do not check the gradient on this sample
 *   "f32[3] !fails"                      must fail, with an error (not a crash)
 *   "f32[4] !tol:1e-3"                   tolerance against TensorFlow, when the default is too
 * tight "f32[4] !notf"                       not compared with TensorFlow (TensorFlow cannot do it)
 *   "f32[2] !unordered"                  random or unordered output: only shape and type are
 * compared
 *
 * Types: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool c64 c128 str qi8 qi16 qi32 qu8 qu16.
 */
#ifndef MF_TESTS_OPS_SAMPLE_H
#define MF_TESTS_OPS_SAMPLE_H

#include "graph/op.h"

enum { MF_SAMPLE_INPUTS = 16 };

typedef struct mf_sample_input {
    mf_tensor value;
    bool is_variable, no_grad;
    int same_as; /* 1 + index of the earlier input with the same tensor; 0: none */
} mf_sample_input;

typedef struct mf_sample {
    mf_sample_input in[MF_SAMPLE_INPUTS];
    int n_in;
    char attrs[512];
    bool no_grad, fails, no_tf, unordered;
    double tolerance; /* 0: default */
} mf_sample;

/* Read a line; random values follow from `seed`. INVALID_ARGUMENT quoting the place. */
MF_MUST mf_status mf_sample_parse(const char *text, uint64_t seed, mf_sample *out);
void mf_sample_deinit(mf_sample *sample);

#endif
