/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - what a command of the program is: one mf_command in one file, cmd_*.c. The table says
 * what its arguments are; parsing, help and man pages come from there.
 *
 * Failing: run() returns the status of what failed. main() prints one line, "meshflow: <message>",
 * and the hint if there is one. Exit codes: base/exit_code.h; without args->exit_code 0 done,
 * 1 failed, 2 called wrongly. */
#ifndef MF_CLI_COMMAND_H
#define MF_CLI_COMMAND_H

#include "base/buf.h"
#include "base/did_you_mean.h"
#include "base/status.h"

/* May the workers of one job be given different values? Every option of `train` says so. */
typedef enum mf_option_scope {
    MF_OPTION_UNSCOPED, /* the command does not start workers */
    MF_OPTION_JOB, /* one value for the job: workers compare theirs before the first step */
    MF_OPTION_TASK, /* each worker may have its own value */
    MF_OPTION_TASK_WITH_STORE, /* likewise in a job with a store, whose tasks may change; else JOB
                                */
} mf_option_scope;

/* The heading under which help lists an option. Headings appear in this order. */
typedef enum mf_option_group {
    MF_GROUP_GENERAL, /* "options" */
    MF_GROUP_DATA,
    MF_GROUP_MODEL,
    MF_GROUP_OPTIMISATION,
    MF_GROUP_DISTRIBUTION,
    MF_GROUP_OUTPUT,
    MF_GROUP_FAULTS,
    MF_GROUP_DIAGNOSIS,
    MF_GROUP_COUNT,
} mf_option_group;

typedef struct mf_option {
    const char *name; /* without "--"; NULL ends a table */
    const char *value; /* the placeholder of its value in help ("FILE"); NULL: it takes no value */
    const char *help;
    char letter; /* "-o" as well; 0: none */
    bool many; /* may be given several times */
    bool hidden; /* accepted, but not in help: an old spelling */
    mf_option_group group;
    mf_option_scope scope;
} mf_option;

typedef struct mf_args mf_args;

typedef struct mf_command {
    const char *name; /* "graph run" */
    const char *arguments; /* "GRAPH"; "" */
    const char *summary; /* for lists: no capital, no full stop */
    const char *about; /* paragraphs, separated by an empty line; lines with two spaces in front
                          are shown as they are */
    const mf_option *options;
    const char *const *examples; /* command lines, ended by NULL; or NULL */
    const char *exits; /* exit codes, a line each, with two spaces in front; NULL: 0, 1, 2 */
    int min_args, max_args; /* max_args -1: any number */
    mf_status (*run)(mf_args *args);
} mf_command;

extern const mf_command *const mf_commands[]; /* in the order of the help; ended by NULL */

/* A row of `meshflow --help`: a command, or a group of commands ("graph"). */
typedef struct mf_topic {
    const char *heading, *name;
    const char *summary; /* of a group; NULL: that of the command */
} mf_topic;

extern const mf_topic mf_topics[]; /* rows of one heading are adjacent; ended by a NULL name */

/* An old spelling of a command: accepted, never shown. */
typedef struct mf_alias {
    const char *old, *name;
} mf_alias;

extern const mf_alias mf_aliases[]; /* ended by a NULL old */
extern const mf_option mf_global_options[]; /* that every command takes */

/* ---- arguments (options.c) ---- */

typedef struct mf_given {
    const mf_option *option;
    const char *value; /* "" for one that takes none */
} mf_given;

struct mf_args {
    const mf_command *command; /* NULL: none was named */
    const char *group; /* "queue" where only the name of a group was given; else NULL */
    mf_given *given; /* in the order of the command line */
    const char **words; /* positional arguments */
    int64_t n_given, n_words, cap_given, cap_words;
    bool usage; /* the failure is a wrong call */
    int exit_code; /* 0: 0 for MF_OK, 1 for a failure, 2 for a wrong call */
    char hint[512]; /* what to do about the failure; "" */
};

