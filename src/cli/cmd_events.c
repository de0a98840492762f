/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_events.c - `meshflow events`: the tags of event files and their last values. */
#include "base/file.h"
#include "base/map.h"
#include "cli/command.h"
#include "formats/events.h"
#include "proto/tensor_codec.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 8, MAX_TENSOR = 1 << 20 };

/* A tag of a run. */
typedef struct cmd_events_tag {
    const char *name;
    char kind[24]; /* "scalar", "histogram", a plugin's name */
    int64_t count, first, last; /* events; their steps */
    double value; /* of the last event, if it is one number */
    bool is_number;
    char note[80]; /* describes the last event, if it is not */
} cmd_events_tag;

/* The event files of one folder. */
typedef struct run {
    mf_arena *arena;
    mf_map by_name; /* name -> tag */
    cmd_events_tag **tags; /* in the order of appearance */
    int64_t n, cap;
    int64_t events, graphs;
    bool cut; /* a file ends within a record */
} run;

/* ---- one value ---- */

static void set_number(cmd_events_tag *t, double value)
{
    t->value = value;
    t->is_number = true;
}

/* TensorFlow 2 writes all values as tensors; the metadata name their kind. */
static void take_tensor(cmd_events_tag *t, const Tensorflow__Summary__Value *v)
{
    const Tensorflow__SummaryMetadata *m = v->metadata;
    const char *plugin = m && m->plugin_data ? m->plugin_data->plugin_name : "";
    char shape[MF_SHAPE_TEXT];
    mf_tensor x = { 0 };

    if (plugin[0] || !t->kind[0]) /* only the first event of a tag has metadata */
        (void)snprintf(t->kind, sizeof t->kind, "%s",
                       strcmp(plugin, "scalars") == 0      ? "scalar"
                       : strcmp(plugin, "histograms") == 0 ? "histogram"
                       : strcmp(plugin, "images") == 0     ? "image"
                       : plugin[0]                         ? plugin
                                                           : "tensor");
    if (mf_tensor_decode(v->tensor, MAX_TENSOR, &x) != MF_OK) {
        (void)snprintf(t->note, sizeof t->note, "a tensor that cannot be read");
        return;
    }
    if (x.count == 1 && mf_dtype_is_plain(x.dtype))
        set_number(t, mf_tensor_float_at(&x, 0));
    else
        (void)snprintf(t->note, sizeof t->note, "%s%.60s", mf_dtype_name(x.dtype),
                       mf_shape_text(&x.shape, shape));
    mf_tensor_clear(&x);
}

static void cmd_events_take_value(cmd_events_tag *t, const Tensorflow__Summary__Value *v)
{
    t->is_number = false;
    t->note[0] = '\0';
    switch (v->value_case) {
    case TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE:
        strcpy(t->kind, "scalar");
        set_number(t, (double)v->simple_value);
        break;
    case TENSORFLOW__SUMMARY__VALUE__VALUE_HISTO:
        strcpy(t->kind, "histogram");
        (void)snprintf(t->note, sizeof t->note, "%.0f values from %g to %g, mean %g", v->histo->num,
                       v->histo->min, v->histo->max,
                       v->histo->num > 0 ? v->histo->sum / v->histo->num : 0.0);
        break;
    case TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE:
        strcpy(t->kind, "image");
        (void)snprintf(t->note, sizeof t->note, "%d x %d, %d channels, %zu bytes", v->image->width,
                       v->image->height, v->image->colorspace, v->image->encoded_image_string.len);
        break;
    case TENSORFLOW__SUMMARY__VALUE__VALUE_TENSOR:
        take_tensor(t, v);
        break;
    default:
        strcpy(t->kind, "other");
        break;
    }
}

