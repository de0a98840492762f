/* SPDX-License-Identifier: Apache-2.0 */
/* buf_message.h - a RecvBufResponse as separate buffers: large contents are not copied into the
 * message nor, if their memory can be kept, out of it. */
#ifndef MF_PROTO_BUF_MESSAGE_H
#define MF_PROTO_BUF_MESSAGE_H

#include "base/buf.h"
#include "base/iovec.h"
#include "tensor/tensor.h"

/* The elements of a tensor of a plain type. The encoded bytes go into head; the bytes that follow
 * are *content, which holds a reference to the tensor, or is empty. */
MF_MUST mf_status mf_buf_message_make(const mf_tensor *value, mf_buf *head, mf_iovec *content);

/* Takes ownership of the parts. *out: the content in one buffer, aligned for any element type; the
 * caller releases it. Fails: INVALID_ARGUMENT (not such a message, or another number of bytes). */
MF_MUST mf_status mf_buf_message_read(mf_iovec *parts, int n, size_t bytes, mf_iovec *out);

#endif
