/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - commands of the program: each is one mf_command, in its own file cmd_*.c. Parsing,
 * help and man pages use its tables.
 *
 * Errors: run() returns a status. main() prints one line, "meshflow: <message>", and the hint if
 * there is one. Exit codes: base/exit_code.h; unless args->exit_code is set, 0 success, 1 failure,
 * 2 invalid usage. */
#ifndef MF_CLI_COMMAND_H
#define MF_CLI_COMMAND_H

#include "base/buf.h"
#include "base/did_you_mean.h"
#include "base/status.h"

/* Whether the workers of one job may have different values of an option. Every option of `train`
 * sets it. */
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
    const char *old; /* an old name: accepted, not in help; NULL: none */
    bool hidden; /* accepted, not in help */
    mf_option_group group;
    mf_option_scope scope;
} mf_option;

typedef struct mf_args mf_args;

typedef struct mf_command {
    const char *name; /* "graph run" */
    const char *arguments; /* "GRAPH"; "" */
    const char *summary; /* in lists of commands; no capital, no full stop */
    const char *about; /* paragraphs, separated by an empty line; lines with two leading spaces are
                          printed unchanged */
    const mf_option *options;
    const char *const *examples; /* command lines, ended by NULL; or NULL */
    const char *exits; /* one line for each exit code, with two leading spaces; NULL: 0, 1, 2 */
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

/* An old spelling of a command: accepted, not in help. */
typedef struct mf_alias {
    const char *old, *name;
} mf_alias;

extern const mf_alias mf_aliases[]; /* ended by a NULL old */
extern const mf_option mf_global_options[]; /* of every command */

/* ---- arguments (options.c) ---- */

typedef struct mf_given {
    const mf_option *option;
    const char *value; /* "" for an option without a value */
} mf_given;

struct mf_args {
    const mf_command *command; /* NULL: no command was named */
    const char *group; /* "queue" if only the name of a group was given; otherwise NULL */
    mf_given *given; /* in the order of the command line */
    const char **words; /* positional arguments */
    int64_t n_given, n_words, cap_given, cap_words;
    bool usage; /* the failure is invalid usage */
    int exit_code; /* 0: 0 for MF_OK, 1 for a failure, 2 for invalid usage */
    char hint[512]; /* how to fix the failure; "" */
};

/* Parses a command line (without the program's name): first the words of the command, which may be
 * anywhere among the options. `--help` and `--version` disable the checks of arguments. Owns:
 * strings are borrowed from argv. Fails: INVALID_ARGUMENT, with args->usage set. */
MF_MUST mf_status mf_args_parse(mf_args *args, int argc, char *const *argv);
void mf_args_deinit(mf_args *args);

bool mf_args_has(const mf_args *args, const char *option);
/* The last value, or NULL. */
const char *mf_args_value(const mf_args *args, const char *option);
/* Iterates over the values of a repeated option: start with *at = 0; returns NULL at the end. */
const char *mf_args_next(const mf_args *args, const char *option, int64_t *at);
/* An integer in [min, max]; *out keeps its value if the option is absent. Fails as invalid usage.
 */
MF_MUST mf_status mf_args_int(mf_args *args, const char *option, int64_t min, int64_t max,
                              int64_t *out);
/* "name=rest": *name is a new copy (mf_free), *rest is borrowed. Fails as invalid usage. */
MF_MUST mf_status mf_args_pair(mf_args *args, const char *option, const char *value, char **name,
                               const char **rest);

/* Invalid usage: returns INVALID_ARGUMENT; the exit code is 2. */
mf_status mf_args_wrong(mf_args *args, const char *fmt, ...) MF_PRINTF(2, 3);
/* How to fix the failure, printed on a second line. The first hint is kept. */
void mf_args_hint(mf_args *args, const char *fmt, ...) MF_PRINTF(2, 3);

/* ---- commands (commands.c, aliases.c) ---- */

/* mf_command_find() knows current names, mf_command_resolve() also old ones. NULL: there is no such
 * command. */
const mf_command *mf_command_find(const char *name);
const mf_command *mf_command_resolve(const char *name);
/* The current name of an old spelling, or NULL. */
const char *mf_alias_find(const char *old);
/* "graph" is the name of a group because there are commands "graph run", "graph print", ... */
bool mf_command_is_group(const char *name);
/* The command belongs to the group. */
bool mf_command_is_of(const mf_command *command, const char *group);
/* The command or group whose current or old name is closest to a mistyped one; NULL: none is close.
 */
const char *mf_command_closest(const char *name);

/* ---- help (help.c) ---- */

/* Exit codes of commands that run jobs (base/exit_code.h). */
#define MF_EXITS_OF_JOBS                                                                           \
    "  0   finished, and the result is on disk\n"                                                  \
    "  1   failed; another try may succeed\n"                                                      \
    "  2   invalid usage or settings; not restarted\n"                                             \
    "  3   the state is lost; not restarted\n"                                                     \
    "  75  stopped or left before the end; --resume continues it\n"
/* Exit codes of commands that inspect jobs. */
#define MF_EXITS_OF_HEALTH                                                                         \
    "  0   all inspected jobs make progress, or there are none\n"                                  \
    "  1   there is no such job, or it cannot be inspected\n"                                      \
    "  2   invalid usage\n"                                                                        \
    "  4   a job makes no progress: a task keeps the others waiting for more than a second\n"      \
    "  5   a task of a job is dead\n"

void mf_help_program(mf_buf *out);
/* Lists the commands of a group. */
void mf_help_group(const char *name, mf_buf *out);
void mf_help_command(const mf_command *command, mf_buf *out);
/* As a man page; NULL: the page of the program. */
void mf_help_man(const mf_command *command, mf_buf *out);

/* ---- output ---- */

/* Writes to standard output and frees the buffer. A closed pipe is not a failure. Fails:
 * UNAVAILABLE, RESOURCE_EXHAUSTED (the text is incomplete). */
MF_MUST mf_status mf_cli_print(mf_buf *text);
/* Prints the output produced before a failure `st`, and returns `st`. */
MF_MUST mf_status mf_cli_print_done(mf_status st, mf_buf *text);
/* The text of --version. */
void mf_cli_version(mf_buf *out);

#endif
