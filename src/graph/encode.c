/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c - a graph as a GraphDef message, bytes or file. */
#include "base/file.h"
#include "base/host_state.h"
#include "formats/pbtxt.h"
#include "graph/graphdef_codec.h"
#include "proto/tensor_codec.h"
#include "proto/wire.h"

#include <stdlib.h>
#include <string.h>

#define NEW(arena, type, init_fn, p)                                                               \
    do {                                                                                           \
        (p) = MF_ARENA_NEW((arena), type);                                                         \
        if (!(p))                                                                                  \
            return MF_NOMEM("encoding a graph");                                                   \
        init_fn(p);                                                                                \
    } while (0)

#define ARRAY(arena, type, n, p)                                                                   \
    do {                                                                                           \
        (p) = MF_ARENA_ARRAY((arena), type, (int64_t)(n));                                         \
        if (!(p))                                                                                  \
            return MF_NOMEM("encoding a graph");                                                   \
    } while (0)

static mf_status encode_attrs(const mf_named_attr *attrs, int n, mf_arena *arena,
                              Tensorflow__AttrEntry ***out);

static ProtobufCBinaryData binary(mf_bytes s)
{
    return (ProtobufCBinaryData){ .len = s.len, .data = (uint8_t *)(uintptr_t)s.data };
}

static char *encode_text(const char *s)
{
    return (char *)(uintptr_t)s; /* protobuf-c's messages are not const, but packing only reads */
}

static mf_status encode_func(const mf_func_ref *f, mf_arena *arena, Tensorflow__NameAttrList **out)
{
    NEW(arena, Tensorflow__NameAttrList, tensorflow__name_attr_list__init, *out);
    (*out)->name = encode_text(f->name);
    (*out)->n_attr = (size_t)f->n_attrs;
    return encode_attrs(f->attrs, f->n_attrs, arena, &(*out)->attr);
}

static mf_status encode_list(const mf_attr *a, mf_arena *arena,
                             Tensorflow__AttrValue__ListValue **out)
{
    Tensorflow__AttrValue__ListValue *l;
    const size_t n = (size_t)a->n;

    NEW(arena, Tensorflow__AttrValue__ListValue, tensorflow__attr_value__list_value__init, l);
    *out = l;
    if (n == 0)
        return MF_OK;
    switch (a->kind) {
    case MF_ATTR_STRING:
        ARRAY(arena, ProtobufCBinaryData, n, l->s);
        for (l->n_s = 0; l->n_s < n; l->n_s++)
            l->s[l->n_s] = binary(a->strings[l->n_s]);
        break;
    case MF_ATTR_INT:
        l->n_i = n;
        l->i = a->ints;
        break;
    case MF_ATTR_FLOAT:
        l->n_f = n;
        l->f = a->floats;
        break;
    case MF_ATTR_BOOL:
        ARRAY(arena, protobuf_c_boolean, n, l->b);
        for (l->n_b = 0; l->n_b < n; l->n_b++)
            l->b[l->n_b] = a->ints[l->n_b] != 0;
        break;
    case MF_ATTR_TYPE:
        ARRAY(arena, int32_t, n, l->type);
        for (l->n_type = 0; l->n_type < n; l->n_type++)
            l->type[l->n_type] = (int32_t)a->ints[l->n_type];
        break;
    case MF_ATTR_SHAPE:
        ARRAY(arena, Tensorflow__TensorShapeProto *, n, l->shape);
        for (l->n_shape = 0; l->n_shape < n; l->n_shape++)
            MF_TRY(mf_shape_encode(&a->shapes[l->n_shape], arena, &l->shape[l->n_shape]));
        break;
    case MF_ATTR_TENSOR:
        ARRAY(arena, Tensorflow__TensorProto *, n, l->tensor);
        for (l->n_tensor = 0; l->n_tensor < n; l->n_tensor++)
            MF_TRY(mf_tensor_encode(a->tensors[l->n_tensor], arena, &l->tensor[l->n_tensor]));
        break;
    case MF_ATTR_FUNC:
        ARRAY(arena, Tensorflow__NameAttrList *, n, l->func);
        for (l->n_func = 0; l->n_func < n; l->n_func++)
            MF_TRY(encode_func(&a->funcs[l->n_func], arena, &l->func[l->n_func]));
        break;
    case MF_ATTR_NONE:
    case MF_ATTR_PLACEHOLDER:
        break;
    }
    return MF_OK;
}

