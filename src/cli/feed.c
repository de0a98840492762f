/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - loads values of --feed from .npy and .npz files or from text. */
#include "cli/feed.h"

#include "base/file.h"
#include "cli/show.h"
#include "formats/npy.h"
#include "formats/npz.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NPY_MAX ((size_t)64 << 30)

char *mf_path_dir(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return mf_strdup(".");
    return mf_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static bool is_values(const char *text)
{
    char *end;

    if (text[0] == '[' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return true;
    (void)strtod(text, &end);
    return end != text && !*end;
}

/* The end of ".npz" in "a.npz:member" or "a.npz"; NULL: not an archive. */
static const char *npz_end(const char *text)
{
    const char *at = strstr(text, ".npz:");
    const size_t n = strlen(text);

    if (at)
        return at + 4;
    return n > 4 && strcmp(text + n - 4, ".npz") == 0 ? text + n : NULL;
}

char *mf_feed_path(const char *value)
{
    const char *end = npz_end(value);

    if (is_values(value))
        return NULL;
    return end ? mf_strndup(value, (size_t)(end - value)) : mf_strdup(value);
}

static void hint_members(mf_args *args, const mf_npz *npz)
{
    mf_buf names = { 0 };

    for (int64_t i = 0; i < mf_npz_count(npz) && i < 8; i++)
        mf_buf_printf(&names, "%s%.50s", i > 0 ? ", " : "", mf_npz_name(npz, i));
    if (names.len > 0)
        mf_args_hint(args, "it contains %s", names.data);
    mf_buf_deinit(&names);
}

static mf_status load_npz(mf_args *args, const char *path, const char *member, mf_tensor *out)
{
    mf_npz *npz;
    mf_status st;

    MF_TRY(mf_npz_open(path, &npz));
    st = mf_npz_read(npz, member, NPY_MAX, out);
    if (st == MF_NOT_FOUND)
        hint_members(args, npz);
    mf_npz_close(npz);
    return st;
}

static mf_status load_npy(mf_args *args, const char *path, mf_tensor *out)
{
    char *data;
    size_t len;
    mf_status st;

    MF_TRY(mf_file_read(path, NPY_MAX, &data, &len));
    st = mf_npy_decode(data, len, out);
    if (st == MF_INVALID_ARGUMENT)
        mf_args_hint(args, "a file written by numpy.save() or numpy.savez() was expected");
    mf_free(data);
    return st;
}

static mf_status load_value(mf_args *args, const char *name, const char *text, mf_dtype dtype,
                            mf_tensor *out)
{
    const char *end = npz_end(text);
    char *path;
    mf_status st;

    if (is_values(text))
        return mf_show_parse(text, dtype, out);
    path = mf_feed_path(text);
    if (!path)
        return MF_NOMEM("a feed");
    if (end) {
        char *node = mf_strndup(name, strcspn(name, ":"));

        st = !node ? MF_NOMEM("a feed") : load_npz(args, path, *end ? end + 1 : node, out);
        mf_free(node);
    } else {
        st = load_npy(args, path, out);
    }
    if (st != MF_OK)
        (void)mf_cli_name_file(st, path);
    mf_free(path);
    return st;
}

static const char *numpy_name(mf_dtype dtype)
{
    return dtype == MF_DTYPE_F32   ? "float32"
           : dtype == MF_DTYPE_F64 ? "float64"
           : dtype == MF_DTYPE_F16 ? "float16"
                                   : mf_dtype_name(dtype);
}

static bool feed_fits(const mf_shape *declared, bool cut, const mf_tensor *t)
{
    mf_shape whole = *declared;

    if (cut && whole.rank > 0 && t->shape.rank > 0)
        whole.dims[0] = t->shape.dims[0];
    return mf_shape_compatible(&whole, &t->shape);
}

static mf_status check_feed(mf_args *args, const char *option, bool cut, const char *name,
                            mf_output to, const mf_tensor *t)
{
    const mf_dtype type = mf_type_base(to.node->out_types[to.port]);
    const mf_shape *declared = mf_node_shape(to.node, "shape");
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (t->dtype != type) {
        if (mf_dtype_is_plain(type))
            mf_args_hint(args, "convert it: numpy.save(path, x.astype('%s'))", numpy_name(type));
        return MF_FAIL(MF_INVALID_ARGUMENT, "--%s %.200s: the value is %s, but '%.200s' is %s",
                       option, name, mf_dtype_name(t->dtype), to.node->name, mf_dtype_name(type));
    }
    /* In old graphs [] means "any shape". */
    if (strncmp(to.node->op_name, "Placeholder", 11) == 0 && declared->rank > 0 &&
        !feed_fits(declared, cut, t))
        return MF_FAIL(
            MF_INVALID_ARGUMENT, "--%s %.200s: the value has shape %s, but '%.200s' has shape %s",
            option, name, mf_shape_text(&t->shape, a), to.node->name, mf_shape_text(declared, b));
    return MF_OK;
}

static mf_status feed_load_one(mf_args *args, const char *option, bool cut, const mf_graph *graph,
                               const char *given, mf_feeds *f)
{
    char what[64];
    const char *text;
    mf_output to;
    char *name;

    MF_TRY(mf_grow(&f->names, &f->cap_names, f->n + 1, sizeof *f->names));
    MF_TRY(mf_grow(&f->values, &f->cap_values, f->n + 1, sizeof(mf_tensor *)));
    MF_TRY(mf_args_pair(args, option, given, &name, &text));
    f->names[f->n] = name;
    f->values[f->n] = mf_calloc(1, sizeof(mf_tensor));
    f->n++;
    if (!f->values[f->n - 1])
        return MF_NOMEM("a feed");
    (void)snprintf(what, sizeof what, "--%s", option);
    MF_TRY(mf_cli_find_output(args, graph, what, name, &to));
    MF_TRY(load_value(args, name, text, mf_type_base(to.node->out_types[to.port]),
                      f->values[f->n - 1]));
    return check_feed(args, option, cut, name, to, f->values[f->n - 1]);
}

mf_status mf_feeds_load(mf_args *args, const char *option, bool cut, const mf_graph *graph,
                        mf_feeds *out)
{
    const char *given;
    int64_t at = 0;

    while ((given = mf_args_next(args, option, &at)) != NULL)
        MF_TRY(feed_load_one(args, option, cut, graph, given, out));
    return MF_OK;
}

void mf_feeds_deinit(mf_feeds *feeds)
{
    for (int64_t i = 0; i < feeds->n; i++) {
        mf_free(feeds->names[i]);
        mf_tensor_free(feeds->values[i]);
    }
    mf_free(feeds->names);
    mf_free(feeds->values);
}

mf_status mf_npy_save(const mf_tensor *t, const char *path)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_npy_encode(t, &bytes);

    if (st == MF_OK)
        st = mf_buf_finish(&bytes);
    if (st == MF_OK)
        st = mf_file_write(path, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    return st == MF_OK ? MF_OK : mf_cli_name_file(st, path);
}
