/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - help on the terminal and man pages, from the tables of commands and options. */
#include "cli/command.h"

#include <meshflow/version.h>

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26 };

static const char about_program[] =
    "Meshflow trains models on one or many machines. The same seed gives the same weights, bit "
    "by bit, for any number of workers, even if processes are killed, join or leave. Meshflow "
    "also serves TensorFlow clients and runs TensorFlow graphs.\n\n  meshflow train --model mlp "
    "--data measurements.csv --set label=species --out run\n  meshflow launch --workers 3 -- "
    "train --model fashion-cnn --data fashion-mnist";

/* ---- terminal ---- */

/* Appends `text`, wrapped between words; continuation lines begin at column `indent`. The cursor is
 * at `column`. */
static void wrap(mf_buf *out, const char *text, size_t indent, size_t column)
{
    while (*text) {
        const size_t gap = strspn(text, " \n"), n = strcspn(text + gap, " \n");

        if (n == 0)
            break;
        if (column + 1 + n > WIDTH) {
            mf_buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            mf_buf_str(out, " ");
            column++;
        }
        mf_buf_bytes(out, text + gap, n);
        column += n;
        text += gap + n;
    }
    mf_buf_str(out, "\n");
}

/* The next paragraph of *text, or the next block of lines to print unchanged. */
static bool next_paragraph(const char **text, char *out, size_t size, bool *verbatim)
{
    const char *end;
    size_t n;

    *text += strspn(*text, "\n");
    if (!**text)
        return false;
    end = strstr(*text, "\n\n");
    n = end ? (size_t)(end - *text) : strlen(*text);
    *verbatim = **text == ' ';
    (void)snprintf(out, size, "%.*s", (int)n, *text);
    *text += n;
    return true;
}

static void help_about(const char *text, mf_buf *out)
{
    char part[2048];
    bool verbatim;

    while (next_paragraph(&text, part, sizeof part, &verbatim)) {
        mf_buf_str(out, "\n");
        if (verbatim)
            mf_buf_printf(out, "%s\n", part);
        else
            wrap(out, part, 0, 0);
    }
}

