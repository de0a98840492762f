/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - the protobuf decoder: limits, unknown fields, truncated and malformed messages. */
#include "proto/wire.h"

#include "mf_test.h"
#include "proto/graph.pb-c.h"

#include <stdlib.h>
#include <string.h>

#define GRAPH (&tensorflow__graph_def__descriptor)

/* Bytes written from the end to the front, so that wrapping a message costs nothing. */
typedef struct backward {
    uint8_t *data, *at, *end;
} backward;

static backward backward_new(size_t cap)
{
    uint8_t *data = malloc(cap);

    if (!data)
        T_FAIL("no memory");
    return (backward){ data, data + cap, data + cap };
}

static void prepend_varint(backward *b, uint64_t v)
{
    uint8_t s[10];
    int n = 0;

    for (; v >= 0x80; v >>= 7)
        s[n++] = (uint8_t)(v | 0x80);
    s[n++] = (uint8_t)v;
    T_TRUE(b->at - b->data >= n);
    b->at -= n;
    memcpy(b->at, s, (size_t)n);
}

/* Make what is there the content of a field. */
static void wrap(backward *b, unsigned field)
{
    prepend_varint(b, (uint64_t)(b->end - b->at));
    prepend_varint(b, (uint64_t)field << 3 | 2);
}

static mf_status check_bytes(const ProtobufCMessageDescriptor *desc, const char *bytes, size_t len)
{
    return mf_wire_check(desc, bytes, len, NULL);
}

#define CHECK(bytes) check_bytes(GRAPH, bytes, sizeof(bytes) - 1)

/* One node with attributes of every kind that nests; built once through protobuf-c. */
static void sample(mf_buf *out)
{
    Tensorflow__TensorShapeProto__Dim dim = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT;
    Tensorflow__TensorShapeProto__Dim *dims[] = { &dim };
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    Tensorflow__TensorProto tensor = TENSORFLOW__TENSOR_PROTO__INIT;
    Tensorflow__AttrValue value = TENSORFLOW__ATTR_VALUE__INIT;
    Tensorflow__AttrEntry entry = TENSORFLOW__ATTR_ENTRY__INIT;
    Tensorflow__AttrEntry *entries[] = { &entry };
    Tensorflow__NodeDef node = TENSORFLOW__NODE_DEF__INIT;
    Tensorflow__NodeDef *nodes[] = { &node };
    Tensorflow__GraphDef graph = TENSORFLOW__GRAPH_DEF__INIT;
    char *inputs[] = { "a", "^b" };
    int32_t ints[] = { 1, -1, 300 };

    dim.size = 3;
    shape.n_dim = 1;
    shape.dim = dims;
    tensor.dtype = 3;
    tensor.tensor_shape = &shape;
    tensor.n_int_val = 3;
    tensor.int_val = ints;
    value.value_case = TENSORFLOW__ATTR_VALUE__VALUE_TENSOR;
    value.tensor = &tensor;
    entry.key = "value";
    entry.value = &value;
    node.name = "n\xc3\xa9";
    node.op = "Const";
    node.n_input = 2;
    node.input = inputs;
    node.n_attr = 1;
    node.attr = entries;
    graph.n_node = 1;
    graph.node = nodes;
    T_OK(mf_wire_encode(&graph.base, out));
}

MF_TEST(wire_decodes_what_it_encoded)
{
    mf_arena *arena = mf_arena_new();
    mf_buf bytes = { 0 }, again = { 0 };
    ProtobufCMessage *message = NULL;

    sample(&bytes);
    T_OK(mf_wire_decode(GRAPH, bytes.data, bytes.len, NULL, arena, &message));
    const Tensorflow__GraphDef *graph = (const Tensorflow__GraphDef *)message;

    T_STREQ(graph->node[0]->name, "n\xc3\xa9");
    T_STREQ(graph->node[0]->input[1], "^b");
    T_EQ(graph->node[0]->attr[0]->value->tensor->int_val[1], -1);
    T_OK(mf_wire_encode(message, &again));
    T_EQ(again.len, bytes.len);
    T_TRUE(memcmp(again.data, bytes.data, bytes.len) == 0);
    mf_buf_deinit(&bytes);
    mf_buf_deinit(&again);
    mf_arena_free(arena);
}

