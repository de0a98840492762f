/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_codec.h - shapes and tensors from and to their messages.
 *
 * A TensorProto comes from strangers: its type, shape and the length of its content are checked
 * before any storage is asked for. */
#ifndef MF_PROTO_TENSOR_CODEC_H
#define MF_PROTO_TENSOR_CODEC_H

#include "base/mem.h"
#include "proto/graph.pb-c.h"
#include "tensor/tensor.h"

/* A shape that may be partly unknown. NULL is what an absent message means: rank 0.
 * Fails: INVALID_ARGUMENT (rank above MF_MAX_RANK, a dimension below -1, dimensions beside
 * unknown_rank). */
MF_MUST mf_status mf_shape_decode(const Tensorflow__TensorShapeProto *proto, mf_shape *out);

/* Owns: *out lives in the arena. Fails: RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_shape_encode(const mf_shape *shape, mf_arena *arena,
                                  Tensorflow__TensorShapeProto **out);

/* The tensor a message stands for: tensor_content if it is not empty, else the *_val field of the
 * type, whose last value is repeated (none at all: zeros, empty strings). As in TensorFlow, numbers
 * too wide for a narrow type lose their upper bits. max_bytes: the most storage it may take,
 * strings included; 0 for no limit but the machine's memory. Two bytes can ask for terabytes: give
 * a limit. Owns: *out is an empty slot before, and stays one on failure; the caller clears it.
 * Fails: INVALID_ARGUMENT (type, shape, length), UNIMPLEMENTED (resource, variant, types we lack),
 * RESOURCE_EXHAUSTED (max_bytes, memory). */
MF_MUST mf_status mf_tensor_decode(const Tensorflow__TensorProto *proto, size_t max_bytes,
                                   mf_tensor *out);

/* The same for a message whose content, of so many bytes, lies elsewhere; of plain types but bool.
 * Where `stays` can be the elements as it is, the tensor takes it over: its buffer is read-only
 * then; else the elements are the caller's to fill. stays: may be NULL. */
MF_MUST mf_status mf_tensor_decode_apart(const Tensorflow__TensorProto *proto, size_t bytes,
                                         size_t max_bytes, const mf_iovec *stays, mf_tensor *out);

/* Plain types go into tensor_content, strings into string_val; the elements are borrowed from the
 * tensor, so it must outlive *out, which lives in the arena.
 * Fails: UNIMPLEMENTED (resource, variant), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_tensor_encode(const mf_tensor *tensor, mf_arena *arena,
                                   Tensorflow__TensorProto **out);

#endif
