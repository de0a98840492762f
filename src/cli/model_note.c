/* SPDX-License-Identifier: Apache-2.0 */
/* model_note.c - writes and reads model.json and schema.json beside checkpoints. */
#include "cli/model_note.h"

#include "base/buf.h"
#include "base/file.h"
#include "cli/schema_file.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing ---- */

static void model_note_put(const char *key, const char *value, mf_buf *out)
{
    if (!value)
        return;
    mf_buf_printf(out, "%s\"%s\": ", out->len > 1 ? ", " : "", key);
    mf_buf_json(out, value, strlen(value));
}

/* Options that were given or have a default. */
static void print_options(const mf_model_note *n, mf_buf *out)
{
    const char *between = "";

    mf_buf_str(out, ", \"options\": {");
    for (int64_t i = 0; i < n->n_options; i++) {
        const mf_note_option *o = &n->options[i];

        if (!o->value)
            continue;
        mf_buf_printf(out, "%s\"%s\": ", between, o->name);
        mf_buf_json(out, o->value, strlen(o->value));
        between = ", ";
    }
    mf_buf_str(out, "}");
}

static void print_note(const mf_model_note *n, mf_buf *out)
{
    mf_buf_str(out, "{");
    model_note_put("model", n->model, out);
    model_note_put("data", n->data, out);
    model_note_put("format", n->format, out);
    model_note_put("set", n->settings, out);
    model_note_put("loss", n->loss, out);
    model_note_put("metrics", n->metrics, out);
    model_note_put("test", n->test, out);
    if (n->split > 0.0)
        mf_buf_printf(out, ", \"split\": %.9g", n->split);
    mf_buf_printf(out, ", \"seed\": %lld, \"samples\": %lld", (long long)n->seed,
                  (long long)n->samples);
    if (n->n_options > 0)
        print_options(n, out);
    mf_buf_str(out, "}\n");
}

static mf_status model_note_write_text(const char *dir, const char *name, mf_buf *text)
{
    mf_buf path = { 0 };
    mf_status st;

    mf_buf_printf(&path, "%s/%s", dir, name);
    st = path.data && !text->failed ? mf_file_write(path.data, text->data, text->len)
                                    : MF_NOMEM("the note of a model");
    mf_buf_deinit(&path);
    mf_buf_deinit(text);
    return st;
}

mf_status mf_model_note_write(const char *dir, const mf_model_note *note)
{
    mf_buf text = { 0 }, schema = { 0 };

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create", dir);
    mf_schema_print(&note->schema, &schema);
    MF_TRY(model_note_write_text(dir, MF_SCHEMA_NAME, &schema));
    print_note(note, &text);
    return model_note_write_text(dir, MF_NOTE_NAME, &text);
}

/* ---- reading ---- */

static const char *model_note_get(const json_t *root, const char *key, mf_arena *arena)
{
    const char *text = json_string_value(json_object_get(root, key));

    return text ? mf_arena_strdup(arena, text) : NULL;
}

static mf_status decode_options(json_t *json, mf_arena *arena, mf_model_note *out)
{
    mf_note_option *o = MF_ARENA_ARRAY(arena, mf_note_option, (int64_t)json_object_size(json));
    const char *name;
    json_t *value;

    if (!o)
        return MF_NOMEM("the note of a model");
    out->options = o;
    json_object_foreach(json, name, value)
    {
        const char *text = json_string_value(value);

        if (!text)
            return MF_FAIL(MF_DATA_LOSS, "option \"%.40s\" is not a string", name);
        *o = (mf_note_option){ mf_arena_strdup(arena, name), mf_arena_strdup(arena, text) };
        if (!o->name || !o->value)
            return MF_NOMEM("the note of a model");
        o++;
        out->n_options++;
    }
    return MF_OK;
}

