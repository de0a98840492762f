/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - `meshflow help`: the text of --help, and man pages. */
#include "base/file.h"
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

static mf_status write_page(const char *dir, const mf_command *c)
{
    char path[4096];
    mf_buf text = { 0 };
    mf_status st;
    int n = snprintf(path, sizeof path, "%s/meshflow", dir);

    if (n < 0 || n > (int)sizeof path - 80)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the name of the directory is too long");
    for (const char *from = c ? c->name : ""; *from; from++) {
        if (from == c->name)
            path[n++] = '-';
        path[n++] = *from == ' ' ? '-' : *from;
    }
    (void)snprintf(path + n, sizeof path - (size_t)n, ".1");
    mf_help_man(c, &text);
    st = mf_buf_finish(&text);
    if (st == MF_OK)
        st = mf_file_write(path, text.data, text.len);
    mf_buf_deinit(&text);
    return st;
}

static mf_status write_pages(const char *dir)
{
    for (int i = 0; mf_commands[i]; i++)
        MF_TRY(write_page(dir, mf_commands[i]));
    return write_page(dir, NULL); /* last: the build checks for this page */
}

static mf_status help_run(mf_args *args)
{
    const char *dir = mf_args_value(args, "man-dir");
    const mf_command *c = NULL;
    mf_buf text = { 0 };
    char name[64] = "";

    if (dir)
        return write_pages(dir);
    if (args->n_words > 0) {
        (void)snprintf(name, sizeof name, "%.30s%s%.30s", args->words[0],
                       args->n_words > 1 ? " " : "", args->n_words > 1 ? args->words[1] : "");
        c = mf_command_resolve(name);
        if (!c && !mf_command_is_group(name))
            return mf_args_wrong(args, "there is no command '%s'", name);
    }
    if (mf_args_has(args, "man"))
        mf_help_man(c, &text);
    else if (c && (strcmp(c->name, name) == 0 || !mf_command_is_group(name)))
        mf_help_command(c, &text);
    else if (name[0])
        mf_help_group(name, &text);
    else
        mf_help_program(&text);
    return mf_cli_print(&text);
}

static const mf_option options[] = {
    { .name = "man", .help = "print a man page" },
    { .name = "man-dir", .value = "DIR", .help = "write all man pages to this directory" },
    { 0 },
};

const mf_command mf_command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "show the help of a command",
    .about = "Without a command, lists all commands.",
    .options = options,
    .examples = (const char *const[]){ "meshflow help graph run",
                                       "meshflow help graph run --man | man -l -", NULL },
    .max_args = 2,
    .run = help_run,
};
