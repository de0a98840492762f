/* SPDX-License-Identifier: Apache-2.0 */
/* libsvm.h - sparse samples as text, one per line: "label index:value index:value ... # comment".
 * Indices ascend, starting at 0 or above. */
#ifndef MF_FORMATS_LIBSVM_H
#define MF_FORMATS_LIBSVM_H

#include "base/status.h"

typedef struct mf_libsvm {
    int64_t rows, pairs;
    float *labels; /* [rows] */
    int64_t *starts; /* [rows + 1]: row i is pairs starts[i] .. starts[i + 1) */
    int32_t *ids; /* [pairs], as in the text */
    float *values; /* [pairs] */
    int64_t most; /* number of pairs of the longest row */
    int64_t cap_labels, cap_starts, cap_ids, cap_values;
} mf_libsvm;

/* Append the rows of a text to `out` (all zero: empty). Empty lines and comment lines are skipped.
 * `name` is for error messages. Memory is linear in len.
 * Fails: DATA_LOSS naming the line. Owns: the caller calls mf_libsvm_deinit(), also after a
 * failure. */
MF_MUST mf_status mf_libsvm_decode(const char *name, const char *text, size_t len, mf_libsvm *out);
void mf_libsvm_deinit(mf_libsvm *s);

#endif
