/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data_show.c - `meshflow data show`: the contents of a data set and one sample. */
#include "cli/data_options.h"
#include "cli/show.h"
#include "cli/text.h"
#include "data/dataset.h"
#include "report/terminal_image.h"

#include <limits.h>
#include <string.h>

enum { MOST_COUNTED = 200000, MOST_CLASSES = 1000, BAR = 40 };

typedef struct histogram {
    int column; /* -1: there is no label */
    int64_t *counts;
    int64_t counted;
} histogram;

/* Counts labels of the first samples; reads only that column. */
static mf_status count_labels(const mf_dataset *set, histogram *h)
{
    const int at = mf_dataset_find_column(set, "label");
    void *columns[MF_DATASET_COLUMNS] = { NULL };
    int32_t label;

    h->column = -1;
    if (at < 0 || set->columns[at].dtype != MF_DTYPE_I32 || set->columns[at].rank != 0 ||
        set->classes < 1 || set->classes > MOST_CLASSES)
        return MF_OK;
    h->counts = mf_calloc(set->classes, sizeof *h->counts);
    if (!h->counts)
        return MF_NOMEM("counting labels");
    h->column = at;
    columns[at] = &label;
    h->counted = set->count < MOST_COUNTED ? set->count : MOST_COUNTED;
    for (int64_t i = 0; i < h->counted; i++) {
        MF_TRY(mf_dataset_read(set, 0, i, columns));
        if (label >= 0 && label < set->classes)
            h->counts[label]++;
    }
    return MF_OK;
}

static mf_shape cmd_data_show_shape_of(const mf_column *c)
{
    mf_shape s = { .rank = c->rank };

    memcpy(s.dims, c->dims, sizeof s.dims);
    return s;
}

static void cmd_data_show_print_columns(const mf_dataset *set, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_printf(out, "%lld samples\n", (long long)set->count);
    for (int i = 0; i < set->n_columns; i++) {
        const mf_column *c = &set->columns[i];
        const mf_shape s = cmd_data_show_shape_of(c);

        mf_buf_printf(out, "  %-12s %s %s\n", c->name, mf_dtype_name(c->dtype),
                      mf_shape_text(&s, text));
    }
}

/* A class name may contain any characters. */
static void print_class(const char *name, mf_buf *out)
{
    enum { COLUMN = 14 };
    mf_buf text = { 0 };

    mf_cli_put_name(&text, name, INT_MAX);
    mf_buf_str(out, text.data ? text.data : "");
    for (int n = mf_cli_width(text.data ? text.data : ""); n < COLUMN; n++)
        mf_buf_str(out, " ");
    mf_buf_deinit(&text);
}

static void print_histogram(const mf_dataset *set, const histogram *h, mf_buf *out)
{
    int64_t most = 1;

    if (set->classes > 0)
        mf_buf_printf(out, "%lld classes%s\n", (long long)set->classes,
                      h->counted < set->count && h->column >= 0 ? ", counted in the first samples"
                                                                : "");
    for (int64_t c = 0; h->column >= 0 && c < set->classes; c++)
        most = h->counts[c] > most ? h->counts[c] : most;
    for (int64_t c = 0; h->column >= 0 && c < set->classes; c++) {
        mf_buf_printf(out, "  %3lld ", (long long)c);
        print_class(set->class_names ? set->class_names[c] : "", out);
        mf_buf_printf(out, " %8lld ", (long long)h->counts[c]);
        for (int64_t b = 0; b < h->counts[c] * BAR / most; b++)
            mf_buf_str(out, "█");
        mf_buf_str(out, "\n");
    }
}

/* ---- one sample ---- */

static bool cmd_data_show_is_picture(const mf_column *c)
{
    return c->dtype == MF_DTYPE_U8 && c->rank == 3 && (c->dims[2] == 1 || c->dims[2] == 3) &&
           c->dims[0] > 0 && c->dims[1] > 0;
}

/* All elements are words of the vocabulary, or (words false) characters, ended by zeros. */
static bool are_tokens(const mf_tensor *t, const mf_dataset *set, bool words)
{
    const int32_t *v = t->data;
    int64_t n = t->count;

    if (t->dtype != MF_DTYPE_I32 || t->shape.rank != 1 || n == 0 || (words && !set->class_names))
        return false;
    while (!words && n > 1 && v[n - 1] == 0)
        n--;
    for (int64_t i = 0; i < n; i++) {
        if (words ? v[i] < 0 || v[i] >= set->classes : v[i] < ' ' || v[i] > '~')
            return false;
    }
    return true;
}

/* Prints tokens as text: words if the label is a row of classes, else characters where possible. */
static bool print_tokens(const mf_dataset *set, const mf_tensor *t, mf_buf *out)
{
    const int label = mf_dataset_find_column(set, "label");
    const bool words = label >= 0 && set->columns[label].rank == 1;
    const int32_t *v = t->data;

    if (!are_tokens(t, set, words))
        return false;
    for (int64_t i = 0; i < t->count && (words || v[i]); i++) {
        if (words)
            mf_buf_printf(out, "%s%s", i ? " " : "", set->class_names[v[i]]);
        else
            mf_buf_printf(out, "%c", (char)v[i]);
    }
    mf_buf_str(out, "\n");
    return true;
}

