/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - untrusted graphs: every error is refused with its place, and the process continues. */
#include "base/buf.h"
#include "graph/absent.h"
#include "mf_test.h"

#include <meshflow/session.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Loads a graph from protobuf text in a file. */
static mf_status load(mf_graph *g, const char *text)
{
    char path[] = "/tmp/mf_graph_XXXXXX.pbtxt";
    const int fd = mkstemps(path, 6);
    mf_status st;

    T_TRUE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
    st = mf_graph_load(g, path);
    (void)unlink(path);
    return st;
}

static void refuses(mf_status code, const char *part, const char *text)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    T_FAILS(code, part, load(g, text));
    T_FAILS(code, part, mf_graph_status(g)); /* a partially read graph stays unusable */
    mf_graph_free(g);
}

#define X "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "

MF_TEST(graph_decode_names_an_unknown_op)
{
    refuses(MF_NOT_FOUND, "Op type not registered 'Nonsense'", "node { name: 'n' op: 'Nonsense' }");
}

static mf_status run_op(mf_session *s, const char *target)
{
    return mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL);
}

/* `Abort` is a TensorFlow op without a kernel here; `after` and `dead` need it, `other` does not.
 */
MF_TEST(graph_with_an_unsupported_op_fails_only_the_runs_that_reach_it)
{
    const char *text =
        "node { name: 'bad' op: 'Abort' } node { name: 'other' op: 'NoOp' } "
        "node { name: 'after' op: 'NoOp' input: '^bad' } "
        "node { name: 'no' op: 'Const' attr { key: 'dtype' value { type: DT_BOOL } } "
        "  attr { key: 'value' value { tensor { dtype: DT_BOOL tensor_shape { } bool_val: false } "
        "} } } "
        "node { name: 'switch' op: 'Switch' input: 'no' input: 'no' "
        "  attr { key: 'T' value { type: DT_BOOL } } } "
        "node { name: 'taken' op: 'Identity' input: 'switch:1' attr { key: 'T' value { type: "
        "DT_BOOL } } } "
        "node { name: 'dead' op: 'Abort' input: '^taken' }";
    mf_graph *g;
    mf_session *s;

    T_OK(mf_graph_new(&g));
    T_OK(load(g, text));
    T_OK(mf_session_new(g, NULL, &s));
    T_OK(run_op(s, "other"));
    T_OK(run_op(s, "dead"));
    T_FAILS(MF_UNIMPLEMENTED, "does not support the op Abort; docs/reference/ops.md",
            run_op(s, "after"));
    T_FAILS(MF_UNIMPLEMENTED, "{{node bad}}", run_op(s, "after"));
    mf_session_free(s);
    mf_graph_free(g);
}

MF_TEST(graph_ops_that_are_not_supported_have_signatures_and_no_kernel)
{
    for (int i = 0; mf_absent_ops[i].name; i++) {
        const mf_opdef *def;

        T_TRUE(mf_op_absent(mf_absent_ops[i].name) != NULL);
        T_OK(mf_op_def(mf_op_absent(mf_absent_ops[i].name), &def));
        if (mf_op_find(mf_absent_ops[i].name))
            T_FAIL("%s is in ops/ and in absent_ops.c", mf_absent_ops[i].name);
    }
}

MF_TEST(graph_decode_names_an_unknown_input)
{
    refuses(
        MF_INVALID_ARGUMENT, "Unknown input node 'nope'",
        "node { name: 'n' op: 'Relu' input: 'nope' attr { key: 'T' value { type: DT_FLOAT } } }");
}

/* TensorFlow masters send annotations of their optimizer, with dimensions such as -6. */
MF_TEST(graph_decode_ignores_annotations_of_an_optimizer)
{
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    T_OK(load(g, "node { name: 'n' op: 'NoOp' attr { key: '_input_shapes' "
                 "value { list { shape { dim { size: -6 } } } } } }"));
    mf_graph_free(g);
}

MF_TEST(graph_decode_refuses_two_nodes_of_one_name)
{
    refuses(MF_INVALID_ARGUMENT, "Duplicate node name in graph: 'x'", X X);
}

