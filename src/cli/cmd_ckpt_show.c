/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ckpt_show.c - `meshflow ckpt show`: the contents of a checkpoint. */
#include "base/mem.h"
#include "cli/ckpt.h"
#include "cli/show.h"
#include "cli/text.h"

#include <math.h>
#include <string.h>

typedef struct cmd_ckpt_show_row {
    const char *name;
    mf_dtype dtype;
    mf_shape shape;
    int64_t bytes;
    mf_ckpt_summary summary;
    mf_tensor value; /* of training state, which is small; otherwise an empty slot */
} cmd_ckpt_show_row;

static mf_status cmd_ckpt_show_read_rows(mf_tensors *file, cmd_ckpt_show_row *rows)
{
    for (int64_t i = 0; i < mf_tensors_count(file); i++) {
        cmd_ckpt_show_row *r = &rows[i];
        mf_tensor t = { 0 };

        r->name = mf_tensors_name(file, i);
        MF_TRY(mf_tensors_read(file, i, &t));
        r->dtype = t.dtype;
        r->shape = t.shape;
        r->bytes = mf_ckpt_bytes(&t);
        r->summary = mf_ckpt_summarize(&t);
        if (mf_ckpt_is_state(r->name) || t.dtype == MF_DTYPE_STRING)
            mf_tensor_move(&r->value, &t);
        mf_tensor_clear(&t);
    }
    return MF_OK;
}

/* ---- text output ---- */

static int widest(const cmd_ckpt_show_row *rows, int64_t n)
{
    int width = 4;

    for (int64_t i = 0; i < n; i++) {
        const int w = mf_cli_width(rows[i].name);

        width = w > width ? w : width;
    }
    return width < 60 ? width : 60;
}

static void print_number(const cmd_ckpt_show_row *r, double v, mf_buf *out)
{
    char text[MF_TEXT];
    const bool whole = mf_dtype_is_int(r->dtype) && v == nearbyint(v) && fabs(v) < 1e15;

    if (r->summary.n > 0)
        mf_buf_printf(out, " %11s",
                      whole ? mf_cli_count((int64_t)v, text) : mf_cli_number(v, text));
    else
        mf_buf_printf(out, " %11s", "-");
}

static void cmd_ckpt_show_print_row(const cmd_ckpt_show_row *r, int width, mf_buf *out)
{
    char shape[MF_SHAPE_TEXT], text[MF_TEXT];

    mf_buf_printf(out, "  %s%*s  %-9s %-14s %12s", r->name, width - mf_cli_width(r->name), "",
                  mf_dtype_name(r->dtype), mf_shape_text(&r->shape, shape),
                  mf_cli_count(r->bytes, text));
    print_number(r, r->summary.min, out);
    print_number(r, r->summary.mean, out);
    print_number(r, r->summary.max, out);
    if (r->summary.nans > 0)
        mf_buf_printf(out, "  %s NaN", mf_cli_count(r->summary.nans, text));
    mf_buf_str(out, "\n");
}

static void print_state(const cmd_ckpt_show_row *rows, int64_t n, int width, mf_buf *out)
{
    bool any = false;

    for (int64_t i = 0; i < n; i++) {
        const cmd_ckpt_show_row *r = &rows[i];

        if (!mf_ckpt_is_state(r->name))
            continue;
        mf_buf_str(out, any ? "" : "training state, for an exact resume:\n");
        any = true;
        mf_buf_printf(out, "  %s%*s  ", r->name, width - mf_cli_width(r->name), "");
        mf_show_text(&r->value, out);
        mf_buf_str(out, "\n");
    }
}

static void cmd_ckpt_show_print_table(const mf_tensors *file, const char *path,
                                      const cmd_ckpt_show_row *rows, mf_buf *out)
{
    const int64_t n = mf_tensors_count(file);
    const int width = widest(rows, n);
    int64_t bytes = 0;
    char count[MF_TEXT], size[MF_TEXT];

    for (int64_t i = 0; i < n; i++)
        bytes += rows[i].bytes;
    mf_buf_printf(out, "%s: %s, %s tensors, %s bytes\n", path, mf_tensors_format(file),
                  mf_cli_count(n, count), mf_cli_count(bytes, size));
    mf_buf_printf(out, "  %-*s  %-9s %-14s %12s %11s %11s %11s\n", width, "name", "type", "shape",
                  "bytes", "min", "mean", "max");
    for (int64_t i = 0; i < n; i++) {
        if (!mf_ckpt_is_state(rows[i].name))
            cmd_ckpt_show_print_row(&rows[i], width, out);
    }
    print_state(rows, n, width, out);
}

/* ---- JSON output ---- */

static void json_number(const char *name, const cmd_ckpt_show_row *r, double v, mf_buf *out)
{
    if (r->summary.n > 0 && isfinite(v))
        mf_buf_printf(out, ",\"%s\":%.17g", name, v);
    else
        mf_buf_printf(out, ",\"%s\":null", name);
}

