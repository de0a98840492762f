/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - tensors for people, as NumPy prints them, and for programs, as JSON. */
#ifndef MF_CLI_SHOW_H
#define MF_CLI_SHOW_H

#include "tensor/tensor.h"

/* Values only; of more than 1000 elements the first and last three of each dimension. */
void mf_show_text(const mf_tensor *t, mf_buf *out);
/* Nested lists. Numbers that JSON lacks are "nan", "inf", "-inf"; complex ones are [re,im]; null
 * when there are more than max elements. */
void mf_show_json(const mf_tensor *t, int64_t max, mf_buf *out);
/* Values written like NumPy's lists, [[1,2],[3,4]] or a single number, true and false. The slot
 * must be empty. INVALID_ARGUMENT saying where it is malformed. */
MF_MUST mf_status mf_show_parse(const char *text, mf_dtype dtype, mf_tensor *out);

#endif
