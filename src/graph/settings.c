/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - parses settings such as "units=128 activation=relu" against a signature. */
#include "graph/settings.h"

#include "base/buf.h"
#include "base/did_you_mean.h"

#include <math.h>
#include <string.h>

static mf_status unknown_setting(const char *subject, const mf_opdef *def, const char *name)
{
    mf_buf known = { 0 };
    mf_status st;

    for (int i = 0; i < def->n_attrs; i++)
        mf_buf_printf(&known, "%s%s", i > 0 ? ", " : "; it has ", def->attrs[i].name);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "%s has no setting '%.60s'%.300s", subject, name,
                 known.data ? known.data : "");
    mf_buf_deinit(&known);
    return st;
}

static mf_status settings_unknown(const char *subject, const mf_opdef *def, const char *name)
{
    mf_did_you_mean c = mf_did_you_mean_to(name);

    for (int i = 0; i < def->n_attrs; i++)
        mf_did_you_mean_try(&c, def->attrs[i].name);
    if (c.best)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s has no setting '%.60s'; did you mean '%s'?",
                       subject, name, c.best);
    return unknown_setting(subject, def, name);
}

/* ---- one setting ---- */

static mf_status parse_word(const char **p, mf_arena *arena, mf_attr *out)
{
    const size_t n = strcspn(*p, " ,\t\n");

    *out = (mf_attr){ .kind = MF_ATTR_STRING, .n = 1 };
    out->s.data = mf_arena_strndup(arena, *p, n);
    out->s.len = n;
    *p += n;
    return out->s.data ? MF_OK : MF_NOMEM("settings");
}

/* A list of one element may be written without brackets. */
static mf_status parse_list(const mf_attrdef *d, const char **p, mf_arena *arena, mf_attr *out)
{
    const size_t n = strcspn(*p, " ,\t\n");
    const char *one;

    if (**p == '[')
        return mf_attr_parse(p, d->kind, true, arena, out);
    one = mf_arena_printf(arena, "[%.*s]", (int)n, *p);
    *p += n;
    return one ? mf_attr_parse(&one, d->kind, true, arena, out) : MF_NOMEM("settings");
}

/* NaN would pass a range check such as !(x < min). */
static mf_status settings_check_finite(const char *subject, const mf_attrdef *d, const mf_attr *v)
{
    for (int64_t i = 0; i < v->n && v->kind == MF_ATTR_FLOAT; i++) {
        const float f = d->is_list ? v->floats[i] : v->f;

        if (!isfinite(f))
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s=%g is out of range; it must be finite",
                           subject, d->name, (double)f);
    }
    return MF_OK;
}

static mf_status settings_check_range(const char *subject, const mf_attrdef *d, const mf_attr *v)
{
    MF_TRY(settings_check_finite(subject, d, v));
    if (d->has_minimum && (d->is_list ? v->n : v->i) < d->minimum)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s%s is %lld, at least %lld is needed", subject,
                       d->is_list ? "the length of " : "", d->name,
                       (long long)(d->is_list ? v->n : v->i), (long long)d->minimum);
    if (d->n_allowed_strings == 0 || d->is_list)
        return MF_OK;
    for (int i = 0; i < d->n_allowed_strings; i++) {
        if (strcmp(d->allowed_strings[i], v->s.data) == 0)
            return MF_OK;
    }
    mf_buf known = { 0 };
    mf_status st;

    for (int i = 0; i < d->n_allowed_strings; i++)
        mf_buf_printf(&known, "%s%s", i ? ", " : "", d->allowed_strings[i]);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s cannot be '%.60s'; it is one of %.300s", subject,
                 d->name, v->s.data, known.data ? known.data : "");
    mf_buf_deinit(&known);
    return st;
}

