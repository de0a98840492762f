/* SPDX-License-Identifier: Apache-2.0 */
/* opdef.c - parses and prints op signatures; opdef.h has the syntax. */
#include "graph/opdef.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Abbreviations for TensorFlow's sets of types. */
#define QUANTIZED                                                                                  \
    (MF_T(MF_DTYPE_QI8) | MF_T(MF_DTYPE_QU8) | MF_T(MF_DTYPE_QI32) | MF_T(MF_DTYPE_QI16) |         \
     MF_T(MF_DTYPE_QU16))
static const struct {
    const char *name;
    uint32_t types;
} type_sets[] = {
    { "floats", MF_T_FLOATS },
    { "reals", MF_T_FLOATS | MF_T_INTS },
    { "numbers", MF_T_FLOATS | MF_T_INTS | MF_T_COMPLEX | QUANTIZED },
    { "ints", MF_T_INTS },
    { "index", MF_T(MF_DTYPE_I32) | MF_T(MF_DTYPE_I64) },
};

typedef struct parser {
    const char *op, *text, *p;
    mf_arena *arena;
} parser;

static mf_status opdef_fail(const parser *ps, const char *what)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "definition of %s: %s at \"%.30s\"", ps->op, what, ps->p);
}

static void space(parser *ps)
{
    while (isspace((unsigned char)*ps->p))
        ps->p++;
}

static bool opdef_eat(parser *ps, const char *token)
{
    const size_t n = strlen(token);

    space(ps);
    if (strncmp(ps->p, token, n) != 0)
        return false;
    ps->p += n;
    return true;
}

static size_t name_len(const char *p)
{
    size_t n = 0;

    while (isalnum((unsigned char)p[n]) || p[n] == '_')
        n++;
    return n;
}

static mf_status name(parser *ps, const char **out)
{
    size_t n;

    space(ps);
    n = name_len(ps->p);
    if (n == 0)
        return opdef_fail(ps, "expected a name");
    *out = mf_arena_strndup(ps->arena, ps->p, n);
    ps->p += n;
    return *out ? MF_OK : MF_NOMEM("an op definition");
}

/* Type expression of an argument: "ref T", "N*T", "*Tl", "T", "float". */
static mf_status arg_type(parser *ps, mf_argdef *arg)
{
    const char *word;

    if (opdef_eat(ps, "ref "))
        arg->is_ref = true;
    if (opdef_eat(ps, "*"))
        return name(ps, &arg->list_attr);
    MF_TRY(name(ps, &word));
    if (opdef_eat(ps, "*")) {
        arg->number_attr = word;
        MF_TRY(name(ps, &word));
    }
    arg->type = mf_dtype_find(word, strlen(word));
    if (arg->type == MF_DTYPE_INVALID)
        arg->type_attr = word;
    return MF_OK;
}

static mf_status args(parser *ps, mf_argdef **out, int *n)
{
    mf_argdef list[32] = { 0 };
    int count = 0;

    if (!opdef_eat(ps, "("))
        return opdef_fail(ps, "expected '('");
    while (!opdef_eat(ps, ")")) {
        if (count == MF_COUNT(list))
            return opdef_fail(ps, "too many arguments");
        if (count > 0 && !opdef_eat(ps, ","))
            return opdef_fail(ps, "expected ',' or ')'");
        MF_TRY(name(ps, &list[count].name));
        if (!opdef_eat(ps, ":"))
            return opdef_fail(ps, "expected ':'");
        MF_TRY(arg_type(ps, &list[count++]));
    }
    *out = MF_ARENA_ARRAY(ps->arena, mf_argdef, count);
    if (!*out)
        return MF_NOMEM("an op definition");
    memcpy(*out, list, (size_t)count * sizeof list[0]);
    *n = count;
    return MF_OK;
}

static mf_status allowed(parser *ps, mf_attrdef *a)
{
    mf_attr list;

    if (a->allowed_types != 0 || a->n_allowed_strings > 0)
        return opdef_fail(ps, "restricted twice");
    for (int i = 0; i < MF_COUNT(type_sets); i++) {
        space(ps);
        if (name_len(ps->p) == strlen(type_sets[i].name) && opdef_eat(ps, type_sets[i].name)) {
            a->allowed_types = type_sets[i].types;
            return MF_OK;
        }
    }
    MF_TRY(mf_attr_parse(&ps->p, a->kind, true, ps->arena, &list));
    if (a->kind == MF_ATTR_TYPE) {
        for (int64_t i = 0; i < list.n; i++)
            a->allowed_types |= MF_T((unsigned)list.ints[i]);
        return MF_OK;
    }
    if (a->kind != MF_ATTR_STRING)
        return opdef_fail(ps, "only types and strings can be restricted");
    a->allowed_strings = MF_ARENA_ARRAY(ps->arena, const char *, list.n);
    if (!a->allowed_strings)
        return MF_NOMEM("an op definition");
    for (int64_t i = 0; i < list.n; i++)
        a->allowed_strings[a->n_allowed_strings++] = list.strings[i].data;
    return MF_OK;
}

static mf_status attr(parser *ps, mf_attrdef *a)
{
    size_t n;

    MF_TRY(name(ps, &a->name));
    if (!opdef_eat(ps, ":"))
        return opdef_fail(ps, "expected ':'");
    space(ps);
    n = strncmp(ps->p, "list(", 5) == 0 ? strcspn(ps->p, ")") + 1 : name_len(ps->p);
    if (!mf_attr_kind_find(ps->p, n, &a->kind, &a->is_list))
        return opdef_fail(ps, "unknown attribute type");
    ps->p += n;
    for (;;) {
        if (opdef_eat(ps, ">=")) {
            a->has_minimum = true;
            a->minimum = strtoll(ps->p, (char **)(uintptr_t)&ps->p, 10);
        } else if (opdef_eat(ps, "=")) {
            a->has_default = true;
            MF_TRY(mf_attr_parse(&ps->p, a->kind, a->is_list, ps->arena, &a->default_value));
        } else if (opdef_eat(ps, "in ")) {
            MF_TRY(allowed(ps, a));
        } else {
            return MF_OK;
        }
    }
}

