/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - the builder: graphs written as algebra, with sticky errors. */
#include "base/host_state.h"
#include "graph/function.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GIVEN = 48 };

typedef struct build_given {
    mf_node_spec spec;
    mf_named_attr attrs[MAX_GIVEN];
} build_given;

/* Attributes outside the signature begin with an underscore; their kind follows from the value. */
static mf_attr_kind kind_of_extra(const char *value)
{
    if (*value == '\'')
        return MF_ATTR_STRING;
    return *value == 't' || *value == 'f' ? MF_ATTR_BOOL : MF_ATTR_INT;
}

static mf_status build_parse_one(mf_graph *g, const mf_opdef *def, const char **p, build_given *out)
{
    const size_t n = strcspn(*p, "= ");
    const char *name = mf_arena_strndup(g->arena, *p, n);
    const mf_attrdef *d;
    mf_attr value;

    if (!name)
        return MF_NOMEM("an attribute");
    *p += n;
    if (**p != '=')
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: expected name=value at \"%.40s\"", def->name,
                       name);
    ++*p;
    if (strcmp(name, "name") == 0 || strcmp(name, "device") == 0) {
        MF_TRY(mf_attr_parse(p, MF_ATTR_STRING, false, g->arena, &value));
        if (name[0] == 'd')
            out->spec.device = value.s.data;
        else
            out->spec.name = mf_graph_unique_name(g, value.s.data);
        return MF_OK;
    }
    d = mf_opdef_find_attr(def, name);
    if (!d && name[0] != '_')
        return MF_FAIL(MF_INVALID_ARGUMENT, "op %s has no attribute '%s'", def->name, name);
    if (out->spec.n_attrs == MAX_GIVEN)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: too many attributes", def->name);
    MF_TRY(mf_attr_parse(p, d ? d->kind : kind_of_extra(*p + (**p == '[')),
                         d ? d->is_list : **p == '[', g->arena, &value));
    out->attrs[out->spec.n_attrs++] = (mf_named_attr){ name, value };
    return MF_OK;
}

static mf_status parse_all(mf_graph *g, const char *op, const char *text, build_given *out)
{
    const mf_op *known = mf_op_find(op);
    const mf_function *f = mf_graph_function(g, op);
    const mf_opdef *def = f ? f->def : NULL;

    if (known)
        MF_TRY(mf_op_def(known, &def));
    if (!def)
        return MF_FAIL(MF_NOT_FOUND, "Op type not registered '%s'", op);
    for (;;) {
        text += strspn(text, " ,\t\n");
        if (!*text)
            return MF_OK;
        MF_TRY(build_parse_one(g, def, &text, out));
    }
}

static int count_inputs(const mf_output *inputs)
{
    int n = 0;

    while (inputs && inputs[n].port >= 0)
        n++;
    return n;
}

static mf_output build_apply(mf_graph *g, const char *op, const mf_output *inputs, const char *text)
{
    build_given what = { .spec = { .op = op, .inputs = inputs, .n_inputs = count_inputs(inputs) } };
    mf_node *node = NULL;
    char who[80];
    mf_status st;

    (void)snprintf(who, sizeof who, "op %s", op);
    st = mf_graph_owns_all(g, inputs, what.spec.n_inputs, who);
    what.spec.attrs = what.attrs;
    if (st == MF_OK)
        st = parse_all(g, op, text, &what);
    if (st == MF_OK)
        st = mf_graph_add(g, &what.spec, &node);
    if (st != MF_OK)
        mf_graph_fail(g, st);
    return (mf_output){ node, 0 };
}

mf_output mf_apply(mf_graph *graph, const char *op, const mf_output *inputs)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_graph_refuses(graph, MF_NEEDED(graph, op)))
        return (mf_output){ 0 };

    return build_apply(graph, op, inputs, "");
}

mf_output mf_applyf(mf_graph *graph, const char *op, const mf_output *inputs,
                    const char *attributes, ...)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_graph_refuses(graph, MF_NEEDED(graph, op)))
        return (mf_output){ 0 };
    if (!attributes)
        return build_apply(graph, op, inputs, "");

    char text[512], *longer;
    va_list args;
    int len;

    va_start(args, attributes);
    len = vsnprintf(text, sizeof text, attributes, args);
    va_end(args);
    if (len < (int)sizeof text)
        return build_apply(graph, op, inputs, text);
    longer = mf_arena_alloc(graph->arena, len + 1, 1);
    if (!longer) {
        mf_graph_fail(graph, MF_NOMEM("a node"));
        return (mf_output){ 0 };
    }
    va_start(args, attributes);
    (void)vsnprintf(longer, (size_t)len + 1, attributes, args);
    va_end(args);
    return build_apply(graph, op, inputs, longer);
}

mf_output mf_constant(mf_graph *graph, const mf_tensor *value, const char *name)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_graph_refuses(graph, MF_NEEDED(graph, value)))
        return (mf_output){ 0 };

    mf_named_attr attrs[] = {
        { "value", { .kind = MF_ATTR_TENSOR, .n = 1 } },
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = value->dtype } },
    };
    mf_node_spec spec = { .op = "Const", .attrs = attrs, .n_attrs = MF_COUNT(attrs) };
    mf_node *node = NULL;
    mf_status st = MF_OK;

    attrs[0].value.tensor = mf_graph_own_tensor(graph, value);
    if (name)
        spec.name = mf_graph_unique_name(graph, name);
    if (!attrs[0].value.tensor || (name && !spec.name))
        st = MF_NOMEM("a constant");
    if (st == MF_OK)
        st = mf_graph_add(graph, &spec, &node);
    if (st != MF_OK)
        mf_graph_fail(graph, st);
    return (mf_output){ node, 0 };
}

