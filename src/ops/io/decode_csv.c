/* SPDX-License-Identifier: Apache-2.0 */
/* decode_csv.c - DecodeCSV: parses records of fields (RFC 4180) into one tensor per field. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/string/tensor_text.h"

#include <string.h>

typedef struct csv_state {
    char delim;
    bool quotes; /* " encloses fields */
    const char *missing; /* text that also means a missing field */
    const int64_t *columns; /* selected columns, or NULL for all */
    int64_t n_columns;
} csv_state;

/* ---- one field ---- */

typedef struct decode_csv_reader {
    const csv_state *s;
    const char *p, *end;
} decode_csv_reader;

static mf_status plain_field(decode_csv_reader *r, mf_buf *out)
{
    const char *from = r->p;

    for (; r->p < r->end && *r->p != r->s->delim; r->p++) {
        if ((r->s->quotes && *r->p == '"') || *r->p == '\n' || *r->p == '\r')
            return MF_FAIL(MF_INVALID_ARGUMENT, "Unquoted fields cannot have quotes/CRLFs inside");
    }
    mf_buf_bytes(out, from, (size_t)(r->p - from));
    r->p += r->p < r->end; /* the delimiter */
    return MF_OK;
}

/* From after the opening quote to a quote that is followed by a delimiter or the end. */
static mf_status quoted_field(decode_csv_reader *r, mf_buf *out)
{
    while (r->end - r->p > 1 && (r->p[0] != '"' || r->p[1] != r->s->delim)) {
        if (r->p[0] == '"' && r->p[1] != '"')
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Quote inside a string has to be escaped by another quote");
        mf_buf_bytes(out, r->p, 1);
        r->p += r->p[0] == '"' ? 2 : 1;
    }
    if (r->p >= r->end || r->p[0] != '"')
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Quoted field has to end with quote followed by delim or end");
    r->p += r->end - r->p > 1 ? 2 : 1;
    return MF_OK;
}

/* ---- one record ---- */

/* Stores field number `column` as element `record` of its output. */
static mf_status decode_csv_put_field(mf_kernel *k, int column, int64_t record, mf_buf *field)
{
    const csv_state *s = k->state;
    const mf_tensor *otherwise = k->in[column + 1];
    const char *text = field->len > 0 ? field->data : "";
    mf_tensor *out = k->out[column];

    if (field->len == 0 ||
        (field->len == strlen(s->missing) && memcmp(text, s->missing, field->len) == 0)) {
        if (otherwise->count != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Field %d is required but missing in record %lld!",
                           column, (long long)record);
        return mf_cells_copy(out->dtype, out->data, record, otherwise->data, 0, 1);
    }
    if (out->dtype == MF_DTYPE_STRING)
        return mf_string_set(&((mf_string *)out->data)[record], text, field->len);
    if (mf_text_number(text, field->len, out, record))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Field %d in record %lld is not a valid %s: %.*s", column,
                   (long long)record, mf_dtype_name(out->dtype),
                   field->len > 200 ? 200 : (int)field->len, text);
}

static mf_status wrong_number(const mf_kernel *k, int64_t fields, int64_t record)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "Expect %d fields but have %lld in record %lld", k->n_out,
                   (long long)fields, (long long)record);
}

static mf_status decode_record(mf_kernel *k, int64_t record, mf_buf *field)
{
    const csv_state *s = k->state;
    const mf_string *text = &mf_strings(k->in[0])[record];
    decode_csv_reader r = { s, mf_string_data(text), mf_string_data(text) + text->len };
    int64_t parsed = 0, taken = 0;

    for (;; parsed++) {
        const bool last_missing = r.p >= r.end && text->len > 0 && r.end[-1] == s->delim;
        const bool wanted = !s->columns || (taken < s->n_columns && s->columns[taken] == parsed);

        while (r.p < r.end && (*r.p == '\n' || *r.p == '\r'))
            r.p++;
        if (s->columns && taken == s->n_columns)
            break;
        field->len = 0;
        if (r.p < r.end && s->quotes && *r.p == '"') {
            r.p++;
            MF_TRY(quoted_field(&r, field));
        } else if (r.p < r.end) {
            MF_TRY(plain_field(&r, field));
        } else if (!last_missing || !wanted) {
            break;
        }
        if (wanted && taken >= k->n_out)
            return wrong_number(k, taken + 1, record);
        if (field->failed)
            return mf_buf_finish(field);
        if (wanted)
            MF_TRY(decode_csv_put_field(k, (int)taken++, record, field));
        if (last_missing)
            break;
    }
    return taken == k->n_out ? MF_OK : wrong_number(k, taken, record);
}

