/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_codec.h - converts shapes and tensors from and to their messages.
 *
 * A TensorProto is untrusted: its type, its shape and the length of its content are checked before
 * storage is allocated. */
#ifndef MF_PROTO_TENSOR_CODEC_H
#define MF_PROTO_TENSOR_CODEC_H

#include "base/mem.h"
#include "proto/graph.pb-c.h"
#include "tensor/tensor.h"

/* A shape that may be partly unknown. NULL, an absent message, means rank 0.
 * Fails: INVALID_ARGUMENT (rank above MF_MAX_RANK, a dimension below -1, dimensions together with
 * unknown_rank). */
MF_MUST mf_status mf_shape_decode(const Tensorflow__TensorShapeProto *proto, mf_shape *out);

/* Owns: *out lives in the arena. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_shape_encode(const mf_shape *shape, mf_arena *arena,
                                  Tensorflow__TensorShapeProto **out);

/* The tensor of a message: tensor_content if it is not empty, else the *_val field of the type,
 * whose last value is repeated (empty field: zeros, empty strings). As in TensorFlow, numbers too
 * wide for a narrow type lose their upper bits. max_bytes: limit for its storage, strings included;
 * 0: the machine's memory. Two bytes can request terabytes: set a limit. Owns: *out is an empty
 * slot before, and stays one on failure; the caller clears it.
 * Fails: INVALID_ARGUMENT (type, shape, length), UNIMPLEMENTED (resource, variant, unsupported
 * types), RESOURCE_EXHAUSTED (max_bytes, memory). */
MF_MUST mf_status mf_tensor_decode(const Tensorflow__TensorProto *proto, size_t max_bytes,
                                   mf_tensor *out);

/* The same for a message whose content, of this many bytes, is in another buffer; for plain types
 * except bool. If `stays` can serve as the elements, the tensor takes ownership of it and its
 * buffer is read-only; else the caller fills the elements. stays: may be NULL. */
MF_MUST mf_status mf_tensor_decode_apart(const Tensorflow__TensorProto *proto, size_t bytes,
                                         size_t max_bytes, const mf_iovec *stays, mf_tensor *out);

/* Plain types go into tensor_content, strings into string_val. The elements are borrowed from the
 * tensor, which must outlive *out; *out is allocated in the arena.
 * Fails: UNIMPLEMENTED (resource, variant), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_tensor_encode(const mf_tensor *tensor, mf_arena *arena,
                                   Tensorflow__TensorProto **out);

#endif