MF_TEST(graph_decode_refuses_a_cycle_and_names_it)
{
    refuses(MF_INVALID_ARGUMENT, "cycle",
            "node { name: 'a' op: 'Relu' input: 'b' attr { key: 'T' value { type: DT_FLOAT } } }"
            "node { name: 'b' op: 'Relu' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }");
    refuses(MF_INVALID_ARGUMENT, "cycle", "node { name: 'a' op: 'NoOp' input: '^a' }");
}

MF_TEST(graph_decode_refuses_type_mismatches)
{
    refuses(MF_INVALID_ARGUMENT, "was passed float from x:0 incompatible with expected int32",
            X "node { name: 'n' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_INT32 } } }");
    refuses(MF_INVALID_ARGUMENT, "attr 'T' of string is not in the list of allowed values",
            X
            "node { name: 'n' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_STRING } } }");
    refuses(MF_INVALID_ARGUMENT, "Unknown input node 'y'",
            "node { name: 'n' op: 'Neg' input: 'y' attr { key: 'T' value { type: DT_STRING } } }");
}

MF_TEST(graph_decode_refuses_wrong_counts_and_attributes)
{
    refuses(MF_INVALID_ARGUMENT, "takes 2 inputs, not 1",
            X
            "node { name: 'n' op: 'AddV2' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }");
    refuses(MF_INVALID_ARGUMENT, "missing attr 'T'", X "node { name: 'n' op: 'Relu' input: 'x' }");
    refuses(MF_INVALID_ARGUMENT, "mentions attr 'colour' not in op Relu",
            X "node { name: 'n' op: 'Relu' input: 'x' attr { key: 'T' value { type: DT_FLOAT } }"
              " attr { key: 'colour' value { i: 1 } } }");
    refuses(
        MF_INVALID_ARGUMENT, "which has only 1",
        X "node { name: 'n' op: 'Relu' input: 'x:1' attr { key: 'T' value { type: DT_FLOAT } } }");
    refuses(MF_INVALID_ARGUMENT, "would stand for",
            "node { name: 'n' op: 'Pack' attr { key: 'T' value { type: DT_FLOAT } }"
            " attr { key: 'N' value { i: 4611686018427387904 } } }");
}

MF_TEST(graph_decode_refuses_bad_names)
{
    refuses(MF_INVALID_ARGUMENT, "not a valid node name", "node { name: '' op: 'NoOp' }");
    refuses(MF_INVALID_ARGUMENT, "not a valid node name", "node { name: 'a b' op: 'NoOp' }");
}

/* A negative N of one argument leaves more than 2^63 inputs for the other; the sum must not
 * overflow. */
MF_TEST(graph_nodes_with_negative_numbers_of_inputs_are_refused)
{
    mf_output v;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[2]");
    (void)mf_applyf(g, "_ApplyMany", MF_IN(v), "N=-9223372036854775807 T=float rule='x'");
    T_FAILS(MF_INVALID_ARGUMENT, "inputs are too few", mf_graph_status(g));
    mf_graph_free(g);
}

MF_TEST(graph_decode_refuses_impossible_constants)
{
    static const char *const dims[] = { "size: 4611686018427387904 } dim { size: 4",
                                        "size: 2147483648 } dim { size: 2147483648", "size: -1" };

    for (int i = 0; i < 3; i++) {
        mf_buf text = { 0 };
        mf_graph *g;

        mf_buf_printf(
            &text,
            "node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }"
            " attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { %s"
            " } } float_val: 1 } } } }",
            dims[i]);
        T_OK(mf_buf_finish(&text));
        T_OK(mf_graph_new(&g));
        T_TRUE(load(g, text.data) != MF_OK);
        T_TRUE(strstr(mf_error_message(), "c") != NULL);
        mf_graph_free(g);
        mf_buf_deinit(&text);
    }
}

