/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_message.h - a RecvTensorResponse as separate buffers: the elements of a large tensor are
 * not copied into the message nor, if their memory can be kept, out of it. */
#ifndef MF_PROTO_TENSOR_MESSAGE_H
#define MF_PROTO_TENSOR_MESSAGE_H

#include "base/buf.h"
#include "base/iovec.h"
#include "proto/tensor_codec.h"

/* value: NULL if it is dead. The encoded bytes go into head; the bytes that follow are *content,
 * which holds a reference to the tensor, or is empty. Fails: as mf_tensor_encode(). */
MF_MUST mf_status mf_tensor_message_make(const mf_tensor *value, mf_arena *arena, mf_buf *head,
                                         mf_iovec *content);

/* Takes ownership of the parts. out: an empty slot, which stays empty if the value is dead.
 * Fails: as mf_wire_decode() and mf_tensor_decode(). */
MF_MUST mf_status mf_tensor_message_read(mf_iovec *parts, int n, size_t max_bytes, mf_tensor *out,
                                         bool *dead);

#endif
