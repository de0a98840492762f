/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `meshflow`: finds the command, runs it, reports its failure. */
#include "base/exit_code.h"
#include "base/instruction_set.h"
#include "base/mem.h"
#include "base/param.h"
#include "cli/command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without this, a program started with closed standard streams would open files under their
 * numbers. */
static void reserve_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        /* Opened for the wrong direction, so that each use fails. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return;
    }
}

static mf_status set_params(mf_args *args)
{
    const char *assignment;
    int64_t at = 0;

    mf_params_load();
    while ((assignment = mf_args_next(args, "param", &at)) != NULL) {
        const mf_status st = mf_param_set(assignment);

        if (st != MF_OK) {
            args->usage = true;
            return st;
        }
    }
    return MF_OK;
}

/* Also for processes that this one starts. */
static mf_status set_numerics(mf_args *args)
{
    const char *set = mf_args_value(args, "numerics");
    mf_status st;

    if (!set)
        return MF_OK;
    st = mf_isa_pin(set);
    args->usage = st != MF_OK;
    if (st == MF_OK && setenv("MESHFLOW_NUMERICS", set, 1) != 0)
        st = MF_NOMEM("the environment");
    return st;
}

static mf_status print_help(const mf_args *args)
{
    mf_buf text = { 0 };

    if (args->command && (!args->group || strcmp(args->command->name, args->group) == 0))
        mf_help_command(args->command, &text);
    else if (args->group)
        mf_help_group(args->group, &text);
    else
        mf_help_program(&text);
    return mf_cli_print(&text);
}

static mf_status main_run(mf_args *args, int argc, char *const *argv)
{
    MF_TRY(mf_args_parse(args, argc, argv));
    MF_TRY(set_params(args));
    MF_TRY(set_numerics(args));
    if (mf_args_has(args, "help"))
        return print_help(args);
    if (mf_args_has(args, "version")) {
        mf_buf text = { 0 };

        mf_cli_version(&text);
        return mf_cli_print(&text);
    }
    if (args->command)
        return args->command->run(args);
    if (args->group)
        return mf_args_wrong(args, "meshflow %s: name one of its commands", args->group);
    return mf_args_wrong(args, "name a command");
}

/* A message may have several lines; it is printed as one. One write: other tasks may write to the
 * same stream. */
static void print_message(const char *text)
{
    char line[MF_ERROR_MESSAGE_MAX + 16] = "meshflow: ";
    size_t n = strlen(line);

    for (; *text && n < sizeof line - 1; text++) {
        if (*text == '\n')
            text += strspn(text, "\n\t ") - 1, line[n++] = ' ';
        else
            line[n++] = (unsigned char)*text < 0x20 ? '?' : *text;
    }
    line[n++] = '\n';
    (void)fwrite(line, 1, n, stderr);
}

static void main_report(const mf_args *args, mf_status st)
{
    print_message(mf_error_message());
    if (args->hint[0])
        (void)fprintf(stderr, "hint: %s\n", args->hint);
    if (args->usage && args->command)
        (void)fprintf(stderr, "usage: `meshflow %s --help`\n", args->command->name);
    else if (args->usage && args->group)
        (void)fprintf(stderr, "usage: `meshflow %s --help`\n", args->group);
    else if (args->usage)
        (void)fprintf(stderr, "usage: `meshflow --help`\n");
    if (mf_args_has(args, "verbose"))
        (void)fprintf(stderr, "%s\n%s", mf_status_name(st), mf_error_trace());
}

int main(int argc, char **argv)
{
    mf_args args = { 0 };
    mf_status st;

    reserve_standard_streams();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit becomes an error, like a full
                                       disk */
    st = main_run(&args, argc - 1, argv + 1);
    if (st != MF_OK)
        main_report(&args, st);
    if (st != MF_OK && args.exit_code == 0)
        args.exit_code = args.usage ? MF_EXIT_USAGE : MF_EXIT_FAILED;
    mf_args_deinit(&args);
    return args.exit_code;
}
