/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_message.c - messages of calls: parts that are sent without a copy, bytes that came. */
#include "base/mem.h"
#include "plugins/grpc/rpc.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

static grpc_slice slice_of(const mf_rpc_part *p)
{
    if (!p->release)
        return grpc_slice_from_copied_buffer(p->data, p->size);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)p->data, p->size, p->release, p->ctx);
}

static void release_all(const mf_rpc_part *parts, int n)
{
    for (int i = 0; i < n; i++) {
        if (parts[i].release)
            parts[i].release(parts[i].ctx);
    }
}

grpc_byte_buffer *rpc_message_make(const mf_rpc_part *parts, int n)
{
    grpc_slice *slices = mf_calloc(n > 0 ? n : 1, sizeof *slices);
    grpc_byte_buffer *message;

    if (!slices) {
        release_all(parts, n);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        slices[i] = slice_of(&parts[i]);
    message = grpc_raw_byte_buffer_create(slices, (size_t)n);
    for (int i = 0; i < n; i++)
        grpc_slice_unref(slices[i]);
    mf_free(slices);
    return message;
}

bool rpc_message_flatten(grpc_byte_buffer *message, grpc_slice *out)
{
    grpc_byte_buffer_reader reader;

    if (!message || !grpc_byte_buffer_reader_init(&reader, message))
        return false;
    *out = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return true;
}