static void option_text(const mf_option *o, char *text, size_t size)
{
    char letter[8] = "";

    if (o->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
    (void)snprintf(text, size, "%s--%s%s%s%s", letter, o->name, o->value ? " " : "",
                   o->value ? o->value : "", o->many ? " ..." : "");
}

static void help_line(const char *head, const char *text, mf_buf *out)
{
    const int n = (int)strlen(head) + 2;

    if (n + 2 > HELP_COLUMN)
        mf_buf_printf(out, "  %s\n%*s", head, HELP_COLUMN, "");
    else
        mf_buf_printf(out, "  %-*s", HELP_COLUMN - 2, head);
    wrap(out, text, HELP_COLUMN, HELP_COLUMN);
}

static const char *const group_titles[MF_GROUP_COUNT] = {
    [MF_GROUP_GENERAL] = "options",
    [MF_GROUP_DATA] = "data",
    [MF_GROUP_MODEL] = "model",
    [MF_GROUP_OPTIMISATION] = "optimization",
    [MF_GROUP_DISTRIBUTION] = "distribution",
    [MF_GROUP_OUTPUT] = "checkpoints and output",
    [MF_GROUP_FAULTS] = "fault tolerance",
    [MF_GROUP_DIAGNOSIS] = "diagnosis",
};

/* The next visible option of the group, from `o` on; NULL: there is none. */
static const mf_option *next_of_group(const mf_option *o, int group)
{
    for (; o && o->name; o++) {
        if ((int)o->group == group && !o->hidden)
            return o;
    }
    return NULL;
}

static void help_options(const char *title, const mf_option *options, int group, mf_buf *out)
{
    const mf_option *o = next_of_group(options, group);
    char text[128];

    if (o)
        mf_buf_printf(out, "\n%s:\n", title);
    for (; o; o = next_of_group(o + 1, group)) {
        option_text(o, text, sizeof text);
        help_line(text, o->help, out);
    }
}

static void usage_line(const mf_command *c, mf_buf *out)
{
    const char *options = c->options && c->options->name ? " [OPTION]..." : "";
    const bool before = strncmp(c->arguments, "--", 2) == 0;

    mf_buf_printf(out, "meshflow %s%s%s%s%s", c->name, before ? options : "",
                  c->arguments[0] ? " " : "", c->arguments, before ? "" : options);
}

static void help_group_rows(const char *name, mf_buf *out)
{
    mf_buf_str(out, "\ncommands:\n");
    for (int i = 0; mf_commands[i]; i++) {
        if (mf_command_is_of(mf_commands[i], name))
            help_line(mf_commands[i]->name, mf_commands[i]->summary, out);
    }
}

void mf_help_command(const mf_command *c, mf_buf *out)
{
    mf_buf_str(out, "usage: ");
    usage_line(c, out);
    mf_buf_printf(out, "\n\nmeshflow %s - %s.\n", c->name, c->summary);
    help_about(c->about, out);
    for (int group = 0; group < MF_GROUP_COUNT; group++)
        help_options(group_titles[group], c->options, group, out);
    help_options("options of every command", mf_global_options, 0, out);
    if (mf_command_is_group(c->name))
        help_group_rows(c->name, out);
    if (c->exits)
        mf_buf_printf(out, "\nexit codes:\n%s", c->exits);
    if (c->examples)
        mf_buf_str(out, "\nexamples:\n");
    for (int i = 0; c->examples && c->examples[i]; i++)
        mf_buf_printf(out, "  %s\n", c->examples[i]);
}

void mf_help_group(const char *name, mf_buf *out)
{
    mf_buf_printf(out, "usage: meshflow %s COMMAND [ARGUMENT]...\n", name);
    help_group_rows(name, out);
    mf_buf_printf(out, "\n`meshflow %s COMMAND --help` describes a command.\n", name);
}

static const char *topic_summary(const mf_topic *t)
{
    return t->summary ? t->summary : mf_command_find(t->name)->summary;
}

static bool begins_heading(const mf_topic *t)
{
    return t == mf_topics || strcmp(t[-1].heading, t->heading) != 0;
}

void mf_help_program(mf_buf *out)
{
    mf_buf_str(out, "usage: meshflow COMMAND [ARGUMENT]...\n");
    help_about(about_program, out);
    for (const mf_topic *t = mf_topics; t->name; t++) {
        if (begins_heading(t))
            mf_buf_printf(out, "\n%s:\n", t->heading);
        help_line(t->name, topic_summary(t), out);
    }
    help_options("options of every command", mf_global_options, 0, out);
    mf_buf_str(out, "\n`meshflow COMMAND --help` describes a command or lists the commands of a "
                    "group.\n");
}

/* ---- man pages ---- */

/* Appends text so that troff prints it unchanged. */
static void troff(const char *text, mf_buf *out)
{
    bool line_start = true;

    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            mf_buf_str(out, "\\&");
        if (*text == '\\')
            mf_buf_str(out, "\\e");
        else if (*text == '-')
            mf_buf_str(out, "\\-");
        else
            mf_buf_bytes(out, text, 1);
        line_start = *text == '\n';
    }
}

static void man_about(const char *text, mf_buf *out)
{
    char part[2048];
    bool verbatim;

    while (next_paragraph(&text, part, sizeof part, &verbatim)) {
        mf_buf_str(out, verbatim ? ".PP\n.nf\n" : ".PP\n");
        troff(part, out);
        mf_buf_str(out, verbatim ? "\n.fi\n" : "\n");
    }
}

static void man_options(const char *macro, const char *title, const mf_option *options, int group,
                        mf_buf *out)
{
    const mf_option *o = next_of_group(options, group);
    char text[128];

    if (o && macro)
        mf_buf_printf(out, "%s %s\n", macro, title);
    for (; o; o = next_of_group(o + 1, group)) {
        option_text(o, text, sizeof text);
        mf_buf_str(out, ".TP\n.B ");
        troff(text, out);
        mf_buf_str(out, "\n");
        troff(o->help, out);
        mf_buf_str(out, "\n");
    }
}