/* Take a command line apart (without the program's name): first the command's words, anywhere among
 * the options. `--help` and `--version` end the checks. Owns: strings are borrowed from argv.
 * Fails: INVALID_ARGUMENT, with args->usage set. */
MF_MUST mf_status mf_args_parse(mf_args *args, int argc, char *const *argv);
void mf_args_deinit(mf_args *args);

bool mf_args_has(const mf_args *args, const char *option);
/* The last value given, or NULL. */
const char *mf_args_value(const mf_args *args, const char *option);
/* The values of a repeated option one after the other: start with *at = 0; NULL at the end. */
const char *mf_args_next(const mf_args *args, const char *option, int64_t *at);
/* A whole number in [min, max]; *out keeps its value when the option is absent. Fails as a wrong
 * call. */
MF_MUST mf_status mf_args_int(mf_args *args, const char *option, int64_t min, int64_t max,
                              int64_t *out);
/* "name=rest": *name is a fresh copy (mf_free), *rest borrowed. Fails as a wrong call. */
MF_MUST mf_status mf_args_pair(mf_args *args, const char *option, const char *value, char **name,
                               const char **rest);

/* A wrong call: INVALID_ARGUMENT and exit code 2. */
mf_status mf_args_wrong(mf_args *args, const char *fmt, ...) MF_PRINTF(2, 3);
/* What to do about a failure, for its second line. The first hint stays. */
void mf_args_hint(mf_args *args, const char *fmt, ...) MF_PRINTF(2, 3);

/* ---- commands (commands.c, aliases.c) ---- */

/* By the name of today, or also by an old one. NULL: there is no such command. */
const mf_command *mf_command_find(const char *name);
const mf_command *mf_command_resolve(const char *name);
/* The name of today of an old spelling; NULL: it is not one. */
const char *mf_alias_find(const char *old);
/* Commands "graph run", "graph print" ... exist, so "graph" is the name of a group. */
bool mf_command_is_group(const char *name);
/* Is it one of the group's? */
bool mf_command_is_of(const mf_command *command, const char *group);
/* The command, old or new, or group whose name is closest to a mistyped one; NULL: none is. */
const char *mf_command_closest(const char *name);

/* ---- help (help.c) ---- */

/* The exit codes of commands that run jobs (base/exit_code.h). */
#define MF_EXITS_OF_JOBS                                                                           \
    "  0   finished, and the result is on disk\n"                                                  \
    "  1   failed; another try may succeed\n"                                                      \
    "  2   invalid usage or settings; never restarted\n"                                           \
    "  3   the state is lost; never restarted\n"                                                   \
    "  75  stopped or left before the end; --resume continues it\n"
/* And of those that look at jobs. */
#define MF_EXITS_OF_HEALTH                                                                         \
    "  0   all jobs that were looked at make progress, or there are none\n"                        \
    "  1   there is no such job, or it cannot be looked at\n"                                      \
    "  2   invalid usage\n"                                                                        \
    "  4   a job makes no progress: a task keeps the others waiting for more than a second\n"      \
    "  5   a task of a job is dead\n"

void mf_help_program(mf_buf *out);
/* The commands of a group; after the help of a command that has the group's name, too. */
void mf_help_group(const char *name, mf_buf *out);
void mf_help_command(const mf_command *command, mf_buf *out);
/* The same as a man page; NULL: of the program as a whole. */
void mf_help_man(const mf_command *command, mf_buf *out);

/* ---- output ---- */

/* Write to standard output and free the buffer. A closed pipe is no failure.
 * Fails: UNAVAILABLE, RESOURCE_EXHAUSTED (the text is incomplete). */
MF_MUST mf_status mf_cli_print(mf_buf *text);
/* The same for what was done before something failed with `st`, which is returned then. */
MF_MUST mf_status mf_cli_print_done(mf_status st, mf_buf *text);
/* The answer to --version. */
void mf_cli_version(mf_buf *out);

#endif
