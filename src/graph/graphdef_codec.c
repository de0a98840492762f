/* SPDX-License-Identifier: Apache-2.0 */
/* graphdef_codec.c - graphs from and to GraphDef.
 *
 * Two passes: all nodes first, then their edges, because a GraphDef lists nodes in any order.
 * function.c resolves names of inputs inside a FunctionDef ("node:output:index"). */
#include "graph/graphdef_codec.h"

#include "base/file.h"
#include "base/host_state.h"
#include "formats/pbtxt.h"
#include "graph/op.h"
#include "proto/tensor_codec.h"
#include "proto/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit for the memory of all constants of a graph. */
#define TENSOR_BUDGET ((size_t)4 << 30)
#define FILE_MAX ((size_t)2 << 30)

/* ---- attributes ---- */

static mf_status graphdef_codec_decode_tensor(mf_graph *g, const Tensorflow__TensorProto *proto,
                                              mf_tensor **out)
{
    mf_tensor t = { 0 };

    MF_TRY(mf_tensor_decode(proto, TENSOR_BUDGET, &t));
    *out = mf_graph_own_tensor(g, &t);
    mf_tensor_clear(&t);
    return *out ? MF_OK : MF_NOMEM("a tensor attribute");
}

static mf_status decode_func(mf_graph *g, const Tensorflow__NameAttrList *proto, mf_func_ref *out)
{
    out->name = proto->name;
    return mf_attrs_decode(g, proto->attr, (int)proto->n_attr, &out->attrs, &out->n_attrs);
}

static mf_status decode_list_of_messages(mf_graph *g, const Tensorflow__AttrValue__ListValue *l,
                                         mf_attr *out)
{
    if (l->n_shape > 0) {
        out->kind = MF_ATTR_SHAPE;
        out->n = (int64_t)l->n_shape;
        out->shapes = MF_ARENA_ARRAY(g->arena, mf_shape, out->n);
        for (int64_t i = 0; out->shapes && i < out->n; i++)
            MF_TRY(mf_shape_decode(l->shape[i], &out->shapes[i]));
    } else if (l->n_tensor > 0) {
        out->kind = MF_ATTR_TENSOR;
        out->n = (int64_t)l->n_tensor;
        out->tensors = MF_ARENA_ARRAY(g->arena, mf_tensor *, out->n);
        for (int64_t i = 0; out->tensors && i < out->n; i++)
            MF_TRY(graphdef_codec_decode_tensor(g, l->tensor[i], &out->tensors[i]));
    } else if (l->n_func > 0) {
        out->kind = MF_ATTR_FUNC;
        out->n = (int64_t)l->n_func;
        out->funcs = MF_ARENA_ARRAY(g->arena, mf_func_ref, out->n);
        for (int64_t i = 0; out->funcs && i < out->n; i++)
            MF_TRY(decode_func(g, l->func[i], &out->funcs[i]));
    }
    return out->n == 0 || out->ints ? MF_OK : MF_NOMEM("an attribute");
}

/* A list message has one array per kind; the kind is that of the nonempty one. */
static mf_status graphdef_codec_decode_list(mf_graph *g, const Tensorflow__AttrValue__ListValue *l,
                                            mf_attr *out)
{
    *out = (mf_attr){ .is_list = true };
    if (l->n_s > 0) {
        out->kind = MF_ATTR_STRING;
        out->n = (int64_t)l->n_s;
        out->strings = MF_ARENA_ARRAY(g->arena, mf_bytes, out->n);
        for (int64_t i = 0; out->strings && i < out->n; i++) {
            out->strings[i].data = mf_arena_strndup(
                g->arena, l->s[i].len ? (const char *)l->s[i].data : "", l->s[i].len);
            out->strings[i].len = l->s[i].len;
            if (!out->strings[i].data)
                return MF_NOMEM("an attribute");
        }
    } else if (l->n_f > 0) {
        out->kind = MF_ATTR_FLOAT;
        out->n = (int64_t)l->n_f;
        out->floats = l->f;
    } else if (l->n_i > 0) {
        out->kind = MF_ATTR_INT;
        out->n = (int64_t)l->n_i;
        out->ints = l->i;
    } else if (l->n_b > 0 || l->n_type > 0) {
        out->kind = l->n_b > 0 ? MF_ATTR_BOOL : MF_ATTR_TYPE;
        out->n = (int64_t)(l->n_b > 0 ? l->n_b : l->n_type);
        out->ints = MF_ARENA_ARRAY(g->arena, int64_t, out->n);
        for (int64_t i = 0; out->ints && i < out->n; i++)
            out->ints[i] = l->n_b > 0 ? l->b[i] : l->type[i];
    } else {
        return decode_list_of_messages(g, l, out);
    }
    return out->ints ? MF_OK : MF_NOMEM("an attribute");
}

