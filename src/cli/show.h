/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - tensors as text in the format of NumPy, and as JSON. */
#ifndef MF_CLI_SHOW_H
#define MF_CLI_SHOW_H

#include "tensor/tensor.h"

/* Values only; with more than 1000 elements, the first and last three of each dimension. */
void mf_show_text(const mf_tensor *t, mf_buf *out);
/* Nested lists. Values that JSON lacks are "nan", "inf", "-inf"; complex numbers are [re,im]; null
 * if there are more than max elements. */
void mf_show_json(const mf_tensor *t, int64_t max, mf_buf *out);
/* Parses values in the format of NumPy's lists, [[1,2],[3,4]], or a single number, true and false.
 * The slot must be empty. Fails: INVALID_ARGUMENT, with the place of the error. */
MF_MUST mf_status mf_show_parse(const char *text, mf_dtype dtype, mf_tensor *out);

#endif