static mf_output build_constant_of(mf_graph *graph, mf_status st, mf_tensor *t)
{
    mf_output out = { 0 };

    if (st != MF_OK)
        mf_graph_fail(graph, st);
    else
        out = mf_constant(graph, t, NULL);
    mf_tensor_clear(t);
    return out;
}

/* low <= value < high for integer types; other types take any number. */
static bool build_fits(mf_dtype dtype, double value)
{
    static const struct {
        mf_dtype types[2];
        double low, high;
    } ranges[] = {
        { { MF_DTYPE_I8, MF_DTYPE_QI8 }, -0x1p7, 0x1p7 },
        { { MF_DTYPE_U8, MF_DTYPE_QU8 }, 0, 0x1p8 },
        { { MF_DTYPE_I16, MF_DTYPE_QI16 }, -0x1p15, 0x1p15 },
        { { MF_DTYPE_U16, MF_DTYPE_QU16 }, 0, 0x1p16 },
        { { MF_DTYPE_I32, MF_DTYPE_QI32 }, -0x1p31, 0x1p31 },
        { { MF_DTYPE_U32, MF_DTYPE_U32 }, 0, 0x1p32 },
        { { MF_DTYPE_I64, MF_DTYPE_I64 }, -0x1p63, 0x1p63 },
        { { MF_DTYPE_U64, MF_DTYPE_U64 }, 0, 0x1p64 },
    };

    for (int i = 0; i < MF_COUNT(ranges); i++) {
        if (ranges[i].types[0] == dtype || ranges[i].types[1] == dtype)
            return value >= ranges[i].low && value < ranges[i].high;
    }
    return true;
}

static mf_status check_scalar(mf_dtype dtype, double value)
{
    if (!mf_dtype_is_valid((int)dtype) || !mf_dtype_is_plain(dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "invalid type %s for a number", mf_dtype_name(dtype));
    if (!build_fits(dtype, value))
        return MF_FAIL(MF_INVALID_ARGUMENT, "mf_scalar(): %.17g does not fit into %s", value,
                       mf_dtype_name(dtype));
    return MF_OK;
}

mf_output mf_scalar(mf_graph *graph, mf_dtype dtype, double value)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_graph_refuses(graph, MF_NEEDED(graph)))
        return (mf_output){ 0 };

    mf_tensor t = { 0 };
    mf_status st = check_scalar(dtype, value);

    if (st == MF_OK)
        st = mf_tensor_alloc(&t, dtype, &MF_SCALAR);
    if (st == MF_OK)
        mf_tensor_put(&t, 0, value);
    return build_constant_of(graph, st, &t);
}

mf_output mf_ints(mf_graph *graph, const int64_t *values, int64_t n)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_graph_refuses(graph, MF_NEEDED(graph)) ||
        mf_graph_refuses(graph, mf_host_need_array(__func__, "values", values, n)))
        return (mf_output){ 0 };

    mf_tensor t = { 0 };
    mf_status st = mf_tensor_alloc(&t, MF_DTYPE_I32, &MF_SHAPE(n));

    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "mf_ints(): element %lld, %lld, does not fit into int32", (long long)i,
                         (long long)values[i]);
        else
            ((int32_t *)t.data)[i] = (int32_t)values[i];
    }
    return build_constant_of(graph, st, &t);
}

void mf_control(mf_graph *graph, mf_node *node, mf_node *after)
{
    MF_ENTRY_OR();
    if (mf_graph_refuses(graph, MF_NEEDED(graph)) || !node || !after)
        return; /* a previous failure returned no node */
    if (!mf_graph_has(graph, node) || !mf_graph_has(graph, after)) {
        mf_graph_fail(graph, MF_FAIL(MF_INVALID_ARGUMENT,
                                     "mf_control(): '%s' or '%s' belongs to another graph",
                                     node->name, after->name));
        return;
    }
    if (!node->grown || node->controls != node->grown || node->n_controls == node->cap_grown) {
        const int cap = 2 * node->n_controls + 1;

        node->grown = MF_ARENA_ARRAY(graph->arena, mf_node *, cap);
        if (!node->grown) {
            mf_graph_fail(graph, MF_NOMEM("a control edge"));
            return;
        }
        for (int i = 0; i < node->n_controls; i++)
            node->grown[i] = node->controls[i];
        node->controls = node->grown;
        node->cap_grown = cap;
    }
    node->controls[node->n_controls++] = after;
}

void mf_define(mf_graph *graph, const char *name, const mf_output *inputs, const mf_output *outputs)
{
    MF_ENTRY_OR();
    if (mf_graph_refuses(graph, MF_NEEDED(graph, name)))
        return;

    const mf_function_cut cut = { .from = graph,
                                  .in = inputs,
                                  .n_in = count_inputs(inputs),
                                  .out = outputs,
                                  .n_out = count_inputs(outputs) };
    char who[80];

    (void)snprintf(who, sizeof who, "function %s", name);
    if (!mf_graph_refuses(graph, mf_graph_owns_all(graph, inputs, cut.n_in, who)) &&
        !mf_graph_refuses(graph, mf_graph_owns_all(graph, outputs, cut.n_out, who)))
        (void)mf_graph_refuses(graph, mf_function_define(name, &cut));
}

void mf_graph_scope(mf_graph *graph, const char *scope)
{
    MF_ENTRY_OR();
    if (mf_graph_refuses(graph, MF_NEEDED(graph, scope)))
        return;

    const char *text = scope[0] ? mf_arena_printf(graph->arena, "%s/", scope) : "";

    if (text)
        graph->scope = text;
    else
        mf_graph_fail(graph, MF_NOMEM("a scope"));
}