static mf_status decode_attr(mf_graph *g, const Tensorflow__AttrValue *v, mf_attr *out)
{
    *out = (mf_attr){ .n = 1 };
    switch (v->value_case) {
    case TENSORFLOW__ATTR_VALUE__VALUE_S:
        out->kind = MF_ATTR_STRING;
        out->s.len = v->s.len;
        out->s.data = mf_arena_strndup(g->arena, v->s.len ? (const char *)v->s.data : "", v->s.len);
        return out->s.data ? MF_OK : MF_NOMEM("an attribute");
    case TENSORFLOW__ATTR_VALUE__VALUE_I:
        out->kind = MF_ATTR_INT;
        out->i = v->i;
        return MF_OK;
    case TENSORFLOW__ATTR_VALUE__VALUE_F:
        out->kind = MF_ATTR_FLOAT;
        out->f = v->f;
        return MF_OK;
    case TENSORFLOW__ATTR_VALUE__VALUE_B:
        out->kind = MF_ATTR_BOOL;
        out->b = v->b != 0;
        return MF_OK;
    case TENSORFLOW__ATTR_VALUE__VALUE_TYPE:
        out->kind = MF_ATTR_TYPE;
        out->type = (mf_dtype)v->type;
        return MF_OK;
    case TENSORFLOW__ATTR_VALUE__VALUE_SHAPE:
        out->kind = MF_ATTR_SHAPE;
        out->shape = MF_ARENA_NEW(g->arena, mf_shape);
        return out->shape ? mf_shape_decode(v->shape, out->shape) : MF_NOMEM("an attribute");
    case TENSORFLOW__ATTR_VALUE__VALUE_TENSOR:
        out->kind = MF_ATTR_TENSOR;
        return graphdef_codec_decode_tensor(g, v->tensor, &out->tensor);
    case TENSORFLOW__ATTR_VALUE__VALUE_LIST:
        return graphdef_codec_decode_list(g, v->list, out);
    case TENSORFLOW__ATTR_VALUE__VALUE_FUNC:
        out->kind = MF_ATTR_FUNC;
        out->func = MF_ARENA_NEW(g->arena, mf_func_ref);
        return out->func ? decode_func(g, v->func, out->func) : MF_NOMEM("an attribute");
    case TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER:
        out->kind = MF_ATTR_PLACEHOLDER;
        out->s = (mf_bytes){ v->placeholder, strlen(v->placeholder) };
        return MF_OK;
    default:
        return MF_FAIL(MF_INVALID_ARGUMENT, "the attribute has no value");
    }
}

/* Annotations of TensorFlow's optimizer, with identifiers of unknown dimensions: -2, -3 and so on.
 */
static bool is_a_note(const char *name)
{
    return strcmp(name, "_input_shapes") == 0;
}

mf_status mf_attrs_decode(mf_graph *g, Tensorflow__AttrEntry *const *entries, int n,
                          mf_named_attr **out, int *n_out)
{
    *n_out = 0;
    *out = MF_ARENA_ARRAY(g->arena, mf_named_attr, n);
    if (!*out)
        return MF_NOMEM("attributes");
    for (int i = 0; i < n; i++) {
        mf_named_attr *a = &(*out)[*n_out];
        mf_status st;

        a->name = entries[i]->key;
        if (!entries[i]->value || is_a_note(a->name))
            continue; /* a map entry without a value is ignored */
        st = decode_attr(g, entries[i]->value, &a->value);
        if (st != MF_OK) {
            char before[160];

            (void)snprintf(before, sizeof before, "attr '%.100s': ", a->name);
            return mf_error_wrap(st, before, "");
        }
        ++*n_out;
    }
    return MF_OK;
}

/* ---- nodes ---- */