static mf_status find_tag(run *r, const char *name, cmd_events_tag **out)
{
    cmd_events_tag *t = mf_map_find(&r->by_name, name);

    *out = t;
    if (t)
        return MF_OK;
    t = MF_ARENA_NEW(r->arena, cmd_events_tag);
    if (!t || !(t->name = mf_arena_strdup(r->arena, name)))
        return MF_NOMEM("tags");
    MF_TRY(mf_grow(&r->tags, &r->cap, r->n + 1, sizeof(cmd_events_tag *)));
    MF_TRY(mf_map_set(&r->by_name, t->name, t));
    r->tags[r->n++] = t;
    *out = t;
    return MF_OK;
}

static mf_status take_event(run *r, const Tensorflow__Event *event)
{
    r->events++;
    r->graphs += event->what_case == TENSORFLOW__EVENT__WHAT_GRAPH_DEF;
    for (size_t i = 0;
         event->what_case == TENSORFLOW__EVENT__WHAT_SUMMARY && i < event->summary->n_value; i++) {
        const Tensorflow__Summary__Value *v = event->summary->value[i];
        cmd_events_tag *t;

        MF_TRY(find_tag(r, v->tag, &t));
        if (t->count++ == 0)
            t->first = event->step;
        t->last = event->step;
        cmd_events_take_value(t, v);
    }
    return MF_OK;
}

/* ---- files ---- */

/* A file that ends within a record is still being written, or its writer was killed. */
static mf_status cmd_events_read_file(run *r, const char *path)
{
    const Tensorflow__Event *event;
    mf_events_reader *reader;
    mf_status st;

    MF_TRY(mf_events_reader_open(path, &reader));
    do {
        st = mf_events_next(reader, &event);
        if (st == MF_OK)
            st = take_event(r, event);
    } while (st == MF_OK);
    if (st == MF_DATA_LOSS && r->events > 0) {
        r->cut = true;
        st = MF_OK;
    }
    mf_events_reader_close(reader);
    return st == MF_OUT_OF_RANGE ? MF_OK : st;
}

static void cmd_events_print_run(const run *r, const char *name, mf_buf *out)
{
    int wide = 3;

    for (int64_t i = 0; i < r->n; i++)
        wide = (int)strlen(r->tags[i]->name) > wide ? (int)strlen(r->tags[i]->name) : wide;
    wide = wide > 48 ? 48 : wide;
    mf_buf_printf(out, "%s: %lld events%s%s\n", name, (long long)r->events,
                  r->graphs ? ", a graph" : "", r->cut ? ", incomplete at the end" : "");
    if (r->n > 0)
        mf_buf_printf(out, "  %-*s  %-10s %8s %10s  %s\n", wide, "tag", "kind", "events",
                      "last step", "last value");
    for (int64_t i = 0; i < r->n; i++) {
        const cmd_events_tag *t = r->tags[i];

        mf_buf_printf(out, "  %-*s  %-10s %8lld %10lld  ", wide, t->name, t->kind,
                      (long long)t->count, (long long)t->last);
        if (t->is_number)
            mf_buf_printf(out, "%.6g\n", t->value);
        else
            mf_buf_printf(out, "%s\n", t->note);
    }
}

static void cmd_events_print_json(const run *r, const char *name, mf_buf *out)
{
    mf_buf_str(out, "{\"run\":");
    mf_buf_json(out, name, strlen(name));
    mf_buf_printf(out, ",\"events\":%lld,\"graph\":%s,\"cut\":%s,\"tags\":[", (long long)r->events,
                  r->graphs ? "true" : "false", r->cut ? "true" : "false");
    for (int64_t i = 0; i < r->n; i++) {
        const cmd_events_tag *t = r->tags[i];

        mf_buf_printf(out, "%s{\"tag\":", i ? "," : "");
        mf_buf_json(out, t->name, strlen(t->name));
        mf_buf_printf(out,
                      ",\"kind\":\"%s\",\"events\":%lld,\"first_step\":%lld,\"last_step\":%lld",
                      t->kind, (long long)t->count, (long long)t->first, (long long)t->last);
        if (t->is_number && t->value - t->value == 0.0) /* JSON has no NaN and no infinity */
            mf_buf_printf(out, ",\"value\":%.9g", t->value);
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]}\n");
}

