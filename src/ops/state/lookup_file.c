/* SPDX-License-Identifier: Apache-2.0 */
/* lookup_file.c - tables from text files: each line is an entry; key and value are the line number,
 * the whole line, or a column. */
#include "ops/io/op_path.h"
#include "ops/state/lookup.h"
#include "ops/string/tensor_text.h"

enum { LINE_NUMBER = -1, WHOLE_LINE = -2 };

typedef struct lookup_file_columns {
    int64_t key, value, offset; /* sources of key and value; line numbers start at `offset` */
    char delimiter;
    const char *path;
} lookup_file_columns;

/* ---- keys and values as they come ---- */

typedef struct cells {
    mf_tensor tensor; /* a vector with capacity `cap` */
    int64_t n;
} cells;

static mf_status lookup_file_make_room(cells *c)
{
    const int64_t cap = c->tensor.count;
    mf_tensor more = { 0 };
    mf_status st;

    if (c->n < cap)
        return MF_OK;
    st = mf_tensor_alloc(&more, c->tensor.dtype, &MF_SHAPE(2 * cap));
    if (st == MF_OK)
        st = mf_cells_copy(c->tensor.dtype, more.data, 0, c->tensor.data, 0, c->n);
    if (st == MF_OK)
        mf_tensor_move(&c->tensor, &more);
    mf_tensor_clear(&more);
    return st;
}

/* Shrinks the vector to the entries read. */
static void close_room(cells *c)
{
    c->tensor.shape = MF_SHAPE(c->n);
    c->tensor.count = c->n;
}

/* ---- a line ---- */

static mf_status lookup_file_find_column(const lookup_file_columns *how, const mf_buf *line,
                                         int64_t which, mf_string *out)
{
    char *from = line->data, *end = line->data + line->len;

    for (int64_t i = 0;; i++) {
        char *stop = memchr(from, how->delimiter, (size_t)(end - from));

        if (i == which) {
            *out = (mf_string){ from, (size_t)((stop ? stop : end) - from) };
            return MF_OK;
        }
        if (!stop)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid number of columns in %s line %.100s : expected at least %lld "
                           "got %lld",
                           how->path, line->data, (long long)which + 1, (long long)i + 1);
        from = stop + 1;
    }
}

static mf_status add_cell(cells *c, const lookup_file_columns *how, int64_t which,
                          const mf_buf *line, int64_t number)
{
    mf_string text = { line->data, line->len };

    MF_TRY(lookup_file_make_room(c));
    if (which == LINE_NUMBER) {
        *((int64_t *)c->tensor.data + c->n++) = how->offset + number;
        return MF_OK;
    }
    if (which >= 0)
        MF_TRY(lookup_file_find_column(how, line, which, &text));
    if (c->tensor.dtype == MF_DTYPE_STRING)
        MF_TRY(mf_string_set((mf_string *)c->tensor.data + c->n, text.data, text.len));
    else if (!mf_text_number(text.data, text.len, &c->tensor, c->n))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Field %.*s in line %.100s is not a valid %s.",
                       (int)(text.len < 100 ? text.len : 100), text.data, line->data,
                       mf_dtype_name(c->tensor.dtype));
    c->n++;
    return MF_OK;
}

/* ---- the file ---- */

static mf_status read_lines(mf_reader *r, const lookup_file_columns *how, int64_t most, cells *keys,
                            cells *values)
{
    mf_lines lines = { .reader = r };
    mf_buf line = { 0 };
    bool end = false;
    mf_status st = MF_OK;

    for (int64_t n = 0; st == MF_OK && (most < 0 || n < most); n++) {
        st = mf_lines_next(&lines, MF_PATH_STRING_MAX, &line, &end);
        if (st != MF_OK || end)
            break;
        if (line.len == 0)
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "Invalid content in %s: empty line found at position %lld.", how->path,
                         (long long)n);
        if (st == MF_OK)
            st = add_cell(keys, how, how->key, &line, n);
        if (st == MF_OK)
            st = add_cell(values, how, how->value, &line, n);
    }
    if (st == MF_OK && most >= 0 && keys->n < most)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "Invalid vocab_size in %s: expected %lld but got %lld.",
                     how->path, (long long)most, (long long)keys->n);
    mf_lines_deinit(&lines);
    mf_buf_deinit(&line);
    return st;
}

static mf_status lookup_file_check_column(int64_t which, mf_dtype type, const char *what)
{
    if (which == LINE_NUMBER && type != MF_DTYPE_I64)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s index for line number requires int64, not %s", what,
                       mf_dtype_name(type));
    if (which == WHOLE_LINE && type != MF_DTYPE_STRING && !mf_dtype_is_plain(type))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s index for whole line requires string, not %s", what,
                       mf_dtype_name(type));
    return MF_OK;
}

static mf_status lookup_file_fill(const mf_kernel *k, mf_table *t, mf_reader *r,
                                  const lookup_file_columns *how)
{
    cells keys = { 0 }, values = { 0 };
    mf_status st = mf_tensor_alloc(&keys.tensor, t->key, &MF_SHAPE(1024));

    if (st == MF_OK)
        st = mf_tensor_alloc(&values.tensor, t->value, &MF_SHAPE(1024));
    if (st == MF_OK)
        st = read_lines(r, how, mf_node_int(k->node, "vocab_size"), &keys, &values);
    if (st == MF_OK) {
        close_room(&keys);
        close_room(&values);
        st = mf_table_initialize(t, &keys.tensor, &values.tensor);
    }
    mf_tensor_clear(&keys.tensor);
    mf_tensor_clear(&values.tensor);
    return st;
}

static mf_status from_file_run(mf_kernel *k)
{
    const char *delimiter = mf_node_string(k->node, "delimiter");
    char path[PATH_MAX];
    const lookup_file_columns how = { .key = mf_node_int(k->node, "key_index"),
                                      .value = mf_node_int(k->node, "value_index"),
                                      .offset = mf_node_int(k->node, "offset"),
                                      .delimiter = delimiter[0],
                                      .path = path };
    mf_object *o;
    mf_table *t;
    mf_reader *r;
    mf_status st;

    MF_TRY(mf_kernel_object(k, 0, &mf_table_type, &o));
    t = (mf_table *)o;
    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "filename should be a single string");
    if (strlen(delimiter) != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "delimiter should be only 1 char");
    MF_TRY(lookup_file_check_column(how.key, t->key, "Key"));
    MF_TRY(lookup_file_check_column(how.value, t->value, "Value"));
    MF_TRY(mf_path_read(k->in[1], 0, path));
    MF_TRY(mf_path_open(k->step, path, MF_PLAIN, &r));
    st = lookup_file_fill(k, t, r, &how);
    mf_reader_close(r);
    return st;
}

#define FROM_FILE(NAME, HANDLE, REST)                                                              \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(table_handle:" HANDLE ", filename:string) -> () {key_index:int>=-2, "             \
               "value_index:int>=-2, vocab_size:int>=-1=-1, delimiter:string='\t', "               \
               "offset:int=0}" REST,                                                               \
        .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = mf_infer_none, .grad = mf_grad_none,       \
        .run = from_file_run                                                                       \
    }

const mf_op mf_ops_lookup_file[] = {
    FROM_FILE("InitializeTableFromTextFileV2", "resource", " is_stateful"),
    FROM_FILE("InitializeTableFromTextFile", "ref string", ""),
    { 0 },
};