/* Options without a heading come first. */
static void man_options_of(const mf_command *c, mf_buf *out)
{
    bool any = false;

    for (int group = 0; group < MF_GROUP_COUNT; group++) {
        if (!any && next_of_group(c->options, group))
            mf_buf_str(out, ".SH OPTIONS\n");
        any = any || next_of_group(c->options, group);
        man_options(group == MF_GROUP_GENERAL ? NULL : ".SS", group_titles[group], c->options,
                    group, out);
    }
    man_options(".SH", "OPTIONS OF EVERY COMMAND", mf_global_options, 0, out);
}

/* "meshflow job set" as the name of its page: meshflow-job-set. */
static void man_name(const char *name, mf_buf *out)
{
    for (; *name; name++)
        mf_buf_str(out, *name == ' ' || *name == '-' ? "\\-" : (char[]){ *name, 0 });
}

/* The program and the commands of the same group. */
static void man_see_also(const mf_command *c, mf_buf *out)
{
    char group[32];

    (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(c->name, " "), c->name);
    mf_buf_str(out, ".SH SEE ALSO\n.BR meshflow (1)");
    for (int i = 0; mf_commands[i]; i++) {
        const char *name = mf_commands[i]->name;

        if (mf_commands[i] == c || strncmp(name, group, strlen(group)) != 0 ||
            (name[strlen(group)] != ' ' && name[strlen(group)] != '\0'))
            continue;
        mf_buf_str(out, ",\n.BR meshflow\\-");
        man_name(name, out);
        mf_buf_str(out, " (1)");
    }
    mf_buf_str(out, "\n");
}

static void man_head(const char *name, const char *summary, mf_buf *out)
{
    mf_buf_str(out, ".\\\" Printed by `meshflow help --man`.\n.TH ");
    for (const char *c = name; *c; c++)
        mf_buf_printf(out, "%c", *c == ' ' ? '-' : *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    mf_buf_printf(out, " 1 \"\" \"meshflow %s\" \"User Commands\"\n.SH NAME\n", mf_version());
    man_name(name, out);
    mf_buf_str(out, " \\- ");
    troff(summary, out);
    mf_buf_str(out, "\n.SH SYNOPSIS\n.B ");
}

static void man_program(mf_buf *out)
{
    man_head("meshflow", "distributed training", out);
    mf_buf_str(out, "meshflow COMMAND\n[ARGUMENT]...\n.SH DESCRIPTION\n");
    man_about(about_program, out);
    mf_buf_str(out, ".SH COMMANDS\n");
    for (int i = 0; mf_commands[i]; i++) {
        const mf_command *c = mf_commands[i];

        mf_buf_str(out, ".TP\n.B meshflow ");
        troff(c->name, out);
        mf_buf_str(out, "\n");
        troff(c->summary, out);
        mf_buf_str(out, "\n");
    }
    man_options(".SH", "OPTIONS OF EVERY COMMAND", mf_global_options, 0, out);
    mf_buf_str(out, ".SH EXIT STATUS\n0: success; 1: failure; 2: invalid usage.\n"
                    ".SH ENVIRONMENT\n.TP\n.B MESHFLOW_<NAME>\nsets the tunable NAME, as "
                    "\\-\\-param does.\n");
}

void mf_help_man(const mf_command *c, mf_buf *out)
{
    char name[80];

    if (!c) {
        man_program(out);
        return;
    }
    (void)snprintf(name, sizeof name, "meshflow %s", c->name);
    man_head(name, c->summary, out);
    usage_line(c, out);
    mf_buf_str(out, "\n.SH DESCRIPTION\n");
    man_about(c->about, out);
    man_options_of(c, out);
    mf_buf_str(out, ".SH EXIT STATUS\n.nf\n");
    troff(c->exits ? c->exits : "0: success; 1: failure; 2: invalid usage.\n", out);
    mf_buf_str(out, ".fi\n");
    if (c->examples)
        mf_buf_str(out, ".SH EXAMPLES\n.nf\n");
    for (int i = 0; c->examples && c->examples[i]; i++) {
        troff(c->examples[i], out);
        mf_buf_str(out, "\n");
    }
    if (c->examples)
        mf_buf_str(out, ".fi\n");
    man_see_also(c, out);
}