static void cmd_data_show_print_value(const mf_dataset *set, int i, const mf_tensor *t, mf_buf *out)
{
    const mf_column *c = &set->columns[i];

    mf_buf_printf(out, "%s:", c->name);
    if (cmd_data_show_is_picture(c)) {
        mf_buf_str(out, "\n");
        mf_terminal_image_draw(t->data, c->dims[0], c->dims[1], c->dims[2], out);
        return;
    }
    mf_buf_str(out, " ");
    if (print_tokens(set, t, out))
        return;
    mf_show_text(t, out);
    if (strcmp(c->name, "label") == 0 && c->rank == 0 && set->class_names &&
        *(const int32_t *)t->data >= 0 && *(const int32_t *)t->data < set->classes) {
        mf_buf_str(out, " (");
        mf_cli_put_name(out, set->class_names[*(const int32_t *)t->data], INT_MAX);
        mf_buf_str(out, ")");
    }
    mf_buf_str(out, "\n");
}

static mf_status cmd_data_show_print_sample(const mf_dataset *set, int64_t index, mf_buf *out)
{
    mf_tensor values[MF_DATASET_COLUMNS] = { { 0 } };
    void *columns[MF_DATASET_COLUMNS] = { NULL };
    mf_status st = MF_OK;

    for (int i = 0; i < set->n_columns; i++) {
        const mf_shape s = cmd_data_show_shape_of(&set->columns[i]);

        MF_TRY_TO(done, mf_tensor_alloc(&values[i], set->columns[i].dtype, &s));
        columns[i] = values[i].data;
    }
    MF_TRY_TO(done, mf_dataset_read(set, 0, index, columns));
    mf_buf_printf(out, "sample %lld\n", (long long)index);
    for (int i = 0; i < set->n_columns; i++)
        cmd_data_show_print_value(set, i, &values[i], out);
done:
    for (int i = 0; i < set->n_columns; i++)
        mf_tensor_clear(&values[i]);
    return st;
}

static void cmd_data_show_print_json(const mf_dataset *set, const histogram *h, mf_buf *out)
{
    mf_buf_printf(out, "{\"count\":%lld,\"columns\":[", (long long)set->count);
    for (int i = 0; i < set->n_columns; i++) {
        const mf_column *c = &set->columns[i];

        mf_buf_str(out, i ? ",{\"name\":" : "{\"name\":");
        mf_buf_json(out, c->name, strlen(c->name));
        mf_buf_printf(out, ",\"type\":\"%s\",\"shape\":[", mf_dtype_name(c->dtype));
        for (int d = 0; d < c->rank; d++)
            mf_buf_printf(out, "%s%lld", d ? "," : "", (long long)c->dims[d]);
        mf_buf_str(out, "]}");
    }
    mf_buf_printf(out, "],\"classes\":%lld,\"names\":[", (long long)set->classes);
    for (int64_t c = 0; set->class_names && c < set->classes; c++) {
        mf_buf_str(out, c ? "," : "");
        mf_buf_json(out, set->class_names[c], strlen(set->class_names[c]));
    }
    mf_buf_str(out, "],\"labels\":[");
    for (int64_t c = 0; h->column >= 0 && c < set->classes; c++)
        mf_buf_printf(out, "%s%lld", c ? "," : "", (long long)h->counts[c]);
    mf_buf_str(out, "]}\n");
}

static mf_status cmd_data_show_run(mf_args *args)
{
    histogram h = { 0 };
    mf_dataset *set = NULL;
    mf_buf text = { 0 };
    int64_t index = 0;
    mf_status st;

    MF_TRY(mf_args_int(args, "sample", 0, INT64_MAX, &index));
    MF_TRY_TO(done, mf_cli_open_data(args, args->words[0], &set));
    MF_TRY_TO(done, count_labels(set, &h));
    if (mf_args_has(args, "json")) {
        cmd_data_show_print_json(set, &h, &text);
    } else {
        cmd_data_show_print_columns(set, &text);
        print_histogram(set, &h, &text);
        if (set->count > 0)
            MF_TRY_TO(done, cmd_data_show_print_sample(set, index, &text));
    }
    st = mf_cli_print(&text);
done:
    mf_buf_deinit(&text);
    mf_free(h.counts);
    mf_dataset_unref(set);
    return st;
}

static const mf_option options[] = {
    MF_OPTION_SET,
    { .name = "sample", .value = "N", .help = "sample to show (default: 0)" },
    { .name = "json", .help = "print one JSON object: count, columns, classes, names, labels" },
    { 0 },
};

const mf_command mf_command_data_show = {
    .name = "data show",
    .arguments = "DATA",
    .summary = "show the contents of a data set and one sample",
    .about = "DATA is a name (`meshflow data list`), a folder (IDX files, CIFAR batches, images "
             "by class) or files, also as a pattern: train-*.tfrecord, table.csv, a.npz. Images "
             "are drawn with block characters.",
    .options = options,
    .examples = (const char *const[]){ "meshflow data show fashion-mnist --sample 7",
                                       "meshflow data show table.csv --set 'label=price "
                                       "target=number'",
                                       NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_data_show_run,
};
