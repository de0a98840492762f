/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt.c - GraphDef in text format: spellings, escapes, errors and limits. */
#include "formats/pbtxt.h"

#include "mf_test.h"
#include "proto/graph.pb-c.h"
#include "proto/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A message of the test, with its arena. */
typedef struct parsed {
    mf_arena *arena;
    ProtobufCMessage *message;
} parsed;

static mf_status parse(const ProtobufCMessageDescriptor *desc, const char *text, parsed *p)
{
    /* A buffer of exactly this size, so that a sanitizer detects a read beyond the end. */
    const size_t len = strlen(text);
    char *exact = malloc(len > 0 ? len : 1);
    mf_status st;

    T_TRUE(exact != NULL);
    memcpy(exact, text, len);
    p->arena = mf_arena_new();
    st = mf_pbtxt_decode(desc, exact, len, p->arena, &p->message);
    free(exact);
    return st;
}

static mf_status parse_graph(const char *text)
{
    parsed p;
    const mf_status st = parse(&tensorflow__graph_def__descriptor, text, &p);

    mf_arena_free(p.arena);
    return st;
}

static Tensorflow__TensorProto *parse_tensor(const char *text, parsed *p)
{
    T_OK(parse(&tensorflow__tensor_proto__descriptor, text, p));
    return (Tensorflow__TensorProto *)p->message;
}

/* Reading `text` and writing it again gives `want`. */
static void expect_text(const ProtobufCMessageDescriptor *desc, const char *text, const char *want)
{
    parsed p;
    mf_buf out = { 0 };

    T_OK(parse(desc, text, &p));
    T_OK(mf_pbtxt_encode(p.message, &out));
    T_STREQ(out.data ? out.data : "", want);
    mf_buf_deinit(&out);
    mf_arena_free(p.arena);
}

MF_TEST(pbtxt_reads_and_writes_a_node_as_tensorflow_does)
{
    static const char text[] = "node {\n"
                               "  name: \"c\"\n"
                               "  op: \"Const\"\n"
                               "  input: \"a\"\n"
                               "  input: \"^b\"\n"
                               "  attr {\n"
                               "    key: \"dtype\"\n"
                               "    value {\n"
                               "      type: DT_FLOAT\n"
                               "    }\n"
                               "  }\n"
                               "  attr {\n"
                               "    key: \"empty\"\n"
                               "    value {\n"
                               "    }\n"
                               "  }\n"
                               "  attr {\n"
                               "    key: \"zero\"\n"
                               "    value {\n"
                               "      i: 0\n"
                               "    }\n"
                               "  }\n"
                               "}\n"
                               "versions {\n"
                               "  producer: 27\n"
                               "}\n";

    expect_text(&tensorflow__graph_def__descriptor, text, text);
}

MF_TEST(pbtxt_accepts_all_spellings)
{
    expect_text(&tensorflow__graph_def__descriptor,
                "# a comment\nnode < name: 'x' 'y' \"z\" ; >, node: { input: ['a', \"b\"] }\n"
                "versions: { bad_consumers: [1, 0x10, 010] bad_consumers: -1 } # the end",
                "node {\n  name: \"xyz\"\n}\nnode {\n  input: \"a\"\n  input: \"b\"\n}\n"
                "versions {\n  bad_consumers: 1\n  bad_consumers: 16\n  bad_consumers: 8\n"
                "  bad_consumers: -1\n}\n");
    expect_text(&tensorflow__attr_value__list_value__descriptor,
                "type: [DT_FLOAT, 101, 77, DT_STRING_REF] b: [true, f, 1, False] shape [{}, {}]",
                "b: true\nb: false\nb: true\nb: false\ntype: DT_FLOAT\ntype: DT_FLOAT_REF\n"
                "type: 77\ntype: DT_STRING_REF\nshape {\n}\nshape {\n}\n");
    expect_text(&tensorflow__attr_value__list_value__descriptor, "f: [] shape []", "");
}

