/* SPDX-License-Identifier: Apache-2.0 */
/* fetches.c - selects, prints and saves fetched outputs: --fetch, --save, --save-all. */
#include "cli/fetches.h"

#include "cli/show.h"
#include "formats/npz.h"

#include <string.h>
#include <zlib.h>

enum { JSON_VALUES = 1000 }; /* largest tensor that --json prints */

/* ---- lists of strings ---- */

mf_status mf_strings_add(mf_strings *list, char *s)
{
    mf_status st =
        s ? mf_grow(&list->s, &list->cap, list->n + 1, sizeof *list->s) : MF_NOMEM("arguments");

    if (st == MF_OK)
        list->s[list->n++] = s;
    else
        mf_free(s);
    return st;
}

void mf_strings_deinit(mf_strings *list)
{
    for (int64_t i = 0; i < list->n; i++)
        mf_free(list->s[i]);
    mf_free(list->s);
}

/* ---- arguments ---- */

/* The index of this output among the fetches, added if it is new. */
static mf_status fetches_add_fetch(mf_args *args, mf_graph *graph, const char *what,
                                   const char *text, mf_fetches *f, int64_t *at)
{
    mf_output o;
    const char *name;

    MF_TRY(mf_cli_find_output(args, graph, what, text, &o));
    name = mf_arena_printf(graph->arena, "%s:%d", o.node->name, o.port);
    if (!name)
        return MF_NOMEM("arguments");
    for (*at = 0; *at < f->names.n; ++*at) {
        if (strcmp(f->names.s[*at], name) == 0)
            return MF_OK;
    }
    return mf_strings_add(&f->names, mf_strdup(name));
}

mf_status mf_fetches_read(mf_args *args, mf_graph *graph, mf_fetches *f)
{
    const char *text;
    int64_t at = 0, place;

    while ((text = mf_args_next(args, "fetch", &at)) != NULL)
        MF_TRY(fetches_add_fetch(args, graph, "--fetch", text, f, &place));
    f->n_shown = f->names.n;
    for (at = 0; (text = mf_args_next(args, "save", &at)) != NULL;) {
        const char *path;
        char *name;
        mf_status st;

        MF_TRY(mf_args_pair(args, "save", text, &name, &path));
        st = fetches_add_fetch(args, graph, "--save", name, f, &place);
        mf_free(name);
        MF_TRY(st);
        MF_TRY(mf_grow(&f->saves, &f->cap_saves, f->n_saves + 1, sizeof *f->saves));
        f->saves[f->n_saves++] = (mf_save){ place, path };
    }
    return MF_OK;
}

void mf_fetches_deinit(mf_fetches *f)
{
    mf_free(f->saves);
    mf_strings_deinit(&f->names);
}

mf_status mf_fetches_dirs(mf_args *args, const mf_fetches *f, mf_strings *out)
{
    const char *value;
    int64_t at = 0;

    MF_TRY(mf_strings_add(out, mf_strdup(".")));
    MF_TRY(mf_strings_add(out, mf_path_dir(args->words[0])));
    value = mf_args_value(args, "restore");
    if (value)
        MF_TRY(mf_strings_add(out, mf_path_dir(value)));
    while ((value = mf_args_next(args, "allow-dir", &at)) != NULL)
        MF_TRY(mf_strings_add(out, mf_strdup(value)));
    for (at = 0; (value = mf_args_next(args, "feed", &at)) != NULL;) {
        const char *given = strchr(value, '=');
        char *path = given ? mf_feed_path(given + 1) : NULL;
        char *dir = path ? mf_path_dir(path) : mf_strdup(".");

        mf_free(path);
        MF_TRY(mf_strings_add(out, dir));
    }
    for (int64_t i = 0; i < f->n_saves; i++)
        MF_TRY(mf_strings_add(out, mf_path_dir(f->saves[i].path)));
    return MF_OK;
}

/* ---- results ---- */

mf_status mf_fetches_save(const mf_args *args, const mf_fetches *f, mf_tensor *const *results)
{
    const char *all = mf_args_value(args, "save-all");

    for (int64_t i = 0; i < f->n_saves; i++)
        MF_TRY(mf_npy_save(results[f->saves[i].fetch], f->saves[i].path));
    if (!all)
        return MF_OK;
    return mf_npz_write(all, (const char *const *)f->names.s, (const mf_tensor *const *)results,
                        f->names.n, false);
}

void mf_fetches_text(const mf_fetches *f, mf_tensor *const *results, mf_buf *out)
{
    char shape[MF_SHAPE_TEXT];

    for (int64_t i = 0; i < f->n_shown; i++) {
        const mf_tensor *t = results[i];

        mf_buf_printf(out, "%s %s%s\n", f->names.s[i], mf_dtype_name(t->dtype),
                      mf_shape_text(&t->shape, shape));
        mf_show_text(t, out);
        mf_buf_str(out, "\n");
    }
}

static void fetches_print_json(const char *name, const mf_tensor *t, mf_buf *out)
{
    mf_buf_str(out, "{\"name\":");
    mf_buf_json(out, name, strlen(name));
    mf_buf_printf(out, ",\"dtype\":\"%s\",\"shape\":[", mf_dtype_name(t->dtype));
    for (int i = 0; i < t->shape.rank; i++)
        mf_buf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)t->shape.dims[i]);
    mf_buf_str(out, "],\"values\":");
    mf_show_json(t, JSON_VALUES, out);
    if (mf_dtype_is_plain(t->dtype))
        mf_buf_printf(
            out, ",\"crc32\":%lu",
            crc32_z(0, t->count > 0 ? t->data : NULL, (size_t)t->count * mf_dtype_cell(t->dtype)));
    mf_buf_str(out, "}");
}

void mf_fetches_json(const mf_fetches *f, mf_tensor *const *results, mf_buf *out)
{
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < f->n_shown; i++) {
        mf_buf_str(out, i > 0 ? "," : "");
        fetches_print_json(f->names.s[i], results[i], out);
    }
    mf_buf_str(out, "]");
}
