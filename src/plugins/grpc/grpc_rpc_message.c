/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_rpc_message.c - messages of calls: parts that are sent without a copy, and received bytes.
 */
#include "base/mem.h"
#include "plugins/grpc/grpc_rpc.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

static grpc_slice slice_of(const mf_iovec *p)
{
    if (!p->release)
        return grpc_slice_from_copied_buffer(p->data, p->size);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)p->data, p->size, p->release, p->ctx);
}

grpc_byte_buffer *rpc_message_make(const mf_iovec *parts, int n)
{
    grpc_slice *slices = mf_calloc(n > 0 ? n : 1, sizeof *slices);
    grpc_byte_buffer *message;

    if (!slices) {
        mf_iovec_release(parts, n);
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

/* Number of slices; the first `room` of them go into parts. Returns -1 if the message cannot be
 * read. */
static int slices_of(grpc_byte_buffer *message, mf_iovec *parts, int room)
{
    grpc_byte_buffer_reader reader;
    grpc_slice *slice;
    int n = 0;

    if (!message || !grpc_byte_buffer_reader_init(&reader, message))
        return -1;
    for (; grpc_byte_buffer_reader_peek(&reader, &slice); n++) {
        if (n < room)
            parts[n] = (mf_iovec){ .data = GRPC_SLICE_START_PTR(*slice),
                                   .size = GRPC_SLICE_LENGTH(*slice) };
    }
    grpc_byte_buffer_reader_destroy(&reader);
    return n;
}

bool rpc_message_parts(grpc_byte_buffer *message, mf_iovec **out, int *n)
{
    *n = slices_of(message, NULL, 0);
    *out = *n >= 0 ? mf_calloc(*n + 1, sizeof **out) : NULL;
    if (!*out) {
        *n = 0;
        return false;
    }
    (void)slices_of(message, *out, *n);
    return true;
}