static void cmd_ckpt_show_print_json(const mf_tensors *file, const char *path,
                                     const cmd_ckpt_show_row *rows, mf_buf *out)
{
    mf_buf_str(out, "{\"path\":");
    mf_buf_json(out, path, strlen(path));
    mf_buf_printf(out, ",\"format\":\"%s\",\"tensors\":[", mf_tensors_format(file));
    for (int64_t i = 0; i < mf_tensors_count(file); i++) {
        const cmd_ckpt_show_row *r = &rows[i];

        mf_buf_str(out, i ? ",{\"name\":" : "{\"name\":");
        mf_buf_json(out, r->name, strlen(r->name));
        mf_buf_printf(out, ",\"type\":\"%s\",\"shape\":[", mf_dtype_name(r->dtype));
        for (int d = 0; d < r->shape.rank; d++)
            mf_buf_printf(out, "%s%lld", d ? "," : "", (long long)r->shape.dims[d]);
        mf_buf_printf(out, "],\"bytes\":%lld,\"nan\":%lld,\"zeros\":%lld", (long long)r->bytes,
                      (long long)r->summary.nans, (long long)r->summary.zeros);
        json_number("min", r, r->summary.min, out);
        json_number("mean", r, r->summary.mean, out);
        json_number("max", r, r->summary.max, out);
        mf_buf_printf(out, ",\"state\":%s}", mf_ckpt_is_state(r->name) ? "true" : "false");
    }
    mf_buf_str(out, "]}\n");
}

/* ---- the command ---- */

static mf_status show_all(mf_args *args, mf_tensors *file, const char *path)
{
    const int64_t n = mf_tensors_count(file);
    cmd_ckpt_show_row *rows = mf_calloc(n + 1, sizeof *rows);
    mf_buf out = { 0 };
    mf_status st = rows ? cmd_ckpt_show_read_rows(file, rows) : MF_NOMEM("a table");

    if (st == MF_OK) {
        if (mf_args_has(args, "json"))
            cmd_ckpt_show_print_json(file, path, rows, &out);
        else
            cmd_ckpt_show_print_table(file, path, rows, &out);
        st = mf_cli_print(&out);
    }
    for (int64_t i = 0; rows && i < n; i++)
        mf_tensor_clear(&rows[i].value);
    mf_free(rows);
    return st;
}

static mf_status show_values(mf_args *args, mf_tensors *file, const char *path, const char *name)
{
    const int64_t at = mf_tensors_find(file, name);
    char shape[MF_SHAPE_TEXT];
    mf_tensor t = { 0 };
    mf_buf out = { 0 };

    if (at < 0) {
        mf_args_hint(args, "meshflow ckpt show %.200s lists the tensors", path);
        return MF_FAIL(MF_NOT_FOUND, "%s has no tensor '%s'", path, name);
    }
    MF_TRY(mf_tensors_read(file, at, &t));
    if (mf_args_has(args, "json")) {
        mf_show_json(&t, INT64_MAX, &out);
    } else {
        mf_buf_printf(&out, "%s %s%s\n", name, mf_dtype_name(t.dtype),
                      mf_shape_text(&t.shape, shape));
        mf_show_text(&t, &out);
    }
    mf_buf_str(&out, "\n");
    mf_tensor_clear(&t);
    return mf_cli_print(&out);
}

static mf_status cmd_ckpt_show_run(mf_args *args)
{
    const char *name = mf_args_value(args, "values");
    mf_tensors *file;
    mf_status st;
    char *path;

    MF_TRY(mf_ckpt_open(args, args->words[0], &file, &path));
    st = name ? show_values(args, file, path, name) : show_all(args, file, path);
    if (st == MF_DATA_LOSS)
        mf_args_hint(args, "meshflow ckpt verify %.200s lists the damaged tensors", path);
    mf_tensors_close(file);
    mf_free(path);
    return st;
}

static const mf_option options[] = {
    { .name = "values", .value = "NAME", .help = "print the values of this tensor" },
    { .name = "json",
      .help = "print one JSON object: path, format, tensors; with --values, nested lists of "
              "values" },
    { 0 },
};

const mf_command mf_command_ckpt_show = {
    .name = "ckpt show",
    .arguments = "CKPT",
    .summary = "show the contents of a checkpoint",
    .about = "CKPT is a folder of checkpoints (the newest is shown), the prefix of a TensorFlow "
             "checkpoint (or one of its files), a .npz or a .safetensors file. Lists names, "
             "types, shapes, sizes and the least, mean and largest element of each tensor. NaNs "
             "are excluded.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow ckpt show run",
                               "meshflow ckpt show run/model.ckpt-300 --values dense/bias", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_ckpt_show_run,
};
