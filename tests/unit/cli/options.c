/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - parsing of options, their errors, help texts, and old names of commands and options.
 * */
#include "cli/command.h"
#include "mf_test.h"

#include <stdio.h>
#include <string.h>

#define PARSE(args, ...)                                                                           \
    mf_args_parse((args), (int)(sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)),               \
                  (char *[]){ __VA_ARGS__ })

MF_TEST(options_are_accepted_anywhere_in_both_spellings)
{
    mf_args a = { 0 };
    int64_t at = 0;

    T_OK(PARSE(&a, "--verbose", "graph", "--fetch", "a", "run", "--fetch=b", "g.pb"));
    T_STREQ(a.command->name, "graph run");
    T_EQ(a.n_words, 1);
    T_STREQ(a.words[0], "g.pb");
    T_STREQ(mf_args_next(&a, "fetch", &at), "a");
    T_STREQ(mf_args_next(&a, "fetch", &at), "b");
    T_STREQ(mf_args_next(&a, "fetch", &at), NULL);
    T_TRUE(mf_args_has(&a, "verbose"));
    T_TRUE(!mf_args_has(&a, "json"));
    mf_args_deinit(&a);
}

MF_TEST(options_have_letters_with_and_without_a_space)
{
    mf_args a = { 0 }, b = { 0 };

    T_OK(PARSE(&a, "graph", "optimize", "-o", "x.pb", "g.pb"));
    T_STREQ(mf_args_value(&a, "output"), "x.pb");
    T_OK(PARSE(&b, "graph", "optimize", "-ox.pb", "g.pb"));
    T_STREQ(mf_args_value(&b, "output"), "x.pb");
    mf_args_deinit(&a);
    mf_args_deinit(&b);
}

MF_TEST(options_end_at_two_dashes)
{
    mf_args a = { 0 };

    T_OK(PARSE(&a, "ops", "--json", "--", "--def", "--"));
    T_EQ(a.n_words, 2);
    T_STREQ(a.words[0], "--def");
    T_TRUE(!mf_args_has(&a, "def"));
    mf_args_deinit(&a);
}

MF_TEST(options_values_may_begin_with_a_dash)
{
    mf_args a = { 0 };
    int64_t n = 5;

    T_OK(PARSE(&a, "graph", "run", "g.pb", "--threads", "-3"));
    T_FAILS(MF_INVALID_ARGUMENT, "from 0 to 64, not '-3'", mf_args_int(&a, "threads", 0, 64, &n));
    T_TRUE(a.usage);
    T_EQ(n, 5);
    mf_args_deinit(&a);
}

MF_TEST(options_errors_suggest_the_closest_name)
{
    mf_args a = { 0 }, b = { 0 };

    T_FAILS(MF_INVALID_ARGUMENT, "graph run has no option '--fetc'",
            PARSE(&a, "graph", "run", "g.pb", "--fetc=a"));
    T_STREQ(a.hint, "did you mean --fetch?");
    T_TRUE(a.usage);
    T_FAILS(MF_INVALID_ARGUMENT, "no command 'grpah'", PARSE(&b, "grpah", "run"));
    mf_args_deinit(&a);
    mf_args_deinit(&b);
}

MF_TEST(options_errors_name_the_wrong_use)
{
    mf_args a[5] = { { 0 } };

    T_FAILS(MF_INVALID_ARGUMENT, "--fetch needs a value",
            PARSE(&a[0], "graph", "run", "g", "--fetch"));
    T_FAILS(MF_INVALID_ARGUMENT, "--json takes no value", PARSE(&a[1], "ops", "--json=1"));
    T_FAILS(MF_INVALID_ARGUMENT, "needs GRAPH", PARSE(&a[2], "graph", "print"));
    T_FAILS(MF_INVALID_ARGUMENT, "unexpected argument 'b'",
            PARSE(&a[3], "graph", "print", "a", "b"));
    T_FAILS(MF_INVALID_ARGUMENT, "given twice",
            PARSE(&a[4], "graph", "run", "g", "--threads=1", "--threads=2"));
    for (int i = 0; i < 5; i++)
        mf_args_deinit(&a[i]);
}

MF_TEST(options_help_needs_no_arguments)
{
    mf_args a = { 0 };

    T_OK(PARSE(&a, "graph", "run", "--help"));
    mf_args_deinit(&a);
}

/* The command line is split before the command is known: an option name must have the same meaning
 * for all commands. */
MF_TEST(options_of_the_same_name_agree_on_taking_a_value)
{
    for (int i = 0; mf_commands[i]; i++) {
        for (const mf_option *o = mf_commands[i]->options; o && o->name; o++) {
            for (int k = 0; mf_commands[k]; k++) {
                for (const mf_option *p = mf_commands[k]->options; p && p->name; p++) {
                    if (strcmp(o->name, p->name) == 0 || (o->letter && o->letter == p->letter))
                        T_EQ(o->value != NULL, p->value != NULL);
                }
            }
        }
    }
}

