/* SPDX-License-Identifier: Apache-2.0 */
/* rest_request.c - parses TensorFlow Serving's REST predict requests, and encodes the replies. */
#include "serving/rest_request.h"

#include "base/mem.h"
#include "serving/json_value.h"

#include <stdio.h>
#include <string.h>

/* Limit for the tensors of one request. Long bodies are refused before, but an image may be a
 * thousand times as large as its file. */
enum { MOST_BYTES = 1 << 28 };

static const char *const forms[] = { "instances", "inputs", "examples" };
enum { INSTANCES, INPUTS, EXAMPLES };

typedef struct rest_request_reader {
    const mf_serve_signature *s;
    mf_serve_request *r;
    const json_t *body; /* the value of "instances", "inputs" or "examples" */
    const json_t *context; /* of examples: features that all of them have; NULL: none */
    const char *form;
    bool named; /* rows are maps from input names to values */
} rest_request_reader;

/* ---- names ---- */

static mf_status list_inputs(const mf_serve_signature *s, const char *path, const char *what)
{
    mf_buf names = { 0 };
    mf_status st;

    for (int i = 0; i < s->n_inputs; i++)
        mf_buf_printf(&names, "%s\"%s\"", i > 0 ? ", " : "", s->inputs[i].name);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s; the model's inputs are %s", path, what,
                 names.data ? names.data : "");
    mf_buf_deinit(&names);
    return st;
}

static bool has_input(const mf_serve_signature *s, const char *name)
{
    for (int i = 0; i < s->n_inputs; i++) {
        if (strcmp(s->inputs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Checks that each name is an input; a missing input is found when it is read. */
static mf_status rest_request_check_names(const rest_request_reader *d, const json_t *row,
                                          const char *path)
{
    const char *key;
    const json_t *v;
    char what[128];

    json_object_foreach((json_t *)(uintptr_t)row, key, v)
    {
        if (has_input(d->s, key))
            continue;
        (void)snprintf(what, sizeof what, "there is no input \"%.80s\"", key);
        return list_inputs(d->s, path, what);
    }
    return MF_OK;
}

static mf_status find_value(const rest_request_reader *d, const json_t *from, int input,
                            const char *path, const json_t **out)
{
    const char *name = d->s->inputs[input].name;
    char what[128];

    *out = json_object_get(from, name);
    if (!*out && d->context)
        *out = json_object_get(d->context, name);
    if (*out)
        return MF_OK;
    (void)snprintf(what, sizeof what, "\"%.80s\" is missing", name);
    return list_inputs(d->s, path, what);
}

/* ---- rows ---- */

static mf_status decode_row(const rest_request_reader *d, int input, const json_t *v, int64_t row,
                            bool keep, const char *path)
{
    const mf_serve_input *in = &d->s->inputs[input];
    mf_serve_place p = { .input = in,
                         .to = keep ? &d->r->inputs[input] : NULL,
                         .at = row * in->count,
                         .flat_too = d->r->verb != MF_SERVE_PREDICT };

    (void)snprintf(p.path, sizeof p.path, "%s", path);
    return mf_serve_value_decode(v, &p);
}

/* Row i of "instances" or "examples". */
static mf_status decode_instance(const rest_request_reader *d, int64_t i, bool keep)
{
    const json_t *row = json_array_get(d->body, (size_t)i), *v = row;
    char path[64], place[160];

    (void)snprintf(path, sizeof path, "%s[%lld]", d->form, (long long)i);
    if (!d->named)
        return decode_row(d, 0, row, i, keep, path);
    if (!json_is_object(row) || mf_serve_value_is_bytes(row))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: expected a map of inputs, found %s", path,
                       mf_serve_value_kind(row));
    MF_TRY(rest_request_check_names(d, row, path));
    for (int k = 0; k < d->s->n_inputs; k++) {
        MF_TRY(find_value(d, row, k, path, &v));
        (void)snprintf(place, sizeof place, "%s.%.80s", path, d->s->inputs[k].name);
        MF_TRY(decode_row(d, k, v, i, keep, place));
    }
    return MF_OK;
}

/* All rows of one input, of "inputs". */
static mf_status rest_request_decode_column(const rest_request_reader *d, int input, bool keep)
{
    const char *name = d->s->inputs[input].name;
    const json_t *v = d->body;
    char path[100] = "inputs";

    if (d->named) {
        MF_TRY(find_value(d, d->body, input, path, &v));
        (void)snprintf(path, sizeof path, "inputs.%.80s", name);
    }
    if (!json_is_array(v))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: expected a list of rows, found %s", path,
                       mf_serve_value_kind(v));
    if (input == 0)
        d->r->rows = (int64_t)json_array_size(v);
    if ((int64_t)json_array_size(v) != d->r->rows)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s has %zu rows, and %s has %lld", path,
                       json_array_size(v), d->s->inputs[0].name, (long long)d->r->rows);
    for (int64_t i = 0; i < d->r->rows; i++) {
        char at[160];

        (void)snprintf(at, sizeof at, "%s[%lld]", path, (long long)i);
        MF_TRY(decode_row(d, input, json_array_get(v, (size_t)i), i, keep, at));
    }
    return MF_OK;
}

/* Called twice: first to check, so that a refused request allocates nothing, then to store. */
static mf_status decode_all(const rest_request_reader *d, bool keep)
{
    for (int k = 0; d->r->by_column && k < d->s->n_inputs; k++)
        MF_TRY(rest_request_decode_column(d, k, keep));
    for (int64_t i = 0; !d->r->by_column && i < d->r->rows; i++)
        MF_TRY(decode_instance(d, i, keep));
    return d->r->rows > 0 ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "\"%s\" has no rows", d->form);
}

