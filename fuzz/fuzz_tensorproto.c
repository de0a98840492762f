/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tensorproto.c - an untrusted TensorProto: decode to a tensor, encode, compare. */
#include "proto/tensor_codec.h"
#include "proto/wire.h"

#include <stdint.h>
#include <string.h>

static void round_trip(const mf_tensor *t, mf_arena *arena)
{
    Tensorflow__TensorProto *proto;
    mf_tensor back = { 0 };

    MF_ASSERT(mf_tensor_encode(t, arena, &proto) == MF_OK);
    MF_ASSERT(mf_tensor_decode(proto, 0, &back) == MF_OK);
    MF_ASSERT(back.dtype == t->dtype && mf_shape_equal(&back.shape, &t->shape));
    if (mf_dtype_is_plain(t->dtype) && t->count > 0)
        MF_ASSERT(memcmp(back.data, t->data, (size_t)t->count * mf_dtype_size(t->dtype)) == 0);
    mf_tensor_clear(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *message;
    mf_tensor t = { 0 };

    if (mf_wire_decode(&tensorflow__tensor_proto__descriptor, data, size, NULL, arena, &message) ==
            MF_OK &&
        mf_tensor_decode((const Tensorflow__TensorProto *)message, 1 << 20, &t) == MF_OK)
        round_trip(&t, arena);
    MF_ASSERT(t.dtype != MF_DTYPE_INVALID || t.buffer == NULL);
    mf_tensor_clear(&t);
    mf_arena_free(arena);
    return 0;
}