/* given: the settings that the text has had so far. */
static mf_status settings_parse_one(const mf_opdef *def, const char **p, mf_arena *arena,
                                    bool *given, mf_options *out)
{
    const size_t n = strcspn(*p, "= \t\n");
    const char *name = mf_arena_strndup(arena, *p, n);
    const mf_attrdef *d;
    const char *value;
    mf_status st;
    int i;

    if (!name)
        return MF_NOMEM("settings");
    if ((*p)[n] != '=')
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: expected name=value at \"%.40s\"", out->subject,
                       *p);
    d = mf_opdef_find_attr(def, name);
    if (!d)
        return settings_unknown(out->subject, def, name);
    i = (int)(d - def->attrs);
    if (given[i])
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s is given twice", out->subject, name);
    *p += n + 1;
    value = *p;
    if (d->kind == MF_ATTR_STRING && !d->is_list && **p != '\'')
        st = parse_word(p, arena, &out->attrs[i].value);
    else if (d->is_list)
        st = parse_list(d, p, arena, &out->attrs[i].value);
    else
        st = mf_attr_parse(p, d->kind, false, arena, &out->attrs[i].value);
    if (st == MF_RESOURCE_EXHAUSTED)
        return st;
    if (st != MF_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s=%.*s is not of type %s%s%s", out->subject, name,
                       (int)strcspn(value, " ,\t\n"), value, d->is_list ? "list(" : "",
                       mf_attr_kind_name(d->kind), d->is_list ? ")" : "");
    given[i] = out->given[i] = true;
    return settings_check_range(out->subject, d, &out->attrs[i].value);
}

static mf_status parse_signature(const char *subject, const char *signature, mf_arena *arena,
                                 mf_opdef *def)
{
    const char *whole = mf_arena_printf(arena, "() -> () %s", signature);

    return whole ? mf_opdef_parse(subject, whole, arena, def) : MF_NOMEM("settings");
}

static mf_status parse_text(const mf_opdef *def, const char *text, mf_arena *arena, mf_options *out)
{
    bool *given = MF_ARENA_ARRAY(arena, bool, def->n_attrs);

    if (!given)
        return MF_NOMEM("settings");
    for (text = text ? text : "";;) {
        text += strspn(text, " ,\t\n");
        if (!*text)
            return MF_OK;
        MF_TRY(settings_parse_one(def, &text, arena, given, out));
    }
}

static mf_status settings_fill_defaults(const char *subject, const mf_opdef *def, mf_arena *arena,
                                        mf_options *out)
{
    *out = (mf_options){ .subject = subject,
                         .attrs = MF_ARENA_ARRAY(arena, mf_named_attr, def->n_attrs),
                         .given = MF_ARENA_ARRAY(arena, bool, def->n_attrs),
                         .n = def->n_attrs };
    if (!out->attrs || !out->given)
        return MF_NOMEM("settings");
    for (int i = 0; i < def->n_attrs; i++)
        out->attrs[i] = (mf_named_attr){ def->attrs[i].name, def->attrs[i].default_value };
    return MF_OK;
}

mf_status mf_options_defaults(const char *subject, const char *signature, mf_arena *arena,
                              mf_options *out)
{
    mf_opdef def;

    MF_TRY(parse_signature(subject, signature, arena, &def));
    return settings_fill_defaults(subject, &def, arena, out);
}

mf_status mf_options_parse(const char *subject, const char *signature, const char *text,
                           mf_arena *arena, mf_options *out)
{
    mf_opdef def;

    *out = (mf_options){ .subject = subject };
    MF_TRY(parse_signature(subject, signature, arena, &def));
    MF_TRY(settings_fill_defaults(subject, &def, arena, out));
    MF_TRY(parse_text(&def, text, arena, out));
    for (int i = 0; i < def.n_attrs; i++) {
        if (!out->given[i] && !def.attrs[i].has_default)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s needs the setting %s=...", subject,
                           def.attrs[i].name);
    }
    return MF_OK;
}

mf_status mf_options_change(mf_options *o, const char *signature, const char *text, mf_arena *arena)
{
    mf_opdef def;

    MF_TRY(parse_signature(o->subject, signature, arena, &def));
    return parse_text(&def, text, arena, o);
}

/* ---- reading ---- */

static int settings_find(const mf_options *o, const char *name)
{
    int i = 0;

    while (i < o->n && strcmp(o->attrs[i].name, name) != 0)
        i++;
    MF_ASSERT(i < o->n); /* the signature must have it */
    return i;
}

const mf_attr *mf_options_get(const mf_options *o, const char *name)
{
    return &o->attrs[settings_find(o, name)].value;
}

bool mf_options_has(const mf_options *o, const char *name)
{
    for (int i = 0; i < o->n; i++) {
        if (strcmp(o->attrs[i].name, name) == 0)
            return true;
    }
    return false;
}

bool mf_options_given(const mf_options *o, const char *name)
{
    return o->given[settings_find(o, name)];
}

int64_t mf_options_int(const mf_options *o, const char *name)
{
    return mf_options_get(o, name)->i;
}