/* ---- the op ---- */

static mf_status csv_prepare(mf_prepare *p)
{
    csv_state *s = MF_ARENA_NEW(p->arena, csv_state);
    const char *delim = mf_node_string(p->node, "field_delim");

    if (!s)
        return MF_NOMEM("a decoder");
    if (strlen(delim) != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "field_delim should be only 1 char, got '%s'", delim);
    *s = (csv_state){ .delim = delim[0],
                      .quotes = mf_node_bool(p->node, "use_quote_delim"),
                      .missing = mf_node_string(p->node, "na_value") };
    s->columns = mf_node_ints(p->node, "select_cols", &s->n_columns);
    if (!s->columns || s->n_columns == 0) { /* all columns */
        s->columns = NULL;
        s->n_columns = 0;
    }
    if (s->columns && s->n_columns != p->node->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "select_cols should match output size: %lld and %d",
                       (long long)s->n_columns, p->node->n_outputs);
    for (int64_t i = 0; i < s->n_columns; i++) {
        if (s->columns[i] < 0 || (i > 0 && s->columns[i] <= s->columns[i - 1]))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "select_cols should be strictly increasing indices, got %lld",
                           (long long)s->columns[i]);
    }
    p->state = s;
    return MF_OK;
}

static mf_status csv_infer(mf_infer *in)
{
    for (int i = 1; i < in->n_in; i++) {
        if (in->in[i].rank > 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Shape of a default must be a length-0 or length-1 "
                                                "vector, or a scalar.");
    }
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = in->in[0];
    return MF_OK;
}

static mf_status csv_run(mf_kernel *k)
{
    mf_buf field = { 0 };
    mf_tensor *out;
    mf_status st = MF_OK;

    for (int i = 0; i < k->n_out; i++) {
        if (k->in[i + 1]->shape.rank > 1 || k->in[i + 1]->count > 1)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "There should only be 1 default per field but field %d has %lld", i,
                           (long long)k->in[i + 1]->count);
        MF_TRY(mf_kernel_out(k, i, &k->in[0]->shape, &out));
    }
    for (int64_t record = 0; st == MF_OK && record < k->in[0]->count; record++)
        st = decode_record(k, record, &field);
    mf_buf_deinit(&field);
    return st;
}

const mf_op mf_op_decode_csv = {
    .name = "DecodeCSV",
    .def = "(records:string, record_defaults:*OUT_TYPE) -> (output:*OUT_TYPE) "
           "{OUT_TYPE:list(type)>=1 in [float,double,int32,int64,string], field_delim:string=',', "
           "use_quote_delim:bool=true, na_value:string='', select_cols:list(int)=[]}",
    .infer = csv_infer,
    .grad = mf_grad_none,
    .prepare = csv_prepare,
    .run = csv_run,
    .samples = MF_SAMPLES(
        "str[2]{1|2.5|ab,3||c} i32[1]{7} f32[1]{9} str[1]{x} ; field_delim='|'",
        "str[2,1]{1|2.5||,3|4|5|6} i64[]{7} f64[1]{9} str[1] str[]{y} ; field_delim='|'",
        "str[1]{\"a|b\"|\"c\"\"d\"} str[0] str[0] ; field_delim='|'",
        "str[1]{\"a|b\"|c} str[0] str[0] str[0] ; field_delim='|' use_quote_delim=false",
        "str[2]{1|NA|3,4|5|6} i32[1]{8} i32[0] ; field_delim='|' na_value='NA' select_cols=[1,2]",
        "str[0] f32[1] ; field_delim='|'", "str[1]{|} i32[]{1} i32[]{2} ; field_delim='|'",
        "str[1]{1|2} i32[1] ; field_delim='|' !fails",
        "str[1]{1} i32[1] i32[1] ; field_delim='|' !fails", "str[1]{x} i32[1] !fails",
        "str[1]{1||2} i32[1] i32[0] i32[1] ; field_delim='|' !fails", "str[1]{a\"b} str[1] !fails",
        "str[1]{\"ab} str[1] !fails", "str[1]{a} str[1] ; field_delim='||' !fails"),
};