/* Unknown fields as wire bytes, preserved for encoding. */
static mf_status keep_unknown(mf_arena *arena, const ProtobufCMessage *m, mf_bytes *out)
{
    mf_buf buf = { 0 };
    mf_status st;

    if (m->n_unknown_fields == 0)
        return MF_OK;
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *f = &m->unknown_fields[i];
        uint64_t key = (uint64_t)f->tag << 3 | (uint64_t)f->wire_type;

        do {
            const char byte = (char)((key & 0x7f) | (key > 0x7f ? 0x80 : 0));

            mf_buf_bytes(&buf, &byte, 1);
            key >>= 7;
        } while (key > 0);
        mf_buf_bytes(&buf, f->data, f->len);
    }
    st = mf_buf_finish(&buf);
    if (st == MF_OK) {
        out->data = mf_arena_strndup(arena, buf.data, buf.len);
        out->len = buf.len;
        if (!out->data)
            st = MF_NOMEM("unknown fields");
    }
    mf_buf_deinit(&buf);
    return st;
}

static int count_data_inputs(const Tensorflow__NodeDef *def)
{
    int n = 0;

    while (n < (int)def->n_input && def->input[n][0] != '^')
        n++;
    return n;
}

static bool is_name_start(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_';
}

static mf_status graphdef_codec_check_name(const char *name)
{
    bool ok = is_name_start(name[0]);

    for (const char *c = name; *c && ok; c++)
        ok = is_name_start(*c) || *c == '-' || *c == '/' || *c == '\\' || *c == '>';
    return ok ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "'%.200s' is not a valid node name", name);
}

mf_status mf_node_decode(mf_graph *g, const Tensorflow__NodeDef *def, mf_node **out)
{
    mf_node_spec spec = {
        .name = def->name, .op = def->op, .device = def->device, .n_inputs = count_data_inputs(def)
    };
    mf_named_attr *attrs;
    mf_status st;

    *out = NULL;
    MF_TRY(graphdef_codec_check_name(def->name));
    st = mf_attrs_decode(g, def->attr, (int)def->n_attr, &attrs, &spec.n_attrs);
    if (st != MF_OK) {
        char before[300];

        (void)snprintf(before, sizeof before, "{{node %.200s}}: ", def->name);
        return mf_error_wrap(st, before, "");
    }
    spec.attrs = attrs;
    MF_TRY(keep_unknown(g->arena, &def->base, &spec.unknown));
    return mf_graph_add(g, &spec, out);
}

/* "name", "name:3" -> output. */
static mf_status resolve_input(const mf_graph *g, const mf_node *node, const char *text,
                               mf_output *out)
{
    const char *colon = strrchr(text, ':');
    char name[1024];
    const size_t len = colon ? (size_t)(colon - text) : strlen(text);

    out->port = 0;
    if (colon) {
        char *end;
        const long port = strtol(colon + 1, &end, 10);

        if (end == colon + 1 || *end || port < 0 || port > 1 << 20)
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: malformed input '%.200s'", node->name,
                           text);
        out->port = (int)port;
    }
    if (len >= sizeof name)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: input name is too long", node->name);
    memcpy(name, text, len);
    name[len] = '\0';
    out->node = mf_graph_find(g, name);
    if (!out->node)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Node '%s': Unknown input node '%.200s'", node->name,
                       text);
    return MF_OK;
}

static mf_status graphdef_codec_connect(mf_graph *g, mf_node *node, const Tensorflow__NodeDef *def)
{
    const int n_data = count_data_inputs(def), n_all = (int)def->n_input;
    mf_output *in = MF_ARENA_ARRAY(g->arena, mf_output, n_data);
    mf_node **controls = MF_ARENA_ARRAY(g->arena, mf_node *, n_all - n_data);

    if (!in || !controls)
        return MF_NOMEM("inputs");
    for (int i = 0; i < n_data; i++)
        MF_TRY(resolve_input(g, node, def->input[i], &in[i]));
    for (int i = n_data; i < n_all; i++) {
        mf_output from;

        if (def->input[i][0] != '^')
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Node '%s': Control dependencies must come after regular dependencies",
                           node->name);
        MF_TRY(resolve_input(g, node, def->input[i] + 1, &from));
        controls[i - n_data] = from.node;
    }
    return mf_node_set_inputs(g, node, in, n_data, controls, n_all - n_data);
}

static mf_status decode_library(mf_graph *g, const Tensorflow__FunctionDefLibrary *lib)
{
    mf_buf bytes = { 0 };
    mf_status st = MF_OK;

    for (size_t i = 0; st == MF_OK && i < lib->n_function; i++) {
        bytes.len = 0;
        st = mf_wire_encode(&lib->function[i]->base, &bytes);
        if (st == MF_OK)
            st = mf_graph_add_function(g, bytes.data ? bytes.data : "", bytes.len);
    }
    for (size_t i = 0; st == MF_OK && i < lib->n_gradient; i++)
        st = mf_map_set(&g->gradients, lib->gradient[i]->function_name,
                        lib->gradient[i]->gradient_func);
    mf_buf_deinit(&bytes);
    return st;
}

