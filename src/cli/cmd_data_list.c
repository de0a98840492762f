/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data_list.c - `meshflow data list`: known data sets and file formats. */
#include "cli/command.h"
#include "data/source.h"

#include <string.h>

static void print_sources(bool names, mf_buf *out)
{
    for (int i = 0; mf_sources[i]; i++) {
        const mf_source *s = mf_sources[i];

        if (s->is_name == names)
            mf_buf_printf(out, "  %-19s %s\n  %-19s   %s\n", s->name, s->summary, "", s->settings);
    }
}

static void cmd_data_list_print_json(mf_buf *out)
{
    for (int i = 0; mf_sources[i]; i++) {
        const mf_source *s = mf_sources[i];

        mf_buf_printf(out, "%s{\"name\":\"%s\",\"by_name\":%s,\"summary\":", i ? ",\n " : "[",
                      s->name, s->is_name ? "true" : "false");
        mf_buf_json(out, s->summary, strlen(s->summary));
        mf_buf_str(out, ",\"settings\":");
        mf_buf_json(out, s->settings, strlen(s->settings));
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]\n");
}

static mf_status list_run(mf_args *args)
{
    mf_buf text = { 0 };

    if (mf_args_has(args, "json")) {
        cmd_data_list_print_json(&text);
        return mf_cli_print(&text);
    }
    mf_buf_str(&text, "known data sets and their settings:\n");
    print_sources(true, &text);
    mf_buf_str(&text, "formats of files and folders (write FORMAT:PATH where the name does not "
                      "identify the format):\n");
    print_sources(false, &text);
    return mf_cli_print(&text);
}

static const mf_option options[] = {
    { .name = "json", .help = "print a JSON array of objects" },
    { 0 },
};

const mf_command mf_command_data_list = {
    .name = "data list",
    .arguments = "",
    .summary = "list known data sets and file formats",
    .about = "Settings are listed as name: type = default. Pass them as --set 'name=value "
             "name=value'.",
    .options = options,
    .run = list_run,
};
