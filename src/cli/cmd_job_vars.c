/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_vars.c - `meshflow job vars`: the variables of a running job. A task is asked through its
 * status page and answers between two steps (train/loop/variable_query.h). */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/running.h"
#include "cli/show.h"
#include "formats/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIELDS = 6 };
static const size_t ANSWER_MAX = (size_t)64 << 20;

typedef struct vars_query {
    const mf_status_page_seen *task;
    mf_status_page_question question;
    mf_buf path, value_path; /* of the answer */
    char *text; /* the answer; split into lines and fields in place */
    mf_tensor value; /* of the requested variable */
} vars_query;

/* ---- query ---- */

/* The requested task, or the first that trains on this host. */
static const mf_status_page_seen *find_asked_task(const mf_job_view_job *job, const char *wanted)
{
    for (int i = 0; i < job->n; i++) {
        const mf_status_page_seen *t = &job->tasks[i];

        if (t->alive && !mf_job_view_is_kept(t) && !mf_job_view_is_master(t) &&
            t->page.phase != MF_PHASE_SERVE && mf_cli_is_meant(wanted, t->page.task))
            return t;
    }
    return NULL;
}

static mf_status cmd_job_vars_wait_for(mf_args *args, const vars_query *q, int64_t seconds)
{
    const int64_t until = mf_clock_ns() + seconds * INT64_C(1000000000);

    while (access(q->path.data, R_OK) != 0) {
        if (!mf_status_page_is_alive(q->task))
            return MF_FAIL(MF_UNAVAILABLE, "%s ended before it answered", q->task->page.task);
        if (mf_clock_ns() >= until) {
            mf_args_hint(args, "`meshflow job status %s` shows its state", q->task->page.job);
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "%s has not finished a step within %" PRId64 " s",
                           q->task->page.task, seconds);
        }
        (void)nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
    return MF_OK;
}

static mf_status cmd_job_vars_read_value(vars_query *q)
{
    char *data = NULL;
    size_t len = 0;
    mf_status st = mf_file_read(q->value_path.data, SIZE_MAX / 2, &data, &len);

    if (st == MF_OK)
        st = mf_npy_decode(data, len, &q->value);
    mf_free(data);
    return st;
}

static mf_status cmd_job_vars_ask(mf_args *args, vars_query *q)
{
    int64_t seconds = 30;
    size_t len;

    MF_TRY(mf_args_int(args, "wait", 1, 86400, &seconds));
    q->question.requester = getpid();
    MF_TRY(mf_status_page_answer_path(q->task->path, q->question.requester, &q->path));
    mf_buf_printf(&q->value_path, "%s.npy", q->path.data);
    MF_TRY(mf_buf_finish(&q->value_path));
    MF_TRY(mf_status_page_ask(q->task, &q->question));
    MF_TRY(cmd_job_vars_wait_for(args, q, seconds));
    MF_TRY(mf_file_read(q->path.data, ANSWER_MAX, &q->text, &len));
    if (strncmp(q->text, "error\t", 6) == 0)
        return MF_FAIL(MF_NOT_FOUND, "%.*s", (int)strcspn(q->text + 6, "\n"), q->text + 6);
    return q->question.name[0] ? cmd_job_vars_read_value(q) : MF_OK;
}