MF_TEST(wire_an_empty_message_is_a_message)
{
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *message = NULL;

    T_OK(mf_wire_decode(GRAPH, NULL, 0, NULL, arena, &message));
    T_EQ(((Tensorflow__GraphDef *)message)->n_node, 0);
    mf_arena_free(arena);
}

MF_TEST(wire_a_truncated_message_is_refused)
{
    mf_buf bytes = { 0 };

    sample(&bytes);
    for (size_t len = 1; len < bytes.len; len++) {
        mf_arena *arena = mf_arena_new();
        uint8_t *exact = malloc(len); /* so that a sanitizer sees one byte too far */
        ProtobufCMessage *message;

        T_TRUE(arena && exact);
        memcpy(exact, bytes.data, len);
        T_FAILS(MF_INVALID_ARGUMENT, "", mf_wire_decode(GRAPH, exact, len, NULL, arena, &message));
        free(exact);
        mf_arena_free(arena);
    }
    mf_buf_deinit(&bytes);
}

MF_TEST(wire_errors_name_the_path)
{
    /* Two nodes; the second's second attribute has a tensor whose length is a lie. */
    backward b = backward_new(64);

    prepend_varint(&b, 99);
    prepend_varint(&b, 8 << 3 | 2); /* tensor */
    wrap(&b, 2); /* value */
    wrap(&b, 5); /* attr */
    b.at -= 2;
    memcpy(b.at, "\x2a\x00", 2); /* an empty attr before it */
    wrap(&b, 1); /* node */
    b.at -= 2;
    memcpy(b.at, "\x0a\x00", 2);
    T_FAILS(MF_INVALID_ARGUMENT,
            "node[1].attr[1].value.tensor: length 99 runs past the end of the message",
            mf_wire_check(GRAPH, b.at, (size_t)(b.end - b.at), NULL));
    free(b.data);
}

MF_TEST(wire_a_hundred_thousand_levels_are_refused)
{
    const ProtobufCMessageDescriptor *desc = &tensorflow__attr_value__descriptor;
    backward b = backward_new((size_t)3 << 20);

    for (int i = 0; i < 100000; i++) {
        wrap(&b, 2); /* AttrEntry.value */
        wrap(&b, 2); /* NameAttrList.attr */
        wrap(&b, 10); /* AttrValue.func */
    }
    T_FAILS(MF_INVALID_ARGUMENT, "messages are nested more than 64 deep",
            mf_wire_check(desc, b.at, (size_t)(b.end - b.at), NULL));
    free(b.data);
}

MF_TEST(wire_depth_counts_the_outermost_message)
{
    const ProtobufCMessageDescriptor *desc = &tensorflow__attr_value__descriptor;
    backward b = backward_new(256);

    for (int i = 0; i < 3; i++) {
        wrap(&b, 2);
        wrap(&b, 2);
        wrap(&b, 10);
    }
    T_OK(mf_wire_check(desc, b.at, (size_t)(b.end - b.at), &(mf_wire_limits){ .max_depth = 10 }));
    T_FAILS(MF_INVALID_ARGUMENT,
            "func.attr[0].value.func.attr[0].value.func.attr[0].value: messages",
            mf_wire_check(desc, b.at, (size_t)(b.end - b.at), &(mf_wire_limits){ .max_depth = 9 }));
    free(b.data);
}