MF_TEST(pbtxt_strings_have_all_escapes)
{
    parsed p;
    Tensorflow__TensorProto *t =
        parse_tensor("tensor_content: "
                     "\"\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?\\0\\101\\x41\\xA\\u00e9\\U0001F600\"",
                     &p);

    T_EQ(t->tensor_content.len, 21);
    T_TRUE(memcmp(t->tensor_content.data, "\a\b\f\n\r\t\v\\'\"?\0AA\n\xc3\xa9\xf0\x9f\x98\x80",
                  21) == 0);
    mf_arena_free(p.arena);
    expect_text(&tensorflow__tensor_proto__descriptor,
                "tensor_content: '\\'\"\\n\\t\\001\\377\303\251'",
                "tensor_content: \"\\'\\\"\\n\\t\\001\\377\\303\\251\"\n");
    expect_text(&tensorflow__gradient_def__descriptor, "function_name: 'h\303\251\\177'",
                "function_name: \"h\303\251\\177\"\n");
}

MF_TEST(pbtxt_floats_are_the_shortest_that_read_back)
{
    expect_text(&tensorflow__tensor_proto__descriptor,
                "float_val: [.1, 1e10, 1e-7, 1.5f, 3.4028235e38, inf, -inf, nan, -0, 123456789]"
                "double_val: [1, 1e16, 1e-5, 0.0001, 123.456, 5e-324, 0.1, -Infinity, 1e999]",
                "float_val: 0.1\nfloat_val: 10000000000.0\nfloat_val: 1e-07\nfloat_val: 1.5\n"
                "float_val: 3.4028235e+38\nfloat_val: inf\nfloat_val: -inf\nfloat_val: nan\n"
                "float_val: -0.0\nfloat_val: 123456790.0\n"
                "double_val: 1.0\ndouble_val: 1e+16\ndouble_val: 1e-05\ndouble_val: 0.0001\n"
                "double_val: 123.456\ndouble_val: 5e-324\ndouble_val: 0.1\ndouble_val: -inf\n"
                "double_val: inf\n");
}

MF_TEST(pbtxt_maps_are_sorted_by_key)
{
    expect_text(&tensorflow__function_def__descriptor,
                "resource_arg_unique_id { key: 10 value: 1 } resource_arg_unique_id { value: 2 }"
                "resource_arg_unique_id { key: 9 } ret { key: 'b' value: 'x' } ret { key: 'a' }",
                "ret {\n  key: \"a\"\n}\nret {\n  key: \"b\"\n  value: \"x\"\n}\n"
                "resource_arg_unique_id {\n  value: 2\n}\n"
                "resource_arg_unique_id {\n  key: 9\n}\n"
                "resource_arg_unique_id {\n  key: 10\n  value: 1\n}\n");
}