static mf_status show_files(char *const *paths, int64_t n, const char *name, bool json, mf_buf *out)
{
    run r = { .arena = mf_arena_new() };
    mf_status st = r.arena ? MF_OK : MF_NOMEM("tags");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = cmd_events_read_file(&r, paths[i]);
    if (st == MF_OK)
        (json ? cmd_events_print_json : cmd_events_print_run)(&r, name, out);
    mf_map_deinit(&r.by_name);
    mf_free(r.tags);
    mf_arena_free(r.arena);
    return st;
}

/* ---- folders ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted paths of the contents of a folder: the order in which TensorBoard reads. */
static mf_status cmd_events_list(const char *dir, mf_arena *arena, char ***paths, int64_t *n)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int64_t cap = 0;
    mf_status st = MF_OK;

    *paths = NULL;
    *n = 0;
    if (!d)
        return mf_errno_status(errno, "read", dir);
    while (st == MF_OK && (e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        st = mf_grow(paths, &cap, *n + 1, sizeof **paths);
        if (st == MF_OK && !((*paths)[(*n)++] = mf_arena_printf(arena, "%s/%s", dir, e->d_name)))
            st = MF_NOMEM("a list of files");
    }
    (void)closedir(d);
    if (st == MF_OK && *n > 1)
        qsort(*paths, (size_t)*n, sizeof **paths, by_path);
    return st;
}

static mf_status show_dir(const char *dir, int depth, mf_arena *arena, bool json, mf_buf *out)
{
    char **all, **files;
    int64_t n, n_files = 0;
    mf_status st = cmd_events_list(dir, arena, &all, &n);

    files = st == MF_OK ? MF_ARENA_ARRAY(arena, char *, n + 1) : NULL;
    if (st == MF_OK && !files)
        st = MF_NOMEM("a list of files");
    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        if (mf_events_is_name(strrchr(all[i], '/') + 1))
            files[n_files++] = all[i];
    }
    if (st == MF_OK && n_files > 0)
        st = show_files(files, n_files, dir, json, out);
    for (int64_t i = 0; st == MF_OK && depth < MAX_DEPTH && i < n; i++) {
        struct stat info;

        if (lstat(all[i], &info) == 0 && S_ISDIR(info.st_mode))
            st = show_dir(all[i], depth + 1, arena, json, out);
    }
    mf_free(all);
    return st;
}

static mf_status events_run(mf_args *args)
{
    const bool json = mf_args_has(args, "json");
    char *path = (char *)(uintptr_t)args->words[0];
    mf_arena *arena = mf_arena_new();
    mf_buf out = { 0 };
    struct stat info;
    mf_status st;

    if (!arena)
        return MF_NOMEM("events");
    if (stat(path, &info) != 0)
        st = mf_errno_status(errno, "read", path);
    else if (S_ISDIR(info.st_mode))
        st = show_dir(path, 0, arena, json, &out);
    else
        st = show_files(&path, 1, path, json, &out);
    if (st == MF_OK && out.len == 0)
        st = MF_FAIL(MF_NOT_FOUND, "there are no event files in %s", path);
    mf_arena_free(arena);
    if (st == MF_OK)
        st = mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static const mf_option options[] = {
    { .name = "json",
      .help = "print one line of JSON for each run: its tags, their steps and last values" },
    { 0 },
};

const mf_command mf_command_events = {
    .name = "events",
    .arguments = "FILE|DIR",
    .summary = "show the contents of event files",
    .about = "Event files are written by `meshflow train --out` and TensorFlow for TensorBoard. "
             "All files of a folder are shown as one run, and so are the runs in folders inside "
             "it.",
    .options = options,
    .examples = (const char *const[]){ "meshflow events out", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = events_run,
};
