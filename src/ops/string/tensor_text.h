/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.h - tensors as text, the way TensorFlow prints them, and helpers of string ops. */
#ifndef MF_OPS_STRING_TENSOR_TEXT_H
#define MF_OPS_STRING_TENSOR_TEXT_H

#include "base/buf.h"
#include "ops/control/grad_util.h"

/* "[1 2][3 4]..." without outer brackets: at most `limit` elements (below 0: all). As in messages
 * of Assert and Print. */
void mf_text_flat(const mf_tensor *t, int64_t limit, mf_buf *out);
/* "[[1 2]\n [3 4]]": `ends` elements at both ends of each dimension (below 0: all). As in tf.print.
 */
void mf_text_grid(const mf_tensor *t, int64_t ends, mf_buf *out);

/* Parses element i of `out`, in its type; false: not such a number. Surrounding spaces are ignored.
 */
bool mf_text_number(const char *text, size_t len, mf_tensor *out, int64_t i);

static inline const mf_string *mf_strings(const mf_tensor *t)
{
    return t->data;
}
/* The bytes of an element; "" instead of NULL. */
static inline const char *mf_string_data(const mf_string *s)
{
    return s->data ? s->data : "";
}

/* The kernel of an elementwise string -> string op: out is empty when it is called. */
typedef mf_status mf_string_map_fn(const mf_kernel *k, const mf_string *in, mf_string *out);
MF_MUST mf_status mf_string_map(mf_kernel *k, mf_string_map_fn *fn);
/* Moves the contents of the buffer to *out; the buffer is emptied but keeps its memory. */
MF_MUST mf_status mf_string_take(mf_string *out, mf_buf *buf);

#endif
