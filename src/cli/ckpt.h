/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt.h - shared by the checkpoint commands. */
#ifndef MF_CLI_CKPT_H
#define MF_CLI_CKPT_H

#include "cli/command.h"
#include "formats/tensors.h"

/* Prefix of the names of Meshflow's own training state. */
#define MF_CKPT_STATE "_meshflow/"

/* `where` is a file, a prefix, or a folder, whose newest checkpoint is opened. Owns: the caller
 * closes *out and frees *path (mf_free), the name of what was opened. Fails with a hint. */
MF_MUST mf_status mf_ckpt_open(mf_args *args, const char *where, mf_tensors **out, char **path);
bool mf_ckpt_is_state(const char *name);
/* Bytes of the elements; for strings, of their text. */
int64_t mf_ckpt_bytes(const mf_tensor *t);

/* Statistics of a tensor. NaNs are counted and excluded from the others. */
typedef struct mf_ckpt_summary {
    double min, mean, max;
    int64_t n; /* elements that count: 0 for strings, empty tensors */
    int64_t nans, zeros;
} mf_ckpt_summary;

mf_ckpt_summary mf_ckpt_summarize(const mf_tensor *t);
/* Element i as a double; booleans are 0 and 1. The type must be numeric. */
double mf_ckpt_number(const mf_tensor *t, int64_t i);

#endif