MF_TEST(wire_text_is_utf8_without_nul)
{
    T_OK(CHECK("\x0a\x05\x0a\x03\xe2\x82\xac"));
    T_FAILS(MF_INVALID_ARGUMENT, "node[0].name: the text contains a NUL byte",
            CHECK("\x0a\x05\x0a\x03"
                  "a\0b"));
    T_FAILS(MF_INVALID_ARGUMENT, "node[0].name: byte 1 of the text is not UTF-8",
            CHECK("\x0a\x05\x0a\x03"
                  "a\xff"
                  "b"));
    T_FAILS(MF_INVALID_ARGUMENT, "is not UTF-8", CHECK("\x0a\x04\x0a\x02\xc0\x80")); /* overlong */
    T_FAILS(MF_INVALID_ARGUMENT, "is not UTF-8", CHECK("\x0a\x05\x0a\x03\xed\xa0\x80"));
    T_FAILS(MF_INVALID_ARGUMENT, "is not UTF-8", CHECK("\x0a\x06\x0a\x04\xf4\x90\x80\x80"));
    T_FAILS(MF_INVALID_ARGUMENT, "is not UTF-8", CHECK("\x0a\x04\x0a\x02\xe2\x82")); /* cut */
}

MF_TEST(wire_a_sub_message_or_oneof_given_twice_is_refused)
{
    T_FAILS(MF_INVALID_ARGUMENT, "versions: given twice", CHECK("\x22\x00\x22\x00"));
    T_FAILS(MF_INVALID_ARGUMENT, "only one of 's' and 'i' may be given",
            check_bytes(&tensorflow__attr_value__descriptor, "\x12\x00\x18\x01", 4));
    T_FAILS(MF_INVALID_ARGUMENT, "i: given twice",
            check_bytes(&tensorflow__attr_value__descriptor, "\x18\x00\x18\x01", 4));
    T_OK(CHECK("\x18\x01\x18\x02")); /* of plain numbers the last counts */
}

MF_TEST(wire_types_must_match_their_fields)
{
    T_FAILS(MF_INVALID_ARGUMENT, "version: wire type 2 instead of 0", CHECK("\x1a\x00"));
    T_FAILS(MF_INVALID_ARGUMENT, "node[0]: wire type 0 instead of 2", CHECK("\x08\x00"));
    T_FAILS(MF_INVALID_ARGUMENT, "version: wire type 3 is not supported", CHECK("\x1b\x1c"));
    T_FAILS(MF_INVALID_ARGUMENT, "field 99: wire type 3 is not supported",
            CHECK("\x9b\x06\x9c\x06"));
    T_FAILS(MF_INVALID_ARGUMENT, "float_val[0]: length 3 is not a multiple of 4",
            check_bytes(&tensorflow__tensor_proto__descriptor, "\x2a\x03xyz", 5));
    T_FAILS(MF_INVALID_ARGUMENT, "int_val[0]: value 1 is cut off",
            check_bytes(&tensorflow__tensor_proto__descriptor, "\x3a\x03\x01\x80\x80", 5));
    T_OK(check_bytes(&tensorflow__tensor_proto__descriptor, "\x3a\x02\x01\x02\x38\x05", 6));
}

