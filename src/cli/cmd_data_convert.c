/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data_convert.c - `meshflow data convert`: writes a data set as a TFRecord file. */
#include "cli/data_options.h"
#include "data/convert.h"

static mf_status cmd_data_convert_run(mf_args *args)
{
    const char *name = mf_args_value(args, "compression");
    mf_dataset *set = NULL;
    mf_compression c = MF_PLAIN;
    mf_buf text = { 0 };
    mf_status st;

    if (name && mf_compression_find(name, &c) != MF_OK)
        return mf_args_wrong(args, "--compression is GZIP or ZLIB, not '%s'", name);
    MF_TRY_TO(done, mf_cli_open_data(args, args->words[0], &set));
    MF_TRY_TO(done, mf_dataset_to_records(set, args->words[1], c));
    mf_buf_printf(&text, "%lld samples written to %s\n", (long long)mf_dataset_count(set),
                  args->words[1]);
    MF_TRY_TO(done, mf_cli_print(&text));
done:
    mf_dataset_unref(set);
    return st;
}

static const mf_option options[] = {
    MF_OPTION_SET,
    { .name = "compression", .value = "KIND", .help = "GZIP or ZLIB (default: none)" },
    { 0 },
};

const mf_command mf_command_data_convert = {
    .name = "data convert",
    .arguments = "DATA FILE",
    .summary = "write a data set as TFRecords of tf.train.Example",
    .about = "Floats become float lists, integers integer lists, bytes and other types raw bytes "
             "with their shape. TensorFlow and Meshflow read such files; Meshflow restores the "
             "columns.",
    .options = options,
    .examples = (const char *const[]){ "meshflow data convert fashion-mnist train.tfrecord "
                                       "--compression GZIP",
                                       NULL },
    .min_args = 2,
    .max_args = 2,
    .run = cmd_data_convert_run,
};
