/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - parses command lines by the table of commands.
 *
 *     --name value   --name=value   -o value   -ovalue   --   (only words after this)
 *
 * The name of a command has one or two words. Options may be anywhere. */
#include "base/mem.h"
#include "cli/command.h"
#include "cli/setting_hint.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mf_option mf_global_options[] = {
    { .name = "help", .help = "show this help and exit", .letter = 'h' },
    { .name = "numerics",
      .value = "SET",
      .help =
          "compute with this instruction set: avx2, avx512, avx512_bf16, amx (default: the best "
          "of this processor)" },
    { .name = "param",
      .value = "NAME=VALUE",
      .help = "set a tunable; `meshflow params` lists them",
      .many = true },
    { .name = "verbose",
      .help = "on failure, also show the status code and its origin",
      .letter = 'v' },
    { .name = "version", .help = "show versions and exit" },
    { 0 },
};

mf_status mf_args_wrong(mf_args *args, const char *fmt, ...)
{
    char text[512];
    va_list list;

    va_start(list, fmt);
    (void)vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    args->usage = true;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s", text);
}

void mf_args_hint(mf_args *args, const char *fmt, ...)
{
    va_list list;

    if (args->hint[0])
        return;
    va_start(list, fmt);
    (void)vsnprintf(args->hint, sizeof args->hint, fmt, list);
    va_end(list);
}

/* ---- commands ---- */

static mf_status unknown_command(mf_args *args, const char *name)
{
    const char *closest = mf_command_closest(name);

    if (closest)
        mf_args_hint(args, "did you mean `meshflow %s`?", closest);
    return mf_args_wrong(args, "there is no command '%.100s'", name);
}

/* Sets the command that the first words name, and removes these words. The words after the name of
 * a group must name one of its commands. */
static mf_status take_command(mf_args *args)
{
    char name[64] = "";
    int used = 2;

    if (args->n_words == 0)
        return MF_OK;
    if (args->n_words > 1) {
        (void)snprintf(name, sizeof name, "%.30s %.30s", args->words[0], args->words[1]);
        args->command = mf_command_resolve(name);
    }
    if (!args->command && (args->n_words == 1 || !mf_command_is_group(args->words[0]))) {
        (void)snprintf(name, sizeof name, "%s", args->words[0]);
        args->command = mf_command_resolve(name);
        args->group = mf_command_is_group(name) ? args->words[0] : NULL;
        used = 1;
    }
    if (!args->command && !args->group)
        return unknown_command(args, name);
    if (args->command) {
        args->n_words -= used;
        memmove(args->words, args->words + used, (size_t)args->n_words * sizeof *args->words);
    }
    return MF_OK;
}

/* ---- options ---- */

/* --task_index is accepted as --task-index: scripts for other programs use underscores. */
static bool same_name(const char *known, const char *given, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (known[i] != given[i] && !(known[i] == '-' && given[i] == '_'))
            return false;
    }
    return known[len] == '\0';
}

static const mf_option *find_in(const mf_option *table, const char *name, size_t len, char letter)
{
    for (const mf_option *o = table; o && o->name; o++) {
        if (letter ? o->letter == letter
                   : same_name(o->name, name, len) || (o->old && same_name(o->old, name, len)))
            return o;
    }
    return NULL;
}

static const mf_option *options_find_option(const mf_args *args, const char *name, size_t len,
                                            char letter)
{
    const mf_option *o = args->command ? find_in(args->command->options, name, len, letter) : NULL;

    return o ? o : find_in(mf_global_options, name, len, letter);
}

static mf_status unknown_option(mf_args *args, const char *word, size_t len)
{
    char name[64];
    mf_did_you_mean closest;

    (void)snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), word);
    closest = mf_did_you_mean_to(name + strspn(name, "-"));
    for (const mf_option *o = args->command ? args->command->options : NULL; o && o->name; o++)
        mf_did_you_mean_try(&closest, o->name);
    for (const mf_option *o = mf_global_options; o->name; o++)
        mf_did_you_mean_try(&closest, o->name);
    if (!mf_setting_hint(args, name + strspn(name, "-")) && closest.best)
        mf_args_hint(args, "did you mean --%s?", closest.best);
    return mf_args_wrong(args, "%s%s has no option '%s'", args->command ? "meshflow " : "meshflow",
                         args->command ? args->command->name : "", name);
}

static mf_status add_given(mf_args *args, const mf_option *o, const char *value)
{
    if (!o->many && o->value && mf_args_value(args, o->name))
        return mf_args_wrong(args, "--%s is given twice, as '%.100s' and '%.100s'", o->name,
                             mf_args_value(args, o->name), value);
    MF_TRY(mf_grow(&args->given, &args->cap_given, args->n_given + 1, sizeof *args->given));
    args->given[args->n_given++] = (mf_given){ o, value };
    return MF_OK;
}

