/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ckpt_verify.c - `meshflow ckpt verify`: checks every checksum of a checkpoint. */
#include "base/mem.h"
#include "cli/ckpt.h"
#include "cli/text.h"
#include "train/checkpoint/checkpoint.h"

#include <string.h>
#include <sys/stat.h>

typedef struct cmd_ckpt_verify_verdict {
    bool json;
    int64_t n, damaged; /* counts of checkpoints */
    mf_buf out;
} cmd_ckpt_verify_verdict;

static void print_problem(cmd_ckpt_verify_verdict *v, bool first, const char *tensor)
{
    const char *why = mf_error_message();
    const bool named = !tensor || strstr(why, tensor); /* most messages name the tensor */

    if (!v->json) {
        mf_buf_printf(&v->out, "  damaged: %s%s%s\n", named ? "" : tensor, named ? "" : ": ", why);
        return;
    }
    mf_buf_str(&v->out, first ? "{\"tensor\":" : ",{\"tensor\":");
    if (tensor)
        mf_buf_json(&v->out, tensor, strlen(tensor));
    else
        mf_buf_str(&v->out, "null");
    mf_buf_str(&v->out, ",\"why\":");
    mf_buf_json(&v->out, why, strlen(why));
    mf_buf_str(&v->out, "}");
}

/* Continues after a damaged tensor. */
static int64_t verify_tensors(cmd_ckpt_verify_verdict *v, mf_tensors *file, int64_t *bytes)
{
    int64_t problems = 0;

    for (int64_t i = 0; i < mf_tensors_count(file); i++) {
        mf_tensor t = { 0 };

        if (mf_tensors_read(file, i, &t) == MF_OK)
            *bytes += mf_ckpt_bytes(&t);
        else
            print_problem(v, problems++ == 0, mf_tensors_name(file, i));
        mf_tensor_clear(&t);
    }
    return problems;
}

static void begin_one(cmd_ckpt_verify_verdict *v, const char *path)
{
    if (v->json) {
        mf_buf_str(&v->out, v->n ? ",\n {\"path\":" : "[{\"path\":");
        mf_buf_json(&v->out, path, strlen(path));
        mf_buf_str(&v->out, ",\"problems\":[");
    } else {
        mf_buf_printf(&v->out, "%s:\n", path);
    }
}

/* Fails only if there is nothing to verify. */
static mf_status verify_one(cmd_ckpt_verify_verdict *v, const char *path)
{
    mf_tensors *file = NULL;
    int64_t problems = 0, bytes = 0;
    char count[MF_TEXT], size[MF_TEXT];
    const mf_status st = mf_tensors_open(path, &file);

    if (st == MF_NOT_FOUND)
        return st;
    begin_one(v, path);
    if (st != MF_OK)
        print_problem(v, problems++ == 0, NULL);
    else
        problems += verify_tensors(v, file, &bytes);
    if (v->json)
        mf_buf_printf(&v->out, "],\"ok\":%s}", problems ? "false" : "true");
    else if (problems == 0)
        mf_buf_printf(&v->out, "  ok: %s tensors, %s bytes%s\n",
                      mf_cli_count(mf_tensors_count(file), count), mf_cli_count(bytes, size),
                      mf_tensors_has_checksums(file)
                          ? ""
                          : "; the format has no checksums: only lengths and offsets were checked");
    mf_tensors_close(file);
    v->n++;
    v->damaged += problems > 0;
    return MF_OK;
}

static mf_status verify_folder(cmd_ckpt_verify_verdict *v, const char *dir)
{
    int64_t *steps, n;
    mf_status st = mf_checkpoints_list(dir, &steps, &n);

    if (st == MF_OK && n == 0)
        st = MF_FAIL(MF_NOT_FOUND, "there is no checkpoint in %s", dir);
    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        char *prefix;

        st = mf_checkpoints_prefix(dir, steps[i], &prefix);
        if (st == MF_OK)
            st = verify_one(v, prefix);
        mf_free(prefix);
    }
    mf_free(steps);
    return st;
}

static mf_status verify_run(mf_args *args)
{
    cmd_ckpt_verify_verdict v = { .json = mf_args_has(args, "json") };
    mf_status st = MF_OK;

    for (int64_t i = 0; st == MF_OK && i < args->n_words; i++) {
        const char *where = args->words[i];
        struct stat info;

        if (stat(where, &info) == 0 && S_ISDIR(info.st_mode))
            st = verify_folder(&v, where);
        else
            st = verify_one(&v, where);
    }
    if (st == MF_OK) {
        mf_buf_str(&v.out, v.json ? "]\n" : "");
        st = mf_cli_print(&v.out);
    }
    mf_buf_deinit(&v.out);
    if (st == MF_OK && v.damaged > 0)
        st = MF_FAIL(MF_DATA_LOSS, "%lld of %lld checkpoint%s damaged", (long long)v.damaged,
                     (long long)v.n, v.n == 1 ? " is" : "s are");
    return st;
}

static const mf_option options[] = {
    { .name = "json", .help = "print a JSON array of objects: path, problems, ok" },
    { 0 },
};

const mf_command mf_command_ckpt_verify = {
    .name = "ckpt verify",
    .arguments = "CKPT...",
    .summary = "verify the checksums of checkpoints",
    .about = "CKPT is a file, the prefix of a TensorFlow checkpoint, or a folder, all of whose "
             "checkpoints are read. Lists the damaged tensors; the exit code is then 1.",
    .options = options,
    .examples = (const char *const[]){ "meshflow ckpt verify run", NULL },
    .min_args = 1,
    .max_args = -1,
    .run = verify_run,
};
