/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - reads the settings of the run that `train --resume` continues. */
#include "cli/resume.h"

#include "base/log.h"
#include "cli/job_data.h"
#include "train/checkpoint/output_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options that determine the weights, and their defaults (NULL: none). The length of the training
 * and the number of workers are not among them. */
static const struct resume_setting {
    const char *name, *unless;
    bool fixed; /* it cannot change, also not with --allow-changes */
} settings[] = {
    { "seed", "0", true },        { "shards", "8", true },        { "batch", "32", false },
    { "slice", "element", true }, { "optimizer", "sgd", false },  { "lr", NULL, false },
    { "schedule", NULL, false },  { "clip", NULL, false },        { "weight-decay", "0", false },
    { "ema", NULL, false },       { "prune", NULL, false },       { "guard", "stop", false },
    { "freeze", NULL, false },    { "augment", NULL, false },     { "pairs", NULL, false },
    { "validation", "0", false }, { "precision", "fp32", false }, { "codec", NULL, false },
};

/* ---- writing ---- */

/* All values of a repeatable option, as one string. */
static mf_status resume_value_of(const mf_job *job, const mf_args *args,
                                 const struct resume_setting *s, const char **out)
{
    const char *value;
    int64_t at = 0;

    *out = NULL;
    while ((value = mf_args_next(args, s->name, &at)) != NULL) {
        *out = *out ? mf_arena_printf(job->arena, "%s %s", *out, value) : value;
        if (!*out)
            return MF_NOMEM("settings");
    }
    *out = *out ? *out : s->unless;
    return MF_OK;
}

mf_status mf_resume_note(const mf_job *job, const mf_args *args, mf_model_note *out)
{
    mf_note_option *o = MF_ARENA_ARRAY(job->arena, mf_note_option, MF_COUNT(settings));

    if (!o)
        return MF_NOMEM("settings");
    out->options = o;
    out->n_options = MF_COUNT(settings);
    for (int i = 0; i < MF_COUNT(settings); i++) {
        o[i].name = settings[i].name;
        MF_TRY(resume_value_of(job, args, &settings[i], &o[i].value));
    }
    return MF_OK;
}

/* ---- comparing ---- */

typedef struct resume_changes {
    mf_buf text; /* "--batch was 32 and is 64, ..." */
    bool refused; /* a setting that cannot change has changed */
} resume_changes;

/* 0.1 and 1e-1 are the same rate. */
static bool resume_is_same(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x, y;

    if (!a || !b)
        return a == b;
    if (strcmp(a, b) == 0)
        return true;
    x = strtod(a, &end_a);
    y = strtod(b, &end_b);
    return end_a != a && end_b != b && !*end_a && !*end_b && x == y;
}

static void resume_print_value(const char *value, mf_buf *out)
{
    if (!value)
        mf_buf_str(out, "not given");
    else
        mf_buf_printf(out, strchr(value, ' ') ? "'%s'" : "%s", value);
}

static void resume_add(resume_changes *c, const char *name, const char *was, const char *is)
{
    mf_buf_printf(&c->text, "%s%s was ", c->text.len > 0 ? ", " : "", name);
    resume_print_value(was, &c->text);
    mf_buf_str(&c->text, " and is ");
    resume_print_value(is, &c->text);
}

static const char *noted(const mf_model_note *note, const char *name)
{
    for (int64_t i = 0; i < note->n_options; i++) {
        if (strcmp(note->options[i].name, name) == 0)
            return note->options[i].value;
    }
    return NULL;
}

static mf_status compare_options(const mf_job *job, const mf_args *args, resume_changes *c)
{
    char name[64] = "--";

    for (int i = 0; job->note.n_options > 0 && i < MF_COUNT(settings); i++) {
        const char *was = noted(&job->note, settings[i].name), *is;

        MF_TRY(resume_value_of(job, args, &settings[i], &is));
        if (resume_is_same(was, is))
            continue;
        (void)strncpy(name + 2, settings[i].name, sizeof name - 3);
        resume_add(c, name, was, is);
        c->refused |= settings[i].fixed;
    }
    return MF_OK;
}

/* An option that is not given has the value of the run. */
static void compare_given(const mf_args *args, const char *option, const char *name,
                          const char *was, resume_changes *c)
{
    const char *is = mf_args_value(args, option);

    if (is && !resume_is_same(was, is))
        resume_add(c, name, was, is);
}

static void compare_counts(const mf_job *job, resume_changes *c)
{
    const mf_model_note *n = &job->note;
    char was[64], is[64];

    if (n->samples > 0 && n->samples != job->samples) {
        (void)snprintf(was, sizeof was, "%lld", (long long)n->samples);
        (void)snprintf(is, sizeof is, "%lld", (long long)job->samples);
        resume_add(c, "the number of samples", was, is);
    }
    if (n->split != job->split) {
        (void)snprintf(was, sizeof was, "%g", n->split);
        (void)snprintf(is, sizeof is, "%g", job->split);
        resume_add(c, "the fraction of the data that is kept for the test", was, is);
    }
}

static mf_status resume_compare(const mf_job *job, const mf_args *args, resume_changes *c)
{
    const mf_model_note *n = &job->note;

    if (n->data && !mf_job_is_same_data(job->data_text, n->data))
        resume_add(c, "--data", n->data, job->data_text);
    else
        compare_counts(job, c);
    compare_given(args, "set", "--set", n->settings, c);
    compare_given(args, "test", "--test", n->test, c);
    compare_given(args, "loss", "--loss", n->loss, c);
    MF_TRY(compare_options(job, args, c));
    return c->text.len > 0 ? mf_buf_finish(&c->text) : MF_OK;
}

static mf_status resume_judge(const resume_changes *c, mf_args *args)
{
    const char *dir = mf_args_value(args, "out");

    if (c->text.len == 0)
        return MF_OK;
    if (c->refused)
        return mf_args_wrong(args,
                             "the run in '%s' has other settings: %s; give those of the run: "
                             "--seed, --shards and --slice cannot change",
                             dir, c->text.data);
    if (!mf_args_has(args, "allow-changes"))
        return mf_args_wrong(args,
                             "the run in '%s' has other settings: %s; give those of the run, or "
                             "--allow-changes to continue it with the new ones",
                             dir, c->text.data);
    MF_WARN("the run in '%s' continues with changed settings: %s", dir, c->text.data);
    return MF_OK;
}

mf_status mf_resume_check(const mf_job *job, mf_args *args)
{
    resume_changes c = { 0 };
    mf_status st;

    if (!job->note.model)
        return MF_OK;
    st = resume_compare(job, args, &c);
    if (st == MF_OK)
        st = resume_judge(&c, args);
    mf_buf_deinit(&c.text);
    return st;
}

/* ---- opening ---- */

mf_status mf_resume_open(mf_job *job, mf_args *args)
{
    const char *out = mf_args_value(args, "out");
    const bool continues = mf_args_has(args, "resume") || (out && mf_output_lock_is_restart(out));

    *job = (mf_job){ 0 };
    if (mf_args_has(args, "allow-changes") && !mf_args_has(args, "resume"))
        return mf_args_wrong(args, "--allow-changes needs --resume");
    MF_TRY(mf_job_open(job, args, continues ? out : NULL));
    if (!job->note.model || strcmp(job->note.model, job->model_text) == 0)
        return MF_OK;
    return mf_args_wrong(args,
                         "the run in '%s' trains the model '%s', not '%s': remove --model to "
                         "continue it, or choose another --out",
                         out, job->note.model, job->model_text);
}