double mf_options_float(const mf_options *o, const char *name)
{
    return (double)mf_options_get(o, name)->f;
}

bool mf_options_bool(const mf_options *o, const char *name)
{
    return mf_options_get(o, name)->b;
}

const char *mf_options_string(const mf_options *o, const char *name)
{
    return mf_options_get(o, name)->s.data;
}

const int64_t *mf_options_ints(const mf_options *o, const char *name, int64_t *n)
{
    *n = mf_options_get(o, name)->n;
    return mf_options_get(o, name)->ints;
}

/* ---- printing ---- */

/* True if parse_word() can read it. */
static bool is_word(const mf_attr *v)
{
    return v->kind == MF_ATTR_STRING && !v->is_list && v->s.len > 0 &&
           strcspn(v->s.data, " ,\t\n'\\") == v->s.len;
}

static void setting_print(mf_buf *out, const char *name, const mf_attr *value)
{
    mf_buf_printf(out, "%s%s=", out->len > 0 ? " " : "", name);
    if (is_word(value))
        mf_buf_str(out, value->s.data);
    else
        mf_attr_print(value, out);
}

void mf_options_text(const mf_options *o, mf_buf *out)
{
    for (int i = 0; i < o->n; i++) {
        if (o->given[i])
            setting_print(out, o->attrs[i].name, &o->attrs[i].value);
    }
}

static void setting_put(const mf_setting_printer *p, const char *name, const mf_attr *value)
{
    if (!p->defaults || !mf_attr_equal(mf_options_get(p->defaults, name), value))
        setting_print(p->out, name, value);
}

void mf_setting_string(const mf_setting_printer *p, const char *name, const char *value)
{
    const mf_bytes s = { value, strlen(value) };

    setting_put(p, name, &(mf_attr){ .kind = MF_ATTR_STRING, .n = 1, .s = s });
}

void mf_setting_int(const mf_setting_printer *p, const char *name, int64_t value)
{
    setting_put(p, name, &(mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = value });
}

void mf_setting_float(const mf_setting_printer *p, const char *name, double value)
{
    setting_put(p, name, &(mf_attr){ .kind = MF_ATTR_FLOAT, .n = 1, .f = (float)value });
}

void mf_setting_bool(const mf_setting_printer *p, const char *name, bool value)
{
    setting_put(p, name, &(mf_attr){ .kind = MF_ATTR_BOOL, .n = 1, .b = value });
}

mf_status mf_options_head(const char *text, mf_arena *arena, const char **head, const char **rest)
{
    text += strspn(text, " \t\n");
    const size_t n = strcspn(text, " \t\n");

    *head = mf_arena_strndup(arena, text, n);
    *rest = text + n;
    return *head ? MF_OK : MF_NOMEM("settings");
}

/* ---- kinds ---- */

static const char *settings_name_of(const mf_kinds *kinds, int i)
{
    return *(const char *const *)((const char *)kinds->rows + (size_t)i * kinds->row);
}

static mf_status unknown_kind(const mf_kinds *kinds, const char *name)
{
    mf_did_you_mean c = mf_did_you_mean_to(name);
    mf_buf all = { 0 };
    mf_status st;

    for (int i = 0; settings_name_of(kinds, i); i++) {
        mf_did_you_mean_try(&c, settings_name_of(kinds, i));
        mf_buf_printf(&all, "%s%s", i > 0 ? ", " : "", settings_name_of(kinds, i));
    }
    st = mf_buf_finish(&all);
    if (st == MF_OK && c.best)
        st = MF_FAIL(MF_NOT_FOUND, "there is no %s '%.60s'; did you mean '%s'?", kinds->what, name,
                     c.best);
    else if (st == MF_OK)
        st = MF_FAIL(MF_NOT_FOUND, "there is no %s '%.60s'; expected one of %s", kinds->what, name,
                     all.data ? all.data : "none");
    mf_buf_deinit(&all);
    return st;
}

mf_status mf_kinds_find(const mf_kinds *kinds, const char *text, mf_arena *arena, const void **row,
                        const char **rest)
{
    const char *head;

    *row = NULL;
    MF_TRY(mf_options_head(text, arena, &head, rest));
    for (int i = 0; settings_name_of(kinds, i); i++) {
        if (strcmp(settings_name_of(kinds, i), head) == 0) {
            *row = (const char *)kinds->rows + (size_t)i * kinds->row;
            return MF_OK;
        }
    }
    return unknown_kind(kinds, head);
}