/* "node", "node:1" and "^node" refer to a node of the message or of the graph. */
static bool names_a_node(const mf_graph *g, const Tensorflow__GraphDef *def, const char *input)
{
    const char *name = input[0] == '^' ? input + 1 : input;
    const size_t len = strcspn(name, ":");

    for (size_t i = 0; i < def->n_node; i++) {
        if (strncmp(def->node[i]->name, name, len) == 0 && def->node[i]->name[len] == '\0')
            return true;
    }
    return mf_graph_find(g, name) != NULL;
}

/* The error of an invalid node: an unknown input takes precedence, as in TensorFlow. */
static mf_status why_not_read(const mf_graph *g, const Tensorflow__GraphDef *def,
                              const Tensorflow__NodeDef *node, mf_status st)
{
    for (size_t i = 0; i < node->n_input && st == MF_INVALID_ARGUMENT; i++) {
        if (!names_a_node(g, def, node->input[i]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Node '%s': Unknown input node '%.200s'",
                           node->name, node->input[i]);
    }
    return st;
}

mf_status mf_graph_decode_message(mf_graph *graph, const Tensorflow__GraphDef *def)
{
    const int64_t first = graph->n_nodes;

    MF_TRY(mf_graph_status(graph));
    if (def->library)
        MF_TRY(decode_library(graph, def->library));
    for (size_t i = 0; i < def->n_node; i++) {
        mf_node *n;
        const mf_status st = mf_node_decode(graph, def->node[i], &n);

        if (st != MF_OK)
            return why_not_read(graph, def, def->node[i], st);
    }
    for (size_t i = 0; i < def->n_node; i++)
        MF_TRY(graphdef_codec_connect(graph, graph->nodes[first + (int64_t)i], def->node[i]));
    if (def->versions) {
        graph->producer = def->versions->producer;
        graph->min_consumer = def->versions->min_consumer;
    }
    MF_TRY(keep_unknown(graph->arena, &def->base, &graph->unknown));
    return mf_graph_verify(graph);
}

mf_status mf_graph_decode(mf_graph *graph, const void *data, size_t len)
{
    MF_ENTRY;
    MF_NEED(graph);
    MF_NEED_ARRAY(data, len > 0 ? 1 : 0);

    ProtobufCMessage *message;
    mf_status st;

    /* The message stays in the graph's arena: attribute lists point into it. */
    MF_TRY(mf_wire_decode(&tensorflow__graph_def__descriptor, data, len, NULL, graph->arena,
                          &message));
    st = mf_graph_decode_message(graph, (const Tensorflow__GraphDef *)message);
    if (st != MF_OK)
        mf_graph_fail(graph, st); /* some nodes may have been added: the graph must not be used */
    return st;
}

mf_status mf_graph_add_message(mf_graph *graph, const Tensorflow__GraphDef *def)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_wire_encode(&def->base, &bytes);

    if (st == MF_OK)
        st = mf_graph_decode(graph, bytes.data ? bytes.data : "", bytes.len);
    mf_buf_deinit(&bytes);
    return st;
}

static bool is_text_file(const char *path)
{
    const size_t n = strlen(path);

    return n > 6 && strcmp(path + n - 6, ".pbtxt") == 0;
}

mf_status mf_graph_load(mf_graph *graph, const char *path)
{
    MF_ENTRY;
    MF_NEED(graph, path);

    ProtobufCMessage *message;
    char *data;
    size_t len;
    mf_status st;

    MF_TRY(mf_file_read(path, FILE_MAX, &data, &len));
    if (is_text_file(path)) {
        st = mf_pbtxt_decode(&tensorflow__graph_def__descriptor, data, len, graph->arena, &message);
        if (st == MF_OK)
            st = mf_graph_decode_message(graph, (const Tensorflow__GraphDef *)message);
        if (st != MF_OK)
            mf_graph_fail(graph, st);
    } else {
        st = mf_graph_decode(graph, data, len);
    }
    mf_free(data);
    if (st != MF_OK) {
        char before[300];

        (void)snprintf(before, sizeof before, "'%.250s': ", path);
        return mf_error_wrap(st, before, "");
    }
    return MF_OK;
}
