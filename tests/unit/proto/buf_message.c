/* SPDX-License-Identifier: Apache-2.0 */
/* buf_message.c - RecvBufResponse, decoded from any split without copying large contents. */
#include "proto/buf_message.h"

#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

static void fill(mf_tensor *t, int64_t n)
{
    T_OK(mf_tensor_alloc(t, MF_DTYPE_F32, &MF_SHAPE(n)));
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)i;
}

static void note_release(void *ctx)
{
    ++*(int *)ctx;
}

MF_TEST(buf_message_is_decoded_from_any_split)
{
    static const int64_t counts[] = { 0, 1, 100, 5000 };

    for (int i = 0; i < 4; i++) {
        const size_t size = (size_t)counts[i] * sizeof(float);
        mf_tensor t = { 0 };
        mf_buf bytes = { 0 };
        mf_iovec content;

        fill(&t, counts[i]);
        T_OK(mf_buf_message_make(&t, &bytes, &content));
        if (content.size > 0)
            mf_buf_bytes(&bytes, content.data, content.size);
        mf_iovec_release(&content, 1);
        for (size_t at = 0; at <= bytes.len; at += at < 80 ? 1 : 997) {
            mf_iovec parts[2] = { { bytes.data, at, NULL, NULL },
                                  { bytes.data + at, bytes.len - at, NULL, NULL } };
            mf_iovec out;

            T_OK(mf_buf_message_read(parts, 2, size, &out));
            T_EQ(out.size, size);
            T_TRUE(size == 0 || memcmp(out.data, t.data, size) == 0);
            mf_iovec_release(&out, 1);
        }
        mf_buf_deinit(&bytes);
        mf_tensor_clear(&t);
    }
}

MF_TEST(buf_message_does_not_copy_large_contents)
{
    mf_tensor t = { 0 };
    mf_buf head = { 0 };
    mf_iovec parts[2], out;
    int released = 0;

    fill(&t, 5000);
    T_OK(mf_buf_message_make(&t, &head, &parts[1]));
    T_TRUE(parts[1].data == t.data);
    mf_iovec_release(&parts[1], 1);
    parts[0] = (mf_iovec){ .data = head.data, .size = head.len };
    parts[1].release = note_release;
    parts[1].ctx = &released;
    T_OK(mf_buf_message_read(parts, 2, 20000, &out));
    T_TRUE(out.data == t.data);
    T_EQ(released, 0);
    mf_iovec_release(&out, 1);
    T_EQ(released, 1);
    mf_buf_deinit(&head);
    mf_tensor_clear(&t);
}

MF_TEST(buf_message_of_another_size_is_refused_and_released)
{
    mf_tensor t = { 0 };
    mf_buf head = { 0 };
    mf_iovec part, out;
    int released = 0;

    fill(&t, 3);
    T_OK(mf_buf_message_make(&t, &head, &out));
    T_EQ(out.size, 0);
    part = (mf_iovec){ head.data, head.len, note_release, &released };
    T_FAILS(MF_INVALID_ARGUMENT, "received 12 bytes instead of 16",
            mf_buf_message_read(&part, 1, 16, &out));
    T_EQ(released, 1);
    part = (mf_iovec){ "\x22\x7f", 2, NULL, NULL };
    T_FAILS(MF_INVALID_ARGUMENT, "runs past the end", mf_buf_message_read(&part, 1, 16, &out));
    mf_buf_deinit(&head);
    mf_tensor_clear(&t);
}