MF_TEST(pbtxt_errors_name_line_and_column)
{
    T_FAILS(MF_INVALID_ARGUMENT, "line 2, column 3: NodeDef has no field 'nam'",
            parse_graph("node {\n  nam: 'x'\n}"));
    T_FAILS(MF_INVALID_ARGUMENT, "line 1, column 12: the string is not closed",
            parse_graph("node{ name:'x\n' }"));
    T_FAILS(MF_INVALID_ARGUMENT, "line 1, column 16: 'name' is given twice",
            parse_graph("node{ name:'x' name:'y' }"));
    T_FAILS(MF_INVALID_ARGUMENT, "'i' and 's' exclude each other",
            parse_graph("node{ attr{ value{ s:'x' i:1 } } }"));
    T_FAILS(MF_INVALID_ARGUMENT, "expected ':' or '{' after 'name'",
            parse_graph("node{ name 'x' }"));
    T_FAILS(MF_INVALID_ARGUMENT, "expected '}' before the end", parse_graph("node{ name: 'x'"));
    T_FAILS(MF_INVALID_ARGUMENT, "expected the name of a field", parse_graph("node{}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "'DT_NONE' is not an element type",
            parse_graph("node{attr{value{type:DT_NONE}}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "contains a NUL", parse_graph("node{name:'\\0'}"));
    T_FAILS(MF_INVALID_ARGUMENT, "not UTF-8", parse_graph("node{name:'\\377'}"));
    T_FAILS(MF_INVALID_ARGUMENT, "bad escape", parse_graph("node{name:'\\q'}"));
    T_FAILS(MF_INVALID_ARGUMENT, "bad escape", parse_graph("node{name:'\\ud800'}"));
    T_FAILS(MF_INVALID_ARGUMENT, "bad escape", parse_graph("node{name:'\\400'}"));
}

MF_TEST(pbtxt_numbers_stay_in_their_range)
{
    T_OK(parse_graph("version: -2147483648"));
    T_FAILS(MF_INVALID_ARGUMENT, "out of range", parse_graph("version: 2147483648"));
    T_FAILS(MF_INVALID_ARGUMENT, "out of range", parse_graph("version: -2147483649"));
    T_FAILS(MF_INVALID_ARGUMENT, "an integer", parse_graph("version: 99999999999999999999"));
    T_FAILS(MF_INVALID_ARGUMENT, "an integer", parse_graph("version: 1.5"));
    T_FAILS(MF_INVALID_ARGUMENT, "an integer", parse_graph("version: 08"));
    T_FAILS(MF_INVALID_ARGUMENT, "an integer", parse_graph("version: 0x"));
    T_OK(parse_graph("node{attr{value{i: -9223372036854775808}}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "out of range",
            parse_graph("node{attr{value{i: 9223372036854775808}}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "a number", parse_graph("node{attr{value{f: 0x10}}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "a number", parse_graph("node{attr{value{f: 1e}}}"));
    T_FAILS(MF_INVALID_ARGUMENT, "a number", parse_graph("node{attr{value{f: 1.2.3}}}"));
}

MF_TEST(pbtxt_unsupported_fields_of_tensorflow_are_skipped)
{
    parsed p;

    T_OK(parse(&tensorflow__graph_def__descriptor,
               "node { name: 'a' experimental_debug_info { original_node_names: ['x', 'y'] }\n"
               " experimental_type < args { s: '}' } > op: 'B' }"
               "library { function { signature { description: 'a' \"b\" name: 'f' } } }",
               &p));
    T_STREQ(((Tensorflow__GraphDef *)p.message)->node[0]->op, "B");
    mf_arena_free(p.arena);
    T_FAILS(MF_INVALID_ARGUMENT, "expected ']'", parse_graph("node{experimental_type { [ }"));
}

MF_TEST(pbtxt_a_hundred_thousand_levels_are_refused)
{
    static const char *const levels[] = { "func{attr{value{", "<", "[" };

    for (int kind = 0; kind < 3; kind++) {
        mf_buf text = { 0 };

        mf_buf_str(&text, kind == 0 ? "node{attr{value{" : "node{experimental_type:");
        for (int i = 0; i < 100000; i++)
            mf_buf_str(&text, levels[kind]);
        T_OK(mf_buf_finish(&text));
        T_FAILS(MF_INVALID_ARGUMENT, "nested more than 64 deep", parse_graph(text.data));
        mf_buf_deinit(&text);
    }
}

MF_TEST(pbtxt_a_truncated_text_is_refused)
{
    static const char text[] = "node { name: 'x' attr { key: 'k' value { tensor { dtype: DT_INT32 "
                               "tensor_shape { dim { size: 2 } } int_val: [1, -2] } } } }";
    char cut[sizeof text];

    T_OK(parse_graph(text));
    for (size_t len = 1; len < sizeof text - 1; len++) {
        memcpy(cut, text, len);
        cut[len] = '\0';
        T_FAILS(MF_INVALID_ARGUMENT, "line 1, column", parse_graph(cut));
    }
}

MF_TEST(pbtxt_long_lists_take_linear_memory)
{
    enum { N = 200000 };
    mf_buf text = { 0 };
    parsed p;

    mf_buf_str(&text, "int_val: [0");
    for (int i = 1; i < N; i++)
        mf_buf_str(&text, ",7");
    mf_buf_str(&text, "]");
    T_OK(mf_buf_finish(&text));
    T_EQ(parse_tensor(text.data, &p)->int_val[N - 1], 7);
    T_TRUE(mf_arena_used(p.arena) < 16 * N);
    mf_buf_deinit(&text);
    mf_arena_free(p.arena);
}

MF_TEST(pbtxt_survives_any_failing_allocation)
{
    static const char text[] = "node { name: 'xyz' attr { key: 'b' } attr { key: 'a' value { list {"
                               " f: [1, 2, 3, 4, 5] s: 'abc' } } } }";
    mf_status st = MF_RESOURCE_EXHAUSTED;

    for (int64_t nth = 1; st != MF_OK; nth++) {
        mf_arena *arena = mf_arena_new();
        mf_buf out = { 0 };
        ProtobufCMessage *message;

        mf_mem_fail_at(nth);
        st = mf_pbtxt_decode(&tensorflow__graph_def__descriptor, text, sizeof text - 1, arena,
                             &message);
        if (st == MF_OK)
            st = mf_pbtxt_encode(message, &out);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        mf_buf_deinit(&out);
        mf_arena_free(arena);
    }
}
