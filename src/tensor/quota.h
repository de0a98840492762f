/* SPDX-License-Identifier: Apache-2.0 */
/* quota.h - memory that counts as if it were a tensor's (buffer.h): what strangers have sent. So
 * one limit holds for both. */
#ifndef MF_TENSOR_QUOTA_H
#define MF_TENSOR_QUOTA_H

#include "base/status.h"

/* Counts until it is given back. Fails: RESOURCE_EXHAUSTED. Thread: any. */
MF_MUST mf_status mf_quota_take(int64_t bytes);
void mf_quota_give_back(int64_t bytes);
/* What may still be taken. */
int64_t mf_quota_room(void);

#endif
