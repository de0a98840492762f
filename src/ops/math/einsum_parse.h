/* SPDX-License-Identifier: Apache-2.0 */
/* einsum_parse.h - parses Einsum equations: "ab...,bc...->ac...". */
#ifndef MF_OPS_MATH_EINSUM_PARSE_H
#define MF_OPS_MATH_EINSUM_PARSE_H

#include "tensor/shape.h"

enum {
    MF_EINSUM_INPUTS = 2,
    MF_EINSUM_LETTERS = 52, /* a-z, A-Z */
    MF_EINSUM_LABELS =
        MF_EINSUM_LETTERS + MF_MAX_RANK, /* then the dimensions of "...", from the right */
    MF_EINSUM_ELLIPSIS = 255
};

/* One side of the equation. */
typedef struct mf_subscripts {
    int n;
    unsigned char label[MF_MAX_RANK + 1]; /* letters, and at most one MF_EINSUM_ELLIPSIS */
} mf_subscripts;

typedef struct mf_equation {
    int n_in;
    mf_subscripts in[MF_EINSUM_INPUTS], out;
} mf_equation;

/* Fails: INVALID_ARGUMENT quoting the equation. */
MF_MUST mf_status mf_equation_parse(const char *text, int n_in, mf_equation *out);

/* A label for every dimension. */
typedef struct mf_einsum_labels {
    int n;
    unsigned char label[MF_MAX_RANK];
} mf_einsum_labels;

/* Labels of the inputs and the output for inputs of these (known) ranks, and their sizes; unknown
 * dimensions are -1, dimensions of "..." broadcast. */
MF_MUST mf_status mf_equation_resolve(const mf_equation *eq, const mf_shape *const *shapes,
                                      mf_einsum_labels in[MF_EINSUM_INPUTS], mf_einsum_labels *out,
                                      int64_t size[MF_EINSUM_LABELS]);

char mf_label_char(unsigned char label);

#endif