static mf_status attrs(parser *ps, mf_opdef *def)
{
    mf_attrdef list[48] = { 0 };

    if (!opdef_eat(ps, "{"))
        return MF_OK;
    while (!opdef_eat(ps, "}")) {
        if (def->n_attrs == MF_COUNT(list))
            return opdef_fail(ps, "too many attributes");
        if (def->n_attrs > 0 && !opdef_eat(ps, ","))
            return opdef_fail(ps, "expected ',' or '}'");
        MF_TRY(attr(ps, &list[def->n_attrs++]));
    }
    def->attrs = MF_ARENA_ARRAY(ps->arena, mf_attrdef, def->n_attrs);
    if (!def->attrs)
        return MF_NOMEM("an op definition");
    memcpy(def->attrs, list, (size_t)def->n_attrs * sizeof list[0]);
    return MF_OK;
}

mf_status mf_opdef_parse(const char *op, const char *text, mf_arena *arena, mf_opdef *out)
{
    parser ps = { .op = op, .text = text, .p = text, .arena = arena };
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {
        { "is_stateful", &out->is_stateful },
        { "is_commutative", &out->is_commutative },
        { "is_aggregate", &out->is_aggregate },
        { "allows_uninitialized_input", &out->allows_uninitialized },
        { "is_distributed_communication", &out->is_distributed },
    };
    bool progress = true;

    *out = (mf_opdef){ .name = op };
    MF_TRY(args(&ps, &out->in, &out->n_in));
    if (!opdef_eat(&ps, "->"))
        return opdef_fail(&ps, "expected '->'");
    MF_TRY(args(&ps, &out->out, &out->n_out));
    MF_TRY(attrs(&ps, out));
    while (progress) {
        progress = false;
        for (int i = 0; i < MF_COUNT(flags); i++) {
            if (opdef_eat(&ps, flags[i].word)) {
                *flags[i].flag = true;
                progress = true;
            }
        }
    }
    space(&ps);
    return *ps.p ? opdef_fail(&ps, "unexpected text") : MF_OK;
}

/* ---- writing ---- */

static void print_args(const mf_argdef *a, int n, mf_buf *out)
{
    mf_buf_str(out, "(");
    for (int i = 0; i < n; i++) {
        mf_buf_printf(out, "%s%s:%s", i ? ", " : "", a[i].name, a[i].is_ref ? "ref " : "");
        if (a[i].number_attr)
            mf_buf_printf(out, "%s*", a[i].number_attr);
        if (a[i].list_attr)
            mf_buf_printf(out, "*%s", a[i].list_attr);
        else
            mf_buf_str(out, a[i].type_attr ? a[i].type_attr : mf_dtype_name(a[i].type));
    }
    mf_buf_str(out, ")");
}

static void print_attr(const mf_attrdef *a, mf_buf *out)
{
    const char *sep = "";

    mf_buf_printf(out, a->is_list ? "%s:list(%s)" : "%s:%s", a->name, mf_attr_kind_name(a->kind));
    if (a->has_minimum)
        mf_buf_printf(out, ">=%" PRId64, a->minimum);
    if (a->has_default) {
        mf_buf_str(out, "=");
        mf_attr_print(&a->default_value, out);
    }
    if (a->allowed_types == 0 && a->n_allowed_strings == 0)
        return;
    mf_buf_str(out, " in [");
    for (int t = 1; t < MF_DTYPE_COUNT; t++) {
        if (a->allowed_types >> t & 1) {
            mf_buf_printf(out, "%s%s", sep, mf_dtype_name((mf_dtype)t));
            sep = ",";
        }
    }
    for (int i = 0; i < a->n_allowed_strings; i++) {
        const char *s = a->allowed_strings[i];
        const mf_attr text = { .kind = MF_ATTR_STRING, .n = 1, .s = { s, strlen(s) } };

        mf_buf_str(out, sep);
        mf_attr_print(&text, out);
        sep = ",";
    }
    mf_buf_str(out, "]");
}

void mf_opdef_print(const mf_opdef *def, mf_buf *out)
{
    print_args(def->in, def->n_in, out);
    mf_buf_str(out, " -> ");
    print_args(def->out, def->n_out, out);
    mf_buf_str(out, " {");
    for (int i = 0; i < def->n_attrs; i++) {
        mf_buf_str(out, i ? ", " : "");
        print_attr(&def->attrs[i], out);
    }
    mf_buf_str(out, "}");
    if (def->is_commutative)
        mf_buf_str(out, " is_commutative");
    if (def->is_aggregate)
        mf_buf_str(out, " is_aggregate");
    if (def->is_stateful)
        mf_buf_str(out, " is_stateful");
    if (def->allows_uninitialized)
        mf_buf_str(out, " allows_uninitialized_input");
    if (def->is_distributed)
        mf_buf_str(out, " is_distributed_communication");
}

const mf_attrdef *mf_opdef_find_attr(const mf_opdef *def, const char *attr_name)
{
    for (int i = 0; i < def->n_attrs; i++) {
        if (strcmp(def->attrs[i].name, attr_name) == 0)
            return &def->attrs[i];
    }
    return NULL;
}
