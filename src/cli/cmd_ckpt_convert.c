/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ckpt_convert.c - `meshflow ckpt convert`: writes the tensors in another format. */
#include "base/mem.h"
#include "cli/ckpt.h"
#include "cli/text.h"

#include <fnmatch.h>
#include <string.h>

typedef struct chosen {
    const char **names;
    mf_tensor *values;
    const mf_tensor **pointers;
    int64_t n;
} chosen;

static bool is_wanted(const mf_args *args, const char *name)
{
    const char *pattern;
    int64_t at = 0;

    if (!mf_args_has(args, "only"))
        return true;
    while ((pattern = mf_args_next(args, "only", &at)) != NULL) {
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

static mf_status cmd_ckpt_convert_read_all(const mf_args *args, mf_tensors *file, chosen *c)
{
    const int64_t n = mf_tensors_count(file);

    c->names = mf_calloc(n + 1, sizeof *c->names);
    c->values = mf_calloc(n + 1, sizeof *c->values);
    c->pointers = mf_calloc(n + 1, sizeof *c->pointers);
    if (!c->names || !c->values || !c->pointers)
        return MF_NOMEM("a checkpoint");
    for (int64_t i = 0; i < n; i++) {
        c->names[c->n] = mf_tensors_name(file, i);
        c->pointers[c->n] = &c->values[c->n];
        if (!is_wanted(args, c->names[c->n]))
            continue;
        MF_TRY(mf_tensors_read(file, i, &c->values[c->n]));
        c->n++;
    }
    if (c->n == 0)
        return MF_FAIL(MF_NOT_FOUND, "no tensor matches --only");
    return MF_OK;
}

/* An unknown file extension would become part of the prefix of a TensorFlow checkpoint. Valid
 * extensions of prefixes are ".ckpt", also followed by a step, and numbers. */
static mf_status check_ending(const char *to)
{
    static const char *const known[] = { "npz", "safetensors", "mfz" };
    const char *slash = strrchr(to, '/'), *dot = strrchr(slash ? slash : to, '.');

    if (!dot || strncmp(dot + 1, "ckpt", 4) == 0 ||
        strspn(dot + 1, "0123456789-") == strlen(dot + 1))
        return MF_OK;
    for (int i = 0; i < MF_COUNT(known); i++) {
        if (strcmp(dot + 1, known[i]) == 0)
            return MF_OK;
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%.200s': unknown format '%.40s'; known are .npz, .safetensors and .mfz, and a "
                   "TensorFlow checkpoint, whose prefix has no extension or .ckpt",
                   to, dot);
}

static mf_status cmd_ckpt_convert_run(mf_args *args)
{
    const char *to = args->words[1];
    mf_tensors *file;
    chosen c = { 0 };
    mf_buf out = { 0 };
    char *path, count[MF_TEXT];
    mf_status st;

    MF_TRY(check_ending(to));
    MF_TRY(mf_ckpt_open(args, args->words[0], &file, &path));
    st = cmd_ckpt_convert_read_all(args, file, &c);
    if (st == MF_OK) {
        st = mf_tensors_write(to, c.names, c.pointers, c.n);
        if (st == MF_UNIMPLEMENTED)
            mf_args_hint(args, "--only PATTERN excludes tensors that %s cannot store", to);
    }
    if (st == MF_OK) {
        mf_buf_printf(&out, "%s tensors written to %s\n", mf_cli_count(c.n, count), to);
        st = mf_cli_print(&out);
    }
    for (int64_t i = 0; i < c.n; i++)
        mf_tensor_clear(&c.values[i]);
    mf_free(c.names);
    mf_free(c.values);
    mf_free(c.pointers);
    mf_tensors_close(file);
    mf_free(path);
    return st;
}

static const mf_option options[] = {
    { .name = "only",
      .value = "PATTERN",
      .help = "only tensors whose names match, e.g. 'dense*'",
      .many = true },
    { 0 },
};

const mf_command mf_command_ckpt_convert = {
    .name = "ckpt convert",
    .arguments = "FROM TO",
    .summary = "write a checkpoint in another format",
    .about =
        "The extension of TO selects the format: .npz, .safetensors, .mfz (packed); without an "
        "extension, or with .ckpt, TO is the prefix of a TensorFlow checkpoint. Values keep "
        "their bits. String scalars become metadata of safetensors files, which have no string "
        "tensors.",
    .options = options,
    .examples = (const char *const[]){ "meshflow ckpt convert run weights.safetensors "
                                       "--only 'dense*/kernel' --only 'dense*/bias'",
                                       "meshflow ckpt convert weights.npz init/model", NULL },
    .min_args = 2,
    .max_args = 2,
    .run = cmd_ckpt_convert_run,
};