static mf_status encode_single(const mf_attr *a, mf_arena *arena, Tensorflow__AttrValue *v)
{
    switch (a->kind) {
    case MF_ATTR_STRING:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_S;
        v->s = binary(a->s);
        return MF_OK;
    case MF_ATTR_INT:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_I;
        v->i = a->i;
        return MF_OK;
    case MF_ATTR_FLOAT:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_F;
        v->f = a->f;
        return MF_OK;
    case MF_ATTR_BOOL:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_B;
        v->b = a->b;
        return MF_OK;
    case MF_ATTR_TYPE:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TYPE;
        v->type = (int32_t)a->type;
        return MF_OK;
    case MF_ATTR_SHAPE:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_SHAPE;
        return mf_shape_encode(a->shape, arena, &v->shape);
    case MF_ATTR_TENSOR:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TENSOR;
        return mf_tensor_encode(a->tensor, arena, &v->tensor);
    case MF_ATTR_FUNC:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_FUNC;
        return encode_func(a->func, arena, &v->func);
    case MF_ATTR_PLACEHOLDER:
        v->value_case = TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER;
        v->placeholder = encode_text(a->s.data);
        return MF_OK;
    case MF_ATTR_NONE:
        break;
    }
    return MF_OK;
}

static mf_status encode_attrs(const mf_named_attr *attrs, int n, mf_arena *arena,
                              Tensorflow__AttrEntry ***out)
{
    ARRAY(arena, Tensorflow__AttrEntry *, n, *out);
    for (int i = 0; i < n; i++) {
        const mf_attr *a = &attrs[i].value;
        Tensorflow__AttrEntry *e;

        NEW(arena, Tensorflow__AttrEntry, tensorflow__attr_entry__init, e);
        NEW(arena, Tensorflow__AttrValue, tensorflow__attr_value__init, e->value);
        e->key = encode_text(attrs[i].name);
        (*out)[i] = e;
        if (a->is_list) {
            e->value->value_case = TENSORFLOW__ATTR_VALUE__VALUE_LIST;
            MF_TRY(encode_list(a, arena, &e->value->list));
        } else {
            MF_TRY(encode_single(a, arena, e->value));
        }
    }
    return MF_OK;
}

/* Preserved bytes become one unknown field: protobuf-c writes its key and then the rest unchanged.
 */
static mf_status attach_unknown(mf_bytes bytes, mf_arena *arena, ProtobufCMessage *m)
{
    uint64_t key = 0;
    size_t at = 0;

    if (bytes.len == 0)
        return MF_OK;
    do {
        key |= (uint64_t)(bytes.data[at] & 0x7f) << (7 * at);
    } while ((bytes.data[at++] & 0x80) && at < bytes.len && at < 9);
    ARRAY(arena, ProtobufCMessageUnknownField, 1, m->unknown_fields);
    m->n_unknown_fields = 1;
    m->unknown_fields[0] = (ProtobufCMessageUnknownField){
        .tag = (uint32_t)(key >> 3),
        .wire_type = (ProtobufCWireType)(key & 7),
        .len = bytes.len - at,
        .data = (uint8_t *)(uintptr_t)bytes.data + at,
    };
    return MF_OK;
}

mf_status mf_node_encode(const mf_node *n, mf_arena *arena, Tensorflow__NodeDef **out)
{
    Tensorflow__NodeDef *d;
    int at = 0;

    NEW(arena, Tensorflow__NodeDef, tensorflow__node_def__init, d);
    *out = d;
    d->name = encode_text(n->name);
    d->op = encode_text(n->op_name);
    d->device = encode_text(n->device);
    d->n_input = (size_t)n->n_inputs + (size_t)n->n_controls;
    ARRAY(arena, char *, d->n_input, d->input);
    for (int i = 0; i < n->n_inputs; i++, at++) {
        const mf_output in = n->inputs[i];

        d->input[at] = in.port == 0 ? encode_text(in.node->name)
                                    : mf_arena_printf(arena, "%s:%d", in.node->name, in.port);
        if (!d->input[at])
            return MF_NOMEM("encoding a graph");
    }
    for (int i = 0; i < n->n_controls; i++, at++) {
        d->input[at] = mf_arena_printf(arena, "^%s", n->controls[i]->name);
        if (!d->input[at])
            return MF_NOMEM("encoding a graph");
    }
    d->n_attr = (size_t)n->n_attrs;
    MF_TRY(encode_attrs(n->attrs, n->n_attrs, arena, &d->attr));
    return attach_unknown(n->unknown, arena, &d->base);
}

static int encode_by_function_name(const void *a, const void *b)
{
    const Tensorflow__FunctionDef *x = *(Tensorflow__FunctionDef *const *)a;
    const Tensorflow__FunctionDef *y = *(Tensorflow__FunctionDef *const *)b;

    return strcmp(x->signature->name, y->signature->name);
}