static mf_status decode_note(const json_t *root, mf_arena *arena, mf_model_note *out)
{
    *out = (mf_model_note){ .model = model_note_get(root, "model", arena),
                            .data = model_note_get(root, "data", arena),
                            .format = model_note_get(root, "format", arena),
                            .settings = model_note_get(root, "set", arena),
                            .loss = model_note_get(root, "loss", arena),
                            .metrics = model_note_get(root, "metrics", arena),
                            .test = model_note_get(root, "test", arena),
                            .split = json_number_value(json_object_get(root, "split")),
                            .seed = json_integer_value(json_object_get(root, "seed")),
                            .samples = json_integer_value(json_object_get(root, "samples")) };
    if (!out->model)
        return MF_FAIL(MF_DATA_LOSS, "\"model\" is missing or not a string");
    if (!(out->split >= 0.0 && out->split < 1.0))
        return MF_FAIL(MF_DATA_LOSS, "\"split\" is %g", out->split);
    return decode_options(json_object_get(root, "options"), arena, out);
}

/* The file in the folder itself, or in the folder of the checkpoint. */
static void find_note(const char *where, const char *name, mf_buf *path)
{
    const char *slash = strrchr(where, '/');
    struct stat info;

    if (stat(where, &info) == 0 && S_ISDIR(info.st_mode))
        mf_buf_printf(path, "%s/%s", where, name);
    else if (slash)
        mf_buf_printf(path, "%.*s/%s", (int)(slash - where), where, name);
    else
        mf_buf_str(path, name);
}

#define WRITE_AGAIN                                                                                \
    "one step of training with the same settings and data in another --out writes the same file, " \
    "which can be copied here"

static mf_status model_note_read_json(const char *path, json_t **out)
{
    json_error_t error;
    char *text;
    size_t len;

    *out = NULL;
    MF_TRY(mf_file_read(path, 1 << 26, &text, &len));
    *out = json_loadb(text, len, 0, &error);
    mf_free(text);
    if (*out)
        return MF_OK;
    return MF_FAIL(MF_DATA_LOSS, "'%s' is damaged: %.120s, line %d; " WRITE_AGAIN, path, error.text,
                   error.line);
}

/* A file and the function that decodes it. */
static mf_status model_note_read_file(const char *where, const char *name, mf_arena *arena,
                                      mf_status (*decode)(const json_t *, mf_arena *,
                                                          mf_model_note *),
                                      mf_model_note *out)
{
    mf_buf path = { 0 };
    json_t *root = NULL;
    mf_status st;

    find_note(where, name, &path);
    MF_TRY_TO(done, mf_buf_finish(&path));
    MF_TRY_TO(done, model_note_read_json(path.data, &root));
    st = decode(root, arena, out);
    if (st != MF_OK)
        st = MF_FAIL(st, "%s: %s", path.data, mf_error_message());
done:
    json_decref(root);
    mf_buf_deinit(&path);
    return st;
}

static mf_status decode_schema(const json_t *root, mf_arena *arena, mf_model_note *out)
{
    return mf_schema_decode(root, arena, &out->schema);
}

/* A folder, a file, or the prefix of a checkpoint. */
static bool model_note_exists(const char *where)
{
    mf_buf index = { 0 };
    bool found;

    mf_buf_printf(&index, "%s.index", where);
    found = access(where, F_OK) == 0 || (index.data && access(index.data, F_OK) == 0);
    mf_buf_deinit(&index);
    return found;
}

mf_status mf_model_note_read(const char *where, mf_arena *arena, mf_model_note *out)
{
    mf_status st;

    *out = (mf_model_note){ 0 };
    if (!model_note_exists(where))
        return MF_FAIL(MF_NOT_FOUND, "there is no checkpoint or folder '%.200s'", where);
    MF_TRY(model_note_read_file(where, MF_NOTE_NAME, arena, decode_note, out));
    st = model_note_read_file(where, MF_SCHEMA_NAME, arena, decode_schema, out);
    return st == MF_NOT_FOUND
               ? MF_FAIL(MF_DATA_LOSS, "%s is not beside %s in '%.200s'; " WRITE_AGAIN,
                         MF_SCHEMA_NAME, MF_NOTE_NAME, where)
               : st;
}
