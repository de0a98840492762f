/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_buf_message.c - an untrusted RecvBufResponse in three fragments, split at the positions in
 * the
 * first four bytes; the next two are the expected size. The result must equal that of decoding it
 * in one
 * piece with protobuf-c. */
#include "base/mem.h"
#include "pieces.h"
#include "proto/buf_message.h"
#include "proto/wire.h"
#include "proto/worker.pb-c.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 6 };

static mf_status read_plainly(const uint8_t *data, size_t size, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    const Tensorflow__RecvBufResponse *m;
    const Tensorflow__RecvBufContent *c = NULL;
    ProtobufCMessage *message;
    const mf_status st = mf_wire_decode(&tensorflow__recv_buf_response__descriptor, data, size,
                                        NULL, arena, &message);

    m = (const Tensorflow__RecvBufResponse *)message;
    if (st == MF_OK && m->transport_options)
        c = m->transport_options->value;
    for (size_t i = 0; c && i < c->n_tensor_content; i++)
        mf_buf_bytes(out, c->tensor_content[i].data, c->tensor_content[i].len);
    mf_arena_free(arena);
    return st;
}

static size_t number(const uint8_t *at)
{
    return (size_t)(at[0] | at[1] << 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_buf plain = { 0 };
    mf_iovec parts[3], pieces;
    size_t a, b, wanted;
    mf_status st;
    bool good;

    if (size < HEAD)
        return 0;
    a = number(data) % (size - HEAD + 1);
    b = number(data + 2) % (size - HEAD - a + 1);
    wanted = number(data + 4);
    data += HEAD;
    size -= HEAD;
    parts[0] = piece_of(data, a);
    parts[1] = piece_of(data + a, b);
    parts[2] = piece_of(data + a + b, size - a - b);
    st = read_plainly(data, size, &plain);
    good = st == MF_OK && plain.len == wanted;
    MF_ASSERT((mf_buf_message_read(parts, 3, wanted, &pieces) == MF_OK) == good);
    if (good && wanted > 0)
        MF_ASSERT(pieces.size == wanted && memcmp(pieces.data, plain.data, wanted) == 0);
    mf_iovec_release(&pieces, 1);
    mf_buf_deinit(&plain);
    return 0;
}