/* f(a) = g(a) and g(a) = f(a): refused when a run needs them. */
MF_TEST(graph_functions_that_call_each_other_are_refused)
{
    static const char text[] =
        X "node { name: 'y' op: 'f' input: 'x' }"
          "library {"
          " function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT }"
          "   output_arg { name: 'r' type: DT_FLOAT } }"
          "   node_def { name: 'c' op: 'g' input: 'a' } ret { key: 'r' value: 'c:r:0' } }"
          " function { signature { name: 'g' input_arg { name: 'a' type: DT_FLOAT }"
          "   output_arg { name: 'r' type: DT_FLOAT } }"
          "   node_def { name: 'c' op: 'f' input: 'a' } ret { key: 'r' value: 'c:r:0' } } }";
    const char *feed = "x:0", *fetch = "y:0";
    mf_tensor *x, *y = NULL;
    mf_session *s;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    T_OK(load(g, text));
    T_OK(mf_session_new(g, NULL, &s));
    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &x));
    T_FAILS(
        MF_INVALID_ARGUMENT, "calls itself",
        mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x, 1, &fetch, 1, NULL, 0, &y));
    mf_tensor_free(x);
    mf_session_free(s);
    mf_graph_free(g);
}

/* f30 calls f29 twice, and so on: an expansion would have 2^30 nodes. */
MF_TEST(graph_functions_that_expand_without_limit_are_refused)
{
    const char *feed = "x:0", *fetch = "y:0";
    mf_buf text = { 0 };
    mf_tensor *x, *y = NULL;
    mf_session *s;
    mf_graph *g;

    mf_buf_str(&text, X "node { name: 'y' op: 'f30' input: 'x' } library {");
    for (int i = 30; i >= 0; i--) {
        mf_buf_printf(&text,
                      "function { signature { name: 'f%d' input_arg { name: 'a' type: DT_FLOAT }"
                      " output_arg { name: 'r' type: DT_FLOAT } }",
                      i);
        if (i > 0)
            mf_buf_printf(&text,
                          "node_def { name: 'b' op: 'f%d' input: 'a' }"
                          "node_def { name: 'c' op: 'f%d' input: 'b:r:0' }"
                          "ret { key: 'r' value: 'c:r:0' } }",
                          i - 1, i - 1);
        else
            mf_buf_str(&text, "node_def { name: 'c' op: 'Relu' input: 'a'"
                              " attr { key: 'T' value { type: DT_FLOAT } } }"
                              "ret { key: 'r' value: 'c:activations:0' } }");
    }
    mf_buf_str(&text, "}");
    T_OK(mf_buf_finish(&text));
    T_OK(mf_graph_new(&g));
    T_OK(load(g, text.data));
    T_OK(mf_session_new(g, NULL, &s));
    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &x));
    T_FAILS(
        MF_RESOURCE_EXHAUSTED, "nodes",
        mf_session_run(s, NULL, &feed, (const mf_tensor *const *)&x, 1, &fetch, 1, NULL, 0, &y));
    mf_tensor_free(x);
    mf_session_free(s);
    mf_graph_free(g);
    mf_buf_deinit(&text);
}

MF_TEST(graph_encode_keeps_unknown_fields)
{
    /* GraphDef.node[0] with name, op and field 6 (experimental_debug_info) holding "hi". */
    static const char bytes[] = "\x0a\x13\x0a\x01n\x12\x04NoOp2\x08\x0a\x06secret";
    mf_graph *g;
    char *out;
    size_t len;
    bool found = false;

    T_OK(mf_graph_new(&g));
    T_OK(mf_graph_decode(g, bytes, sizeof bytes - 1));
    T_OK(mf_graph_encode(g, &out, &len));
    for (size_t i = 0; i + 6 <= len; i++)
        found = found || memcmp(out + i, "secret", 6) == 0;
    T_TRUE(found);
    mf_bytes_free(out);
    mf_graph_free(g);
}

MF_TEST(graph_builder_keeps_its_first_error)
{
    mf_graph *g;
    mf_output x, bad;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float");
    bad = mf_applyf(g, "Conv2D", MF_IN(x, x), "strides=[1,1,1,1] padding='SIDEWAYS'");
    T_TRUE(bad.node == NULL);
    bad = mf_apply(g, "Relu", MF_IN(bad));
    T_TRUE(bad.node == NULL);
    T_FAILS(MF_INVALID_ARGUMENT, "SIDEWAYS", mf_graph_status(g));
    mf_graph_free(g);
}
