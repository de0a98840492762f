/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tensor_message.c - an untrusted RecvTensorResponse in three fragments, split at the
 * positions in the
 * first four bytes. The result must equal that of decoding it in one piece with protobuf-c. */
#include "pieces.h"
#include "proto/tensor_message.h"
#include "proto/wire.h"
#include "proto/worker.pb-c.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20 };

static mf_status read_plainly(const uint8_t *data, size_t size, mf_tensor *out, bool *dead)
{
    static const Tensorflow__TensorProto none = TENSORFLOW__TENSOR_PROTO__INIT;
    mf_arena *arena = mf_arena_new();
    const Tensorflow__RecvTensorResponse *m;
    ProtobufCMessage *message;
    mf_status st = mf_wire_decode(&tensorflow__recv_tensor_response__descriptor, data, size, NULL,
                                  arena, &message);

    m = (const Tensorflow__RecvTensorResponse *)message;
    *dead = st == MF_OK && m->is_dead;
    if (st == MF_OK && !*dead)
        st = mf_tensor_decode(m->tensor ? m->tensor : &none, MAX_BYTES, out);
    mf_arena_free(arena);
    return st;
}

static size_t cut(const uint8_t *at, size_t size)
{
    return (size_t)(at[0] | at[1] << 8) % (size + 1);
}

static void compare(const mf_tensor *a, const mf_tensor *b)
{
    MF_ASSERT(a->dtype == b->dtype && mf_shape_equal(&a->shape, &b->shape));
    if (mf_dtype_is_plain(a->dtype) && a->count > 0)
        MF_ASSERT(memcmp(a->data, b->data, (size_t)a->count * mf_dtype_size(a->dtype)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_tensor plain = { 0 }, pieces = { 0 };
    bool plain_dead, pieces_dead;
    size_t a, b;
    mf_iovec parts[3];
    mf_status st;

    if (size < 4)
        return 0;
    a = cut(data, size - 4);
    b = cut(data + 2, size - 4 - a);
    data += 4;
    size -= 4;
    parts[0] = piece_of(data, a);
    parts[1] = piece_of(data + a, b);
    parts[2] = piece_of(data + a + b, size - a - b);
    st = read_plainly(data, size, &plain, &plain_dead);
    MF_ASSERT((mf_tensor_message_read(parts, 3, MAX_BYTES, &pieces, &pieces_dead) == MF_OK) ==
              (st == MF_OK));
    MF_ASSERT(plain_dead == pieces_dead);
    if (st == MF_OK && !plain_dead)
        compare(&plain, &pieces);
    mf_tensor_clear(&plain);
    mf_tensor_clear(&pieces);
    return 0;
}