/* By its name, or in the help of its group. */
static bool is_listed(const mf_command *c, const char *program)
{
    char row[32];
    mf_buf group = { 0 };
    bool listed;

    (void)snprintf(row, sizeof row, "\n  %.*s ", (int)strcspn(c->name, " "), c->name);
    listed = strstr(program, row) != NULL;
    if (strchr(c->name, ' ')) {
        row[strlen(row) - 1] = '\0';
        mf_help_group(row + 3, &group);
        listed = listed && strstr(group.data, c->name) != NULL;
    }
    mf_buf_deinit(&group);
    return listed;
}

MF_TEST(help_names_every_command_and_option)
{
    mf_buf all = { 0 };

    mf_help_program(&all);
    for (int i = 0; mf_commands[i]; i++) {
        const mf_command *c = mf_commands[i];
        mf_buf text = { 0 }, man = { 0 };

        T_TRUE(is_listed(c, all.data));
        mf_help_command(c, &text);
        mf_help_man(c, &man);
        for (const mf_option *o = c->options; o && o->name; o++) {
            char flag[64];

            (void)snprintf(flag, sizeof flag, "--%s", o->name);
            T_EQ(strstr(text.data, flag) != NULL, !o->hidden);
        }
        T_TRUE(strstr(man.data, ".SH SYNOPSIS") != NULL);
        for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
            T_TRUE(strcspn(line, "\n") <= 100);
        mf_buf_deinit(&text);
        mf_buf_deinit(&man);
    }
    mf_buf_deinit(&all);
}

MF_TEST(help_of_the_program_has_one_row_for_each_group)
{
    mf_buf all = { 0 };
    int rows = 0;

    mf_help_program(&all);
    for (const mf_topic *t = mf_topics; t->name; t++, rows++)
        T_TRUE(mf_command_find(t->name) || (mf_command_is_group(t->name) && t->summary));
    T_TRUE(rows <= 25);
    T_TRUE(strstr(all.data, "\n  job  ") != NULL);
    T_TRUE(strstr(all.data, "\n  job status") == NULL);
    T_TRUE(strstr(all.data, "\n  status") == NULL);
    mf_buf_deinit(&all);
}

MF_TEST(old_spellings_name_the_same_commands)
{
    for (const mf_alias *old = mf_aliases; old->old; old++) {
        char first[32], *second;
        mf_args a = { 0 };

        (void)snprintf(first, sizeof first, "%s", old->old);
        second = strchr(first, ' ');
        if (second)
            *second++ = '\0';
        T_TRUE(mf_command_find(old->name) != NULL);
        T_TRUE(mf_command_find(old->old) == NULL);
        T_OK(PARSE(&a, first, second ? second : "--help", "--help"));
        T_TRUE(a.command == mf_command_find(old->name));
        mf_args_deinit(&a);
    }
}

MF_TEST(old_names_of_options_are_accepted_but_not_in_the_help)
{
    mf_args a = { 0 };
    mf_buf text = { 0 };

    T_OK(PARSE(&a, "plan", "--processors", "4"));
    T_STREQ(mf_args_value(&a, "devices"), "4");
    mf_help_command(a.command, &text);
    T_TRUE(strstr(text.data, "--devices") != NULL);
    T_TRUE(strstr(text.data, "processors") == NULL);
    mf_buf_deinit(&text);
    mf_args_deinit(&a);
}

MF_TEST(old_spellings_are_corrected_to_the_new_ones)
{
    mf_args a[4] = { { 0 } };

    T_FAILS(MF_INVALID_ARGUMENT, "no command 'statsu'", PARSE(&a[0], "statsu"));
    T_STREQ(a[0].hint, "did you mean `meshflow job status`?");
    T_FAILS(MF_INVALID_ARGUMENT, "no command 'job statsu'", PARSE(&a[1], "job", "statsu"));
    T_STREQ(a[1].hint, "did you mean `meshflow job status`?");
    T_FAILS(MF_INVALID_ARGUMENT, "no command 'queeu'", PARSE(&a[2], "queeu"));
    T_STREQ(a[2].hint, "did you mean `meshflow queue`?");
    T_FAILS(MF_INVALID_ARGUMENT, "no command 'doctor tpoo'", PARSE(&a[3], "doctor", "tpoo"));
    T_STREQ(a[3].hint, "did you mean `meshflow doctor topo`?");
    for (int i = 0; i < 4; i++)
        mf_args_deinit(&a[i]);
}

/* A word after the name of a group is never an argument. */
MF_TEST(options_of_a_command_that_is_also_a_group_are_accepted)
{
    mf_args a = { 0 }, b = { 0 };

    T_OK(PARSE(&a, "doctor", "--json"));
    T_STREQ(a.command->name, "doctor");
    T_OK(PARSE(&b, "doctor", "--json", "env"));
    T_STREQ(b.command->name, "doctor env");
    mf_args_deinit(&a);
    mf_args_deinit(&b);
}

/* Workers compare their options: every option must state whether workers may differ in it. */
MF_TEST(options_of_train_record_whether_workers_may_differ)
{
    static const char *const commands[] = { "train", "eval", "predict" };

    for (int i = 0; i < 3; i++) {
        for (const mf_option *o = mf_command_find(commands[i])->options; o->name; o++) {
            if (o->scope == MF_OPTION_UNSCOPED)
                T_FAIL("%s --%s has no scope", commands[i], o->name);
        }
    }
}
