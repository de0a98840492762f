/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt.h - what the commands about checkpoints share. */
#ifndef MF_CLI_CKPT_H
#define MF_CLI_CKPT_H

#include "cli/command.h"
#include "formats/tensors.h"

/* What only our training needs stands under names that begin so. */
#define MF_CKPT_STATE "_meshflow/"

/* `where` is a file, a prefix, or a folder, whose newest checkpoint is meant. Owns: the caller
 * closes *out and frees *path (mf_free), which says what was opened. Fails with a hint. */
MF_MUST mf_status mf_ckpt_open(mf_args *args, const char *where, mf_tensors **out, char **path);
bool mf_ckpt_is_state(const char *name);
/* Bytes that the elements take: of strings their text. */
int64_t mf_ckpt_bytes(const mf_tensor *t);

/* The numbers of a tensor at a glance. NaNs are counted, and left out of the rest. */
typedef struct mf_ckpt_glance {
    double min, mean, max;
    int64_t n; /* numbers that were looked at: 0 for strings, empty tensors */
    int64_t nans, zeros;
} mf_ckpt_glance;

mf_ckpt_glance mf_ckpt_look(const mf_tensor *t);
/* As double; truth values as 0 and 1. The type is one of numbers. */
double mf_ckpt_number(const mf_tensor *t, int64_t i);

#endif
