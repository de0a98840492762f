/* SPDX-License-Identifier: Apache-2.0 */
/* schema_file.c - encodes and decodes the schema of a model's data as JSON. */
#include "cli/schema_file.h"

#include <string.h>

enum { VERSION = 1 };

/* ---- writing ---- */

static void print_names(const char *key, const char *const *names, int64_t n, mf_buf *out)
{
    mf_buf_printf(out, ", \"%s\": [", key);
    for (int64_t i = 0; i < n; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        mf_buf_json(out, names[i], strlen(names[i]));
    }
    mf_buf_str(out, "]");
}

static void schema_file_print_column(const mf_schema_column *c, mf_buf *out)
{
    mf_buf_str(out, "{\"name\": ");
    mf_buf_json(out, c->is.name, strlen(c->is.name));
    mf_buf_printf(out, ", \"role\": \"%s\", \"type\": \"%s\", \"shape\": [",
                  c->is_label ? "label" : "input", mf_dtype_name(c->is.dtype));
    for (int i = 0; i < c->is.rank; i++)
        mf_buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)c->is.dims[i]);
    mf_buf_str(out, "]");
    if (c->fields)
        print_names("fields", c->fields, c->n_fields, out);
    if (c->is_label)
        mf_buf_printf(out, ", \"kind\": \"%s\"", c->classes > 0 ? "class" : "number");
    if (c->classes > 0 && c->class_names)
        print_names("classes", c->class_names, c->classes, out);
    else if (c->classes > 0)
        mf_buf_printf(out, ", \"classes\": %lld", (long long)c->classes);
    mf_buf_str(out, "}");
}

void mf_schema_print(const mf_schema *schema, mf_buf *out)
{
    mf_buf_printf(out, "{\"version\": %d, \"columns\": [", VERSION);
    for (int i = 0; i < schema->n; i++) {
        mf_buf_str(out, i > 0 ? ",\n  " : "\n  ");
        schema_file_print_column(&schema->columns[i], out);
    }
    mf_buf_str(out, "\n]}\n");
}

/* ---- reading ---- */

static mf_status schema_file_decode_names(const json_t *list, mf_arena *arena,
                                          const char *const **out, int64_t *n)
{
    const char **names;

    *n = (int64_t)json_array_size(list);
    names = MF_ARENA_ARRAY(arena, const char *, *n);
    if (!names)
        return MF_NOMEM("a schema");
    for (int64_t i = 0; i < *n; i++) {
        const char *name = json_string_value(json_array_get(list, (size_t)i));

        names[i] = name ? mf_arena_strdup(arena, name) : NULL;
        if (!names[i])
            return name ? MF_NOMEM("a schema") : MF_FAIL(MF_DATA_LOSS, "a name is not a string");
    }
    *out = names;
    return MF_OK;
}

static mf_status schema_file_decode_shape(const json_t *list, mf_column *out)
{
    const size_t n = json_array_size(list);

    if (!json_is_array(list) || n >= MF_MAX_RANK)
        return MF_FAIL(MF_DATA_LOSS, "\"shape\" is not a list of at most %d dimensions",
                       MF_MAX_RANK - 1);
    out->rank = (int)n;
    for (size_t i = 0; i < n; i++) {
        out->dims[i] = json_integer_value(json_array_get(list, i));
        if (out->dims[i] < 1)
            return MF_FAIL(MF_DATA_LOSS, "dimension %zu of \"shape\" is not a number above 0", i);
    }
    return MF_OK;
}

static mf_status decode_label(const json_t *json, mf_arena *arena, mf_schema_column *out)
{
    const json_t *classes = json_object_get(json, "classes");

    if (json_is_array(classes))
        return schema_file_decode_names(classes, arena, &out->class_names, &out->classes);
    out->classes = json_integer_value(classes);
    return out->classes >= 0 ? MF_OK : MF_FAIL(MF_DATA_LOSS, "\"classes\" is below 0");
}

static mf_status schema_file_decode_column(const json_t *json, mf_arena *arena,
                                           mf_schema_column *out)
{
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *type = json_string_value(json_object_get(json, "type"));
    const char *role = json_string_value(json_object_get(json, "role"));
    const json_t *fields = json_object_get(json, "fields");

    if (!name || !type || !role)
        return MF_FAIL(MF_DATA_LOSS, "a column has no \"name\", \"type\" or \"role\"");
    out->is = (mf_column){ .name = mf_arena_strdup(arena, name),
                           .dtype = mf_dtype_find(type, strlen(type)) };
    if (!out->is.name)
        return MF_NOMEM("a schema");
    if (out->is.dtype == MF_DTYPE_INVALID || !mf_dtype_is_plain(out->is.dtype))
        return MF_FAIL(MF_DATA_LOSS, "column '%.100s' has the type '%.40s'", name, type);
    out->is_label = strcmp(role, "label") == 0;
    MF_TRY(schema_file_decode_shape(json_object_get(json, "shape"), &out->is));
    if (json_is_array(fields))
        MF_TRY(schema_file_decode_names(fields, arena, &out->fields, &out->n_fields));
    if (out->fields && (out->is.rank != 1 || out->n_fields != out->is.dims[0]))
        return MF_FAIL(MF_DATA_LOSS, "column '%.100s' has %lld names of fields", name,
                       (long long)out->n_fields);
    return out->is_label ? decode_label(json, arena, out) : MF_OK;
}

mf_status mf_schema_decode(const json_t *root, mf_arena *arena, mf_schema *out)
{
    const json_t *columns = json_object_get(root, "columns");
    const json_int_t version = json_integer_value(json_object_get(root, "version"));
    const size_t n = json_array_size(columns);

    *out = (mf_schema){ 0 };
    if (version != VERSION)
        return MF_FAIL(MF_DATA_LOSS, "the version is %lld; this program reads version %d",
                       (long long)version, VERSION);
    if (n < 1 || n > MF_DATASET_COLUMNS)
        return MF_FAIL(MF_DATA_LOSS, "\"columns\" is not a list of 1 to %d", MF_DATASET_COLUMNS);
    out->columns = MF_ARENA_ARRAY(arena, mf_schema_column, (int64_t)n);
    if (!out->columns)
        return MF_NOMEM("a schema");
    for (size_t i = 0; i < n; i++)
        MF_TRY(
            schema_file_decode_column(json_array_get(columns, i), arena, &out->columns[out->n++]));
    return MF_OK;
}