/* Parses one option at argv[*at]; *at ends at its last argument. */
static mf_status parse_option(mf_args *args, int argc, char *const *argv, int *at)
{
    const char *word = argv[*at];
    const bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const mf_option *o = is_long ? options_find_option(args, word + 2, len - 2, 0)
                                 : options_find_option(args, NULL, 0, word[1]);
    const char *value = equals ? equals + 1 : !is_long && word[2] ? word + 2 : NULL;

    if (!o)
        return unknown_option(args, word, len);
    if (!o->value && value)
        return mf_args_wrong(args, "--%s takes no value, but '%.100s' was given", o->name, value);
    if (o->value && !value) {
        if (*at + 1 >= argc)
            return mf_args_wrong(args, "--%s needs a value: --%s %s", o->name, o->name, o->value);
        value = argv[++*at];
    }
    return add_given(args, o, value ? value : "");
}

/* The option takes the next argument as its value. Called before the command is known: the options
 * of all commands are searched. */
static bool takes_next(const char *word)
{
    const bool is_long = word[1] == '-';
    const char *name = word + 2;

    if (is_long ? strchr(word, '=') != NULL : word[2] != '\0')
        return false;
    for (int i = 0; mf_commands[i]; i++) {
        const mf_command *c = mf_commands[i];
        const mf_option *o = find_in(c->options, name, strlen(name), is_long ? 0 : word[1]);

        if (o)
            return o->value != NULL;
    }
    for (const mf_option *o = mf_global_options; o->name; o++) {
        if (is_long ? same_name(o->name, name, strlen(name)) : o->letter == word[1])
            return o->value != NULL;
    }
    return false;
}

static bool options_is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && !isdigit((unsigned char)word[1]);
}

static mf_status parse_words(mf_args *args, int argc, char *const *argv)
{
    bool only_words = false;

    for (int i = 0; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && options_is_option(argv[i])) {
            i += takes_next(argv[i]);
        } else {
            MF_TRY(mf_grow(&args->words, &args->cap_words, args->n_words + 1, sizeof *args->words));
            args->words[args->n_words++] = argv[i];
        }
    }
    return take_command(args);
}

static mf_status check_count(mf_args *args)
{
    const mf_command *c = args->command;

    if (!c || mf_args_has(args, "help") || mf_args_has(args, "version"))
        return MF_OK;
    if (args->n_words < c->min_args)
        return mf_args_wrong(args, "meshflow %s needs %s", c->name, c->arguments);
    if (c->max_args >= 0 && args->n_words > c->max_args)
        return mf_args_wrong(args, "meshflow %s: unexpected argument '%.100s'", c->name,
                             args->words[c->max_args]);
    return MF_OK;
}

mf_status mf_args_parse(mf_args *args, int argc, char *const *argv)
{
    MF_TRY(parse_words(args, argc, argv));
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (options_is_option(argv[i]))
            MF_TRY(parse_option(args, argc, argv, &i));
    }
    return check_count(args);
}

void mf_args_deinit(mf_args *args)
{
    mf_free(args->given);
    mf_free(args->words);
}

/* ---- values ---- */

const char *mf_args_next(const mf_args *args, const char *option, int64_t *at)
{
    while (*at < args->n_given) {
        const mf_given *g = &args->given[(*at)++];

        if (strcmp(g->option->name, option) == 0)
            return g->value;
    }
    return NULL;
}

const char *mf_args_value(const mf_args *args, const char *option)
{
    const char *last = NULL, *value;
    int64_t at = 0;

    while ((value = mf_args_next(args, option, &at)) != NULL)
        last = value;
    return last;
}

bool mf_args_has(const mf_args *args, const char *option)
{
    return mf_args_value(args, option) != NULL;
}

mf_status mf_args_int(mf_args *args, const char *option, int64_t min, int64_t max, int64_t *out)
{
    const char *text = mf_args_value(args, option);
    char *end;
    int64_t value;

    if (!text)
        return MF_OK;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end || errno != 0 || value < min || value > max)
        return mf_args_wrong(args, "--%s expects an integer from %lld to %lld, not '%.100s'",
                             option, (long long)min, (long long)max, text);
    *out = value;
    return MF_OK;
}

mf_status mf_args_pair(mf_args *args, const char *option, const char *value, char **name,
                       const char **rest)
{
    const char *equals = strchr(value, '=');

    *name = NULL;
    if (!equals || equals == value || !equals[1])
        return mf_args_wrong(args, "--%s expects NAME=..., not '%.100s'", option, value);
    *rest = equals + 1;
    *name = mf_strndup(value, (size_t)(equals - value));
    return *name ? MF_OK : MF_NOMEM("arguments");
}