static int by_gradient_name(const void *a, const void *b)
{
    const Tensorflow__GradientDef *x = *(Tensorflow__GradientDef *const *)a;
    const Tensorflow__GradientDef *y = *(Tensorflow__GradientDef *const *)b;

    return strcmp(x->function_name, y->function_name);
}

static mf_status encode_gradients(const mf_graph *g, mf_arena *arena,
                                  Tensorflow__FunctionDefLibrary *lib)
{
    int64_t it = 0;

    ARRAY(arena, Tensorflow__GradientDef *, g->gradients.count, lib->gradient);
    for (const mf_map_entry *e; (e = mf_map_next(&g->gradients, &it)) != NULL;) {
        Tensorflow__GradientDef *d;

        NEW(arena, Tensorflow__GradientDef, tensorflow__gradient_def__init, d);
        d->function_name = encode_text(e->key);
        d->gradient_func = e->value;
        lib->gradient[lib->n_gradient++] = d;
    }
    qsort(lib->gradient, lib->n_gradient, sizeof lib->gradient[0], by_gradient_name);
    return MF_OK;
}

static mf_status encode_library(const mf_graph *g, mf_arena *arena, Tensorflow__GraphDef *def)
{
    Tensorflow__FunctionDefLibrary *lib;
    int64_t it = 0;

    if (g->functions.count == 0)
        return MF_OK;
    NEW(arena, Tensorflow__FunctionDefLibrary, tensorflow__function_def_library__init, lib);
    ARRAY(arena, Tensorflow__FunctionDef *, g->functions.count, lib->function);
    for (const mf_map_entry *e; (e = mf_map_next(&g->functions, &it)) != NULL;)
        lib->function[lib->n_function++] =
            (Tensorflow__FunctionDef *)(uintptr_t)((const mf_function *)e->value)->proto;
    qsort(lib->function, lib->n_function, sizeof lib->function[0], encode_by_function_name);
    def->library = lib;
    return encode_gradients(g, arena, lib);
}

mf_status mf_graph_encode_message(const mf_graph *graph, mf_arena *arena,
                                  Tensorflow__GraphDef **out)
{
    Tensorflow__GraphDef *def;

    MF_TRY(mf_graph_status(graph));
    NEW(arena, Tensorflow__GraphDef, tensorflow__graph_def__init, def);
    ARRAY(arena, Tensorflow__NodeDef *, graph->n_nodes, def->node);
    for (int64_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i]->removed)
            MF_TRY(mf_node_encode(graph->nodes[i], arena, &def->node[def->n_node++]));
    }
    MF_TRY(encode_library(graph, arena, def));
    NEW(arena, Tensorflow__VersionDef, tensorflow__version_def__init, def->versions);
    def->versions->producer = graph->producer;
    def->versions->min_consumer = graph->min_consumer;
    MF_TRY(attach_unknown(graph->unknown, arena, &def->base));
    *out = def;
    return MF_OK;
}

static mf_status encode_encode(const mf_graph *graph, bool as_text, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    Tensorflow__GraphDef *def = NULL;
    mf_status st = arena ? MF_OK : MF_NOMEM("encoding a graph");

    if (st == MF_OK)
        st = mf_graph_encode_message(graph, arena, &def);
    if (st == MF_OK)
        st = as_text ? mf_pbtxt_encode(&def->base, out) : mf_wire_encode(&def->base, out);
    mf_arena_free(arena);
    return st;
}

mf_status mf_graph_encode(const mf_graph *graph, char **data, size_t *len)
{
    MF_ENTRY;
    MF_NEED(graph, data, len);

    mf_buf buf = { 0 };
    const mf_status st = encode_encode(graph, false, &buf);

    *data = NULL;
    *len = 0;
    if (st != MF_OK) {
        mf_buf_deinit(&buf);
        return st;
    }
    *data = buf.data ? buf.data : mf_strdup("");
    *len = buf.len;
    return *data ? MF_OK : MF_NOMEM("encoding a graph");
}

mf_status mf_graph_save(const mf_graph *graph, const char *path)
{
    MF_ENTRY;
    MF_NEED(graph, path);

    const size_t n = strlen(path);
    mf_buf buf = { 0 };
    mf_status st = encode_encode(graph, n > 6 && strcmp(path + n - 6, ".pbtxt") == 0, &buf);

    if (st == MF_OK)
        st = mf_file_write(path, buf.data ? buf.data : "", buf.len);
    mf_buf_deinit(&buf);
    return st;
}

void mf_bytes_free(char *data)
{
    MF_ENTRY_OR();

    mf_free(data);
}