static void vars_query_deinit(vars_query *q)
{
    if (q->path.data && !q->text && mf_status_page_is_alive(q->task) && /* withdraws the query */
        mf_status_page_ask(q->task, &(mf_status_page_question){ .requester = 0 }) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    if (q->path.data)
        (void)unlink(q->path.data);
    if (q->value_path.data)
        (void)unlink(q->value_path.data);
    mf_buf_deinit(&q->path);
    mf_buf_deinit(&q->value_path);
    mf_free(q->text);
    mf_tensor_clear(&q->value);
}

/* ---- output ---- */

/* Splits the line at *at into fields and advances *at; false: there is no line. Missing fields are
 * "". */
static bool next_line(char **at, const char *fields[FIELDS])
{
    char *line = *at, *end = line + strcspn(line, "\n");

    if (*line == '\0')
        return false;
    *at = *end ? end + 1 : end;
    *end = '\0';
    for (int i = 0; i < FIELDS; i++) {
        char *tab = line + strcspn(line, "\t");

        fields[i] = line;
        line = *tab ? tab + 1 : tab;
        *tab = '\0';
    }
    return true;
}

static void cmd_job_vars_put_text(vars_query *q, mf_buf *out)
{
    const char *f[FIELDS];
    char *at = q->text;
    bool first = false;

    while (next_line(&at, f)) {
        if (strcmp(f[0], "step") == 0) {
            mf_buf_printf(out, "%s after step %s\n%-32s %-8s %-16s %9s  %s", q->task->page.task,
                          f[1], "variable", "type", "shape", "step", "held by");
        } else if (strcmp(f[0], "variable") == 0) {
            mf_buf_printf(out, "\n%-32s %-8s %-16s %9s  ", f[1], f[2], f[3], f[5]);
            first = true;
        } else if (strcmp(f[0], "holder") == 0) {
            mf_buf_printf(out, "%s%s: %s (%s)", first ? "" : "; ", f[1], f[2], f[3]);
            first = false;
        }
    }
    mf_buf_str(out, "\n");
    if (q->question.name[0]) {
        mf_show_text(&q->value, out);
        mf_buf_str(out, "\n");
    }
}

static void cmd_job_vars_put_field(const char *name, const char *text, mf_buf *out)
{
    mf_buf_printf(out, "\"%s\":", name);
    mf_buf_json(out, text, strlen(text));
    mf_buf_str(out, ",");
}

static void cmd_job_vars_put_number(const char *name, const char *text, mf_buf *out)
{
    mf_buf_printf(out, "\"%s\":%lld", name, strtoll(text, NULL, 10));
}

static void cmd_job_vars_put_json(vars_query *q, mf_buf *out)
{
    const char *f[FIELDS];
    char *at = q->text;
    int variables = 0, holders = 0;

    mf_buf_str(out, "{");
    cmd_job_vars_put_field("task", q->task->page.task, out);
    while (next_line(&at, f)) {
        if (strcmp(f[0], "step") == 0) {
            cmd_job_vars_put_number("step", f[1], out);
            mf_buf_str(out, ",\"variables\":[");
        } else if (strcmp(f[0], "variable") == 0) {
            mf_buf_str(out, variables++ ? "]},{" : "{");
            holders = 0;
            cmd_job_vars_put_field("name", f[1], out);
            cmd_job_vars_put_field("type", f[2], out);
            cmd_job_vars_put_field("shape", f[3], out);
            cmd_job_vars_put_field("kind", f[4], out);
            cmd_job_vars_put_number("step", f[5], out);
            mf_buf_str(out, ",\"holders\":[");
        } else if (strcmp(f[0], "holder") == 0) {
            mf_buf_str(out, holders++ ? ",{" : "{");
            cmd_job_vars_put_field("task", f[1], out);
            cmd_job_vars_put_field("slice", f[2], out);
            cmd_job_vars_put_number("version", f[3], out);
            mf_buf_str(out, "}");
        }
    }
    mf_buf_str(out, variables ? "]}]" : "]");
    if (q->question.name[0]) {
        mf_buf_str(out, ",\"value\":");
        mf_show_json(&q->value, INT64_MAX, out);
    }
    mf_buf_str(out, "}\n");
}

/* ---- the command ---- */

static mf_status cmd_job_vars_save(const vars_query *q, const char *path)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_npy_encode(&q->value, &bytes);

    if (st == MF_OK)
        st = mf_file_write(path, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    return st;
}

static mf_status inquire(mf_args *args, const mf_job_view_job *job, mf_buf *out)
{
    const char *wanted = mf_args_value(args, "task"), *file = mf_args_value(args, "out");
    const char *name = args->n_words > 1 ? args->words[1] : "";
    vars_query q = { .task = find_asked_task(job, wanted) };
    mf_status st;

    if (file && !*name)
        return mf_args_wrong(args, "--out writes the value of a variable: name the variable");
    if (strlen(name) >= sizeof q.question.name)
        return mf_args_wrong(args, "a variable name of %zu characters is too long", strlen(name));
    if (!q.task)
        return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living worker%s%s here",
                       job->tasks[0].page.job, wanted ? " " : "", wanted ? wanted : "");
    memcpy(q.question.name, name, strlen(name) + 1);
    st = cmd_job_vars_ask(args, &q);
    if (st == MF_OK && file)
        st = cmd_job_vars_save(&q, file);
    if (st == MF_OK && mf_args_has(args, "json"))
        cmd_job_vars_put_json(&q, out);
    else if (st == MF_OK)
        cmd_job_vars_put_text(&q, out);
    vars_query_deinit(&q);
    return st;
}

static mf_status vars_run(mf_args *args)
{
    mf_buf out = { 0 };
    mf_job_view r;
    mf_status st = mf_cli_running(args, args->words[0], &r);

    if (st == MF_OK)
        st = inquire(args, &r.jobs[0], &out);
    mf_job_view_deinit(&r);
    if (st == MF_OK)
        return mf_cli_print(&out);
    mf_buf_deinit(&out);
    return st;
}

static const mf_option options[] = {
    { .name = "task",
      .value = "TASK",
      .help = "task to ask, e.g. worker:1 (default: the first on this host)" },
    { .name = "out", .value = "FILE", .help = "write the value as .npy", .letter = 'o' },
    { .name = "wait",
      .value = "SECONDS",
      .help = "time to wait for the end of a step (default: "
              "30)" },
    { .name = "json", .help = "print one JSON object on one line, with all elements of the value" },
    { 0 },
};

const mf_command mf_command_job_vars = {
    .name = "job vars",
    .arguments = "JOB [NAME]",
    .summary = "read variables of a running job",
    .about =
        "Asks a worker of a training of this user on this host, which answers between two steps. "
        "Prints name, type and shape of each variable, which task holds which slice of it, and "
        "the step (or the update of a parameter server) of that slice; with NAME also the value. "
        "The training is not changed. docs/guides/status.md explains the columns.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow job vars resnet", "meshflow job vars resnet dense/bias",
                               "meshflow job vars resnet dense/kernel --out kernel.npy", NULL },
    .min_args = 1,
    .max_args = 2,
    .run = vars_run,
};
