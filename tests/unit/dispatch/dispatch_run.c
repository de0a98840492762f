/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_run.c - encoded calls that run without a master. */
#include "dispatch/dispatch_run.h"

#include "mf_test.h"
#include "proto/dispatch.pb-c.h"
#include "proto/wire.h"

enum { ID = 7, MOST_FEEDS = 2 };

/* Encodes a call with n_feeds feeds of `floats` floats each. */
static void write_call(int n_feeds, int64_t floats, mf_buf *out)
{
    Tensorflow__TensorShapeProto__Dim dim = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT;
    Tensorflow__TensorShapeProto__Dim *dims[] = { &dim };
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    Tensorflow__TensorProto feed = TENSORFLOW__TENSOR_PROTO__INIT;
    Tensorflow__TensorProto *feeds[MOST_FEEDS] = { &feed, &feed };
    char name[] = "x:0", *names[MOST_FEEDS] = { name, name };
    Meshflow__Call call = MESHFLOW__CALL__INIT;
    uint8_t digest[MF_DIGEST_BYTES] = { 0 };
    float one = 1;

    dim.size = floats;
    shape.n_dim = 1;
    shape.dim = dims;
    feed.dtype = MF_DTYPE_F32;
    feed.tensor_shape = &shape;
    feed.n_float_val = 1;
    feed.float_val = &one;
    call.id = ID;
    call.graph = (ProtobufCBinaryData){ sizeof digest, digest };
    call.n_feeds = call.n_feed_names = (size_t)n_feeds;
    call.feeds = feeds;
    call.feed_names = names;
    mf_buf_clear(out);
    T_OK(mf_wire_encode(&call.base, out));
}

/* The reply must be this failure. */
static void expect_failure(mf_dispatch_call_runner *r, const mf_buf *call, mf_status st)
{
    mf_arena *arena = mf_arena_new();
    mf_buf result = { 0 };
    mf_answer answer;

    T_OK(mf_dispatch_call_runner_run(r, call->data, call->len, &result));
    T_OK(mf_answer_decode(result.data, result.len, arena, &answer));
    T_EQ(answer.id, ID);
    T_EQ(answer.status, st);
    mf_buf_deinit(&result);
    mf_arena_free(arena);
}

MF_TEST(dispatch_call_that_is_too_large_fails)
{
    const mf_dispatch_options options = { .threads = 1 };
    mf_dispatch_call_runner *r;
    mf_buf call = { 0 };
    int64_t fits;

    T_OK(mf_dispatch_call_runner_new(&options, &r));
    write_call(MOST_FEEDS, 1, &call);
    fits = 5 * (int64_t)call.len; /* enough for one copy, not two: feeds share the memory of their
                                     message */
    write_call(1, fits / 2, &call);
    expect_failure(r, &call, MF_NOT_FOUND); /* unknown graph */
    write_call(MOST_FEEDS, fits, &call);
    expect_failure(r, &call, MF_RESOURCE_EXHAUSTED);
    write_call(1, (int64_t)1 << 40, &call);
    expect_failure(r, &call, MF_RESOURCE_EXHAUSTED);
    write_call(MOST_FEEDS, 1, &call);
    expect_failure(r, &call, MF_NOT_FOUND);
    mf_dispatch_call_runner_stop(r);
    expect_failure(r, &call, MF_CANCELLED);
    mf_buf_deinit(&call);
    mf_dispatch_call_runner_free(r);
}
