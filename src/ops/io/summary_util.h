/* SPDX-License-Identifier: Apache-2.0 */
/* summary_util.h - builds a Summary message in a kernel. */
#ifndef MF_OPS_IO_SUMMARY_UTIL_H
#define MF_OPS_IO_SUMMARY_UTIL_H

#include "ops/string/tensor_text.h"
#include "proto/summary.pb-c.h"
#include "proto/wire.h"

typedef struct mf_summary {
    mf_arena *arena; /* of everything that the message points to */
    Tensorflow__Summary message;
    Tensorflow__Summary__Value **values;
    int64_t cap;
} mf_summary;

MF_MUST mf_status mf_summary_init(mf_summary *s);
/* Required even after mf_summary_init() has failed. */
void mf_summary_deinit(mf_summary *s);
/* A new value with this tag, to be filled. */
MF_MUST mf_status mf_summary_value(mf_summary *s, const char *tag, size_t len,
                                   Tensorflow__Summary__Value **out);
MF_MUST mf_status mf_summary_add(mf_summary *s, Tensorflow__Summary__Value *value);
/* Serialises the message to output 0. */
MF_MUST mf_status mf_summary_store(mf_kernel *k, mf_summary *s);

#endif