MF_TEST(wire_unterminated_tags_and_numbers_are_refused)
{
    T_FAILS(MF_INVALID_ARGUMENT, "GraphDef: byte 0: 0 is not a field number", CHECK("\x02\x00"));
    T_FAILS(MF_INVALID_ARGUMENT, "0 is not a field number", CHECK("\x80\x00\x01"));
    T_FAILS(MF_INVALID_ARGUMENT, "is not a field number", CHECK("\xfa\xff\xff\xff\x1f\x00"));
    T_FAILS(MF_INVALID_ARGUMENT, "cut off or too long", CHECK("\x88\x80\x80\x80\x80\x01\x01"));
    T_FAILS(MF_INVALID_ARGUMENT, "version: the number is cut off or too long",
            CHECK("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    T_FAILS(MF_INVALID_ARGUMENT, "node[0]: the length is cut off or too long",
            CHECK("\x0a\x80\x80\x80\x80\x80\x01"));
    T_FAILS(MF_INVALID_ARGUMENT, "length 4294967295 runs past", CHECK("\x0a\xff\xff\xff\xff\x0f"));
}

MF_TEST(wire_unknown_fields_are_kept)
{
    /* field 99 varint, field 100 fixed 64, 101 bytes, 102 fixed 32 */
    static const char bytes[] = "\x98\x06\x05\xa1\x06"
                                "12345678\xaa\x06\x02hi\xb5\x06"
                                "abcd";
    mf_arena *arena = mf_arena_new();
    mf_buf again = { 0 };
    ProtobufCMessage *message = NULL;

    T_OK(mf_wire_decode(GRAPH, bytes, sizeof bytes - 1, NULL, arena, &message));
    T_EQ(message->n_unknown_fields, 4);
    T_OK(mf_wire_encode(message, &again));
    T_EQ(again.len, sizeof bytes - 1);
    T_TRUE(memcmp(again.data, bytes, again.len) == 0);
    mf_buf_deinit(&again);
    mf_arena_free(arena);
}

MF_TEST(wire_two_bytes_cannot_become_gigabytes)
{
    enum { N = 1 << 20 };
    mf_arena *arena = mf_arena_new();
    uint8_t *bytes = malloc(2 * N);
    ProtobufCMessage *message;

    T_TRUE(bytes != NULL);
    for (int i = 0; i < N; i++)
        memcpy(bytes + 2 * i, "\x42\x00", 2); /* ListValue.tensor: an empty TensorProto */
    T_FAILS(MF_RESOURCE_EXHAUSTED, "would need more than",
            mf_wire_decode(&tensorflow__attr_value__list_value__descriptor, bytes, 2 * N, NULL,
                           arena, &message));
    T_EQ(mf_arena_used(arena), 0);
    free(bytes);
    mf_arena_free(arena);
}

MF_TEST(wire_budget_covers_the_allocations_of_protobuf_c)
{
    mf_buf bytes = { 0 };

    sample(&bytes);
    mf_buf_str(&bytes, "\x98\x06\x05");
    for (int i = 0; i < 200; i++)
        mf_buf_bytes(&bytes, "\x0a\x07\x0a\x05nodes", 9);
    for (size_t budget = 1000; budget < 200000; budget += 1000) {
        mf_arena *arena = mf_arena_new();
        ProtobufCMessage *message;

        if (mf_wire_check(GRAPH, bytes.data, bytes.len, &(mf_wire_limits){ .max_alloc = budget }) ==
            MF_OK) {
            mf_arena_limit(arena, budget);
            T_OK(mf_wire_decode(GRAPH, bytes.data, bytes.len, NULL, arena, &message));
        }
        mf_arena_free(arena);
    }
    mf_buf_deinit(&bytes);
}

MF_TEST(wire_a_full_arena_is_reported)
{
    mf_arena *arena = mf_arena_new();
    mf_buf bytes = { 0 };
    ProtobufCMessage *message;

    sample(&bytes);
    mf_arena_limit(arena, 256);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "GraphDef: no memory to decode",
            mf_wire_decode(GRAPH, bytes.data, bytes.len, NULL, arena, &message));
    T_TRUE(message == NULL);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "more than the limit of 5",
            mf_wire_check(GRAPH, bytes.data, bytes.len, &(mf_wire_limits){ .max_bytes = 5 }));
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
}

MF_TEST(wire_decoding_survives_any_failing_allocation)
{
    mf_buf bytes = { 0 };
    mf_status st = MF_RESOURCE_EXHAUSTED;

    sample(&bytes);
    for (int i = 0; i < 2000; i++)
        mf_buf_bytes(&bytes, "\x0a\x07\x0a\x05nodes", 9);
    for (int64_t nth = 1; st != MF_OK; nth++) {
        mf_arena *arena = mf_arena_new();
        ProtobufCMessage *message;

        mf_mem_fail_at(nth);
        st = mf_wire_decode(GRAPH, bytes.data, bytes.len, NULL, arena, &message);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        T_TRUE((message != NULL) == (st == MF_OK));
        mf_arena_free(arena);
    }
    mf_buf_deinit(&bytes);
}
