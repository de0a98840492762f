/* SPDX-License-Identifier: Apache-2.0 */
/* buf_message.h - a RecvBufResponse in pieces: many bytes are neither copied into the message nor,
 * where they may stay, out of it. */
#ifndef MF_PROTO_BUF_MESSAGE_H
#define MF_PROTO_BUF_MESSAGE_H

#include "base/buf.h"
#include "base/iovec.h"
#include "tensor/tensor.h"

/* The elements of a tensor of a plain type. The bytes go into head; those that follow are *content,
 * which holds a reference to the tensor, or is empty. */
MF_MUST mf_status mf_buf_message_make(const mf_tensor *value, mf_buf *head, mf_iovec *content);

/* Takes the parts over. *out: the content, in one piece that begins where any element may; to be
 * released. Fails: INVALID_ARGUMENT (it is no such message, or has not so many bytes). */
MF_MUST mf_status mf_buf_message_read(mf_iovec *parts, int n, size_t bytes, mf_iovec *out);

#endif
