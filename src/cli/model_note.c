/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/model_note.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

static const char file_name[] = "model.json";

/* ---- writing ---- */

/* What the model takes is as the model has it: data may have been changed since. */
static mf_column column_of(const mf_model *model, const mf_column *c)
{
    mf_column out = *c;

    for (int64_t i = 0; i < model->n_inputs; i++) {
        const mf_node *in = model->inputs[i].node;
        mf_shape shape;

        if (strcmp(in->name, c->name) != 0)
            continue;
        shape = mf_model_shape((mf_model *)(uintptr_t)model, model->inputs[i]);
        out.dtype = in->out_types[0];
        out.rank = shape.rank - 1;
        memcpy(out.dims, shape.dims + 1, (size_t)out.rank * sizeof *out.dims);
    }
    return out;
}

static void print_columns(const mf_job *job, mf_buf *out)
{
    const mf_column *columns;
    const int n = mf_dataset_columns(job->train, &columns);

    for (int i = 0; i < n; i++) {
        const mf_column c = column_of(job->model, &columns[i]);

        if (strpbrk(c.name, " ="))
            continue; /* no name of ours */
        mf_buf_printf(out, "%s=%s[", c.name, mf_dtype_name(c.dtype));
        for (int k = 0; k < c.rank; k++)
            mf_buf_printf(out, "%s%lld", k > 0 ? "," : "", (long long)c.dims[k]);
        mf_buf_str(out, "] ");
    }
    mf_buf_printf(out, "classes=%lld", (long long)mf_dataset_classes(job->train, NULL));
}

static void print_note(const mf_job *job, mf_buf *out)
{
    const char *const *names;
    const int64_t classes = mf_dataset_classes(job->train, &names);
    mf_buf columns = { 0 };

    print_columns(job, &columns);
    mf_buf_str(out, "{\"model\": ");
    mf_buf_json(out, job->model_text, strlen(job->model_text));
    if (job->data_text) {
        mf_buf_str(out, ", \"data\": ");
        mf_buf_json(out, job->data_text, strlen(job->data_text));
    }
    mf_buf_str(out, ", \"columns\": ");
    if (columns.data)
        mf_buf_json(out, columns.data, columns.len);
    for (int64_t i = 0; names && i < classes; i++) {
        mf_buf_str(out, i > 0 ? ", " : ", \"classes\": [");
        mf_buf_json(out, names[i], strlen(names[i]));
    }
    mf_buf_str(out, names && classes > 0 ? "]}\n" : "}\n");
    mf_buf_deinit(&columns);
}

mf_status mf_model_note_write(const char *dir, const mf_job *job)
{
    mf_buf path = { 0 }, text = { 0 };
    mf_status st = MF_OK;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create", dir);
    mf_buf_printf(&path, "%s/%s", dir, file_name);
    print_note(job, &text);
    st = path.data && !text.failed ? mf_file_write(path.data, text.data, text.len)
                                   : MF_NOMEM("a note of the model");
    mf_buf_deinit(&path);
    mf_buf_deinit(&text);
    return st;
}

/* ---- reading ---- */

static mf_status decode_classes(const json_t *list, mf_arena *arena, mf_model_note *out)
{
    const int64_t n = (int64_t)json_array_size(list);

    if (n != out->classes)
        return MF_FAIL(MF_DATA_LOSS, "%lld names for %lld classes", (long long)n,
                       (long long)out->classes);
    out->class_names = MF_ARENA_ARRAY(arena, const char *, n);
    if (!out->class_names)
        return MF_NOMEM("names of classes");
    for (int64_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, (size_t)i));

        out->class_names[i] = mf_arena_strndup(arena, name ? name : "", name ? strlen(name) : 0);
        if (!out->class_names[i])
            return MF_NOMEM("names of classes");
    }
    return MF_OK;
}

static mf_status decode_note(const json_t *root, mf_arena *arena, mf_model_note *out)
{
    const char *model = json_string_value(json_object_get(root, "model"));
    const char *columns = json_string_value(json_object_get(root, "columns"));
    const char *data = json_string_value(json_object_get(root, "data"));
    const json_t *classes = json_object_get(root, "classes");

    if (!model || !columns)
        return MF_FAIL(MF_DATA_LOSS, "\"model\" and \"columns\" are not there as strings");
    out->model = mf_arena_strndup(arena, model, strlen(model));
    out->data = data ? mf_arena_strndup(arena, data, strlen(data)) : NULL;
    if (!out->model || (data && !out->data))
        return MF_NOMEM("a note of the model");
    MF_TRY(mf_zoo_columns(columns, arena, &out->columns, &out->n_columns, &out->classes));
    return json_is_array(classes) ? decode_classes(classes, arena, out) : MF_OK;
}

/* The file in the folder itself, or in the one that the checkpoint is in. */
static void find_note(const char *where, mf_buf *path)
{
    const char *slash = strrchr(where, '/');
    struct stat info;

    if (stat(where, &info) == 0 && S_ISDIR(info.st_mode))
        mf_buf_printf(path, "%s/%s", where, file_name);
    else if (slash)
        mf_buf_printf(path, "%.*s/%s", (int)(slash - where), where, file_name);
    else
        mf_buf_str(path, file_name);
}

mf_status mf_model_note_read(const char *where, mf_arena *arena, mf_model_note *out)
{
    mf_buf path = { 0 };
    json_error_t error;
    json_t *root = NULL;
    char *text = NULL;
    size_t len;
    mf_status st;

    *out = (mf_model_note){ 0 };
    find_note(where, &path);
    MF_TRY_TO(done, mf_buf_finish(&path));
    MF_TRY_TO(done, mf_file_read(path.data, 1 << 24, &text, &len));
    root = json_loadb(text, len, 0, &error);
    st = root ? decode_note(root, arena, out)
              : MF_FAIL(MF_DATA_LOSS, "%.120s, line %d", error.text, error.line);
    if (st != MF_OK)
        st = MF_FAIL(st, "%s: %s", path.data, mf_error_message());
done:
    json_decref(root);
    mf_free(text);
    mf_buf_deinit(&path);
    return st;
}