static mf_status alloc_inputs(const rest_request_reader *d)
{
    int64_t bytes = 0;

    for (int k = 0; k < d->s->n_inputs; k++) {
        const mf_serve_input *in = &d->s->inputs[k];
        mf_shape shape = { .rank = in->shape.rank + 1, .dims = { d->r->rows } };
        const size_t size =
            in->dtype == MF_DTYPE_STRING ? sizeof(mf_string) : mf_dtype_size(in->dtype);

        if (d->r->rows > MOST_BYTES / (in->count * (int64_t)size))
            bytes = MOST_BYTES;
        else
            bytes += d->r->rows * in->count * (int64_t)size;
        if (bytes >= MOST_BYTES)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%lld rows do not fit %d MiB; send fewer in one request",
                           (long long)d->r->rows, MOST_BYTES >> 20);
        memcpy(shape.dims + 1, in->shape.dims, (size_t)in->shape.rank * sizeof *shape.dims);
        MF_TRY(mf_tensor_alloc(&d->r->inputs[k], in->dtype, &shape));
    }
    return MF_OK;
}

/* ---- the body ---- */

/* Which of the three keys the body has, for this verb. */
static mf_status find_form(const rest_request_reader *d, const json_t *root, int *form)
{
    const bool examples = d->r->verb != MF_SERVE_PREDICT;
    int found = -1;

    for (int i = examples ? EXAMPLES : INSTANCES; i <= (examples ? EXAMPLES : INPUTS); i++) {
        if (!json_object_get(root, forms[i]))
            continue;
        if (found >= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "give rows (\"instances\") or columns (\"inputs\"), not both");
        found = i;
    }
    *form = found;
    if (found < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s",
                       examples ? "\"examples\" is missing: {\"examples\": [{NAME: VALUE}]}"
                                : "\"instances\" or \"inputs\" is missing: {\"instances\": [ROW]}");
    return MF_OK;
}

static mf_status check_signature(const json_t *root)
{
    const json_t *name = json_object_get(root, "signature_name");

    if (!name)
        return MF_OK;
    if (!json_is_string(name))
        return MF_FAIL(MF_INVALID_ARGUMENT, "\"signature_name\" is %s, not a string",
                       mf_serve_value_kind(name));
    if (json_string_value(name)[0] && strcmp(json_string_value(name), "serving_default") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "there is no signature \"%.80s\"; the model has \"serving_default\"",
                       json_string_value(name));
    return MF_OK;
}

static mf_status check_verb(const mf_serve_signature *s, mf_serve_verb verb)
{
    if (verb == MF_SERVE_CLASSIFY && !s->classes)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the output is not scores of classes: use :predict");
    if (verb == MF_SERVE_REGRESS && (s->classes || s->output.count != 1))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the output is not one number for each row: use :predict");
    return MF_OK;
}

/* True if rows, or columns, are maps by name. The value of a single input may be given without a
 * name. */
static bool is_named(const rest_request_reader *d)
{
    const json_t *first = d->r->by_column ? d->body : json_array_get(d->body, 0);

    return d->s->n_inputs > 1 || d->r->verb != MF_SERVE_PREDICT ||
           (json_is_object(first) && !mf_serve_value_is_bytes(first));
}

static mf_status rest_request_decode_root(rest_request_reader *d, const json_t *root)
{
    int form = 0;

    if (!json_is_object(root))
        return MF_FAIL(MF_INVALID_ARGUMENT, "expected a map, found %s", mf_serve_value_kind(root));
    MF_TRY(check_signature(root));
    MF_TRY(check_verb(d->s, d->r->verb));
    MF_TRY(find_form(d, root, &form));
    d->form = forms[form];
    d->body = json_object_get(root, d->form);
    d->context = form == EXAMPLES ? json_object_get(root, "context") : NULL;
    d->r->by_column = form == INPUTS;
    d->named = is_named(d);
    if (!d->r->by_column && !json_is_array(d->body))
        return MF_FAIL(MF_INVALID_ARGUMENT, "\"%s\" is %s, not a list of rows", d->form,
                       mf_serve_value_kind(d->body));
    if (d->r->by_column && d->named) {
        if (!json_is_object(d->body) || mf_serve_value_is_bytes(d->body))
            return list_inputs(d->s, "inputs", "expected a map of inputs");
        MF_TRY(rest_request_check_names(d, d->body, "inputs"));
    }
    if (!d->r->by_column)
        d->r->rows = (int64_t)json_array_size(d->body);
    MF_TRY(decode_all(d, false));
    MF_TRY(alloc_inputs(d));
    return decode_all(d, true);
}

mf_status mf_serve_request_decode(const mf_serve_signature *s, mf_serve_verb verb, const char *text,
                                  size_t len, mf_serve_request *out)
{
    rest_request_reader d = { .s = s, .r = out };
    json_error_t error;
    json_t *root;
    mf_status st;

    *out = (mf_serve_request){ .verb = verb };
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!root)
        return MF_FAIL(MF_INVALID_ARGUMENT, "JSON Parse error: %.120s, line %d column %d",
                       error.text, error.line, error.column);
    st = rest_request_decode_root(&d, root);
    json_decref(root);
    return st;
}

void mf_serve_request_deinit(mf_serve_request *r)
{
    for (int i = 0; i < MF_SERVE_INPUTS; i++)
        mf_tensor_clear(&r->inputs[i]);
}
