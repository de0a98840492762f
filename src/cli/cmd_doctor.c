/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - `meshflow doctor`: problems of a cluster of servers, each with its fix. */
#include "cli/doctor.h"
#include "cli/job.h"
#include "net/transport_registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- findings ---- */

static const char *format(mf_doctor *d, const char *fmt, va_list ap)
{
    char text[1200];
    const char *kept;

    (void)vsnprintf(text, sizeof text, fmt, ap);
    kept = mf_arena_strdup(d->arena, text);
    d->no_memory |= !kept;
    return kept ? kept : "";
}

const char *mf_doctor_place(mf_doctor *d, const char *fmt, ...)
{
    va_list ap;
    const char *text;

    va_start(ap, fmt);
    text = format(d, fmt, ap);
    va_end(ap);
    return text;
}

const char *mf_doctor_task(mf_doctor *d, int task)
{
    const mf_server_task *t = &d->tasks.all[task];

    return mf_doctor_place(d, "cluster.%s[%d] (%s)", t->job, t->index, t->address);
}

void mf_doctor_report(mf_doctor *d, mf_verdict verdict, const char *what, const char *place,
                      const char *fix, const char *fmt, ...)
{
    va_list ap;

    if (mf_grow(&d->findings, &d->cap, d->n + 1, sizeof *d->findings) != MF_OK) {
        d->no_memory = true;
        return;
    }
    va_start(ap, fmt);
    d->findings[d->n++] = (mf_finding){
        .verdict = verdict, .what = what, .place = place, .text = format(d, fmt, ap), .fix = fix
    };
    va_end(ap);
}

/* ---- checks ---- */

static mf_status read_security(mf_doctor *d)
{
    mf_security *s = &d->probe.security;

    s->insecure_any_peer = mf_args_has(d->args, "insecure-any-peer");
    d->probe.tls_dir = mf_args_value(d->args, "tls-dir");
    if (!d->probe.tls_dir) {
        mf_security_fill(s);
        return MF_OK;
    }
    if (mf_security_from_dir(d->probe.tls_dir, "client", s, &d->paths) != MF_OK)
        mf_doctor_report(d, MF_VERDICT_BAD, "certificate", d->probe.tls_dir,
                         "meshflow cert --out DIR --host NAME", "%s", mf_error_message());
    return MF_OK;
}

static void cmd_doctor_read_cluster(mf_doctor *d)
{
    const char *text = mf_args_value(d->args, "cluster"), *job = mf_args_value(d->args, "job-name"),
               *index = mf_args_value(d->args, "task-index");
    mf_status st = MF_OK;

    d->cluster = text || getenv("TF_CONFIG");
    if (d->cluster)
        st = job || index ? mf_server_tasks_read(text, job, index, &d->tasks)
                          : mf_server_tasks_list(text, &d->tasks);
    if (st != MF_OK) {
        mf_doctor_report(d, MF_VERDICT_BAD, "cluster", text ? "--cluster" : "TF_CONFIG",
                         "write {\"worker\": [\"host:port\", ...], \"ps\": [...]}", "%s",
                         mf_error_message());
        d->tasks.n = 0;
    }
}

static mf_status cmd_doctor_check(mf_doctor *d)
{
    double seconds = 3;

    MF_TRY(mf_args_double(d->args, "timeout", 0.01, 3600.0, &seconds));
    d->probe.timeout_ms = (int64_t)(seconds * 1000);
    d->probe.clock = true;
    MF_TRY(read_security(d));
    cmd_doctor_read_cluster(d);
    mf_doctor_check_host(d);
    mf_doctor_check_certificates(d);
    if (d->tasks.n > 0) {
        mf_doctor_check_spec(d);
        mf_doctor_check_tasks(d);
    }
    return d->no_memory ? MF_NOMEM("findings") : MF_OK;
}

/* ---- output ---- */

static const char *const words[] = { "ok", "warning", "bad" };

static void cmd_doctor_print_text(const mf_doctor *d, mf_buf *out)
{
    for (int64_t i = 0; i < d->n; i++) {
        const mf_finding *f = &d->findings[i];

        mf_buf_printf(out, "%-8s %-12s %s%s%s\n", words[f->verdict], f->what,
                      f->place ? f->place : "", f->place ? ": " : "", f->text);
        if (f->fix)
            mf_buf_printf(out, "%-8s fix: %s\n", "", f->fix);
    }
    if (!d->cluster)
        mf_buf_str(out, "no cluster was checked: give --cluster JSON, or set TF_CONFIG\n");
}

static void cmd_doctor_put(mf_buf *out, const char *name, const char *value)
{
    mf_buf_printf(out, ",\"%s\":", name);
    if (value)
        mf_buf_json(out, value, strlen(value));
    else
        mf_buf_str(out, "null");
}

static void cmd_doctor_print_json(const mf_doctor *d, mf_buf *out)
{
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < d->n; i++) {
        const mf_finding *f = &d->findings[i];

        mf_buf_printf(out, "%s{\"verdict\":\"%s\"", i ? ",\n " : "", words[f->verdict]);
        cmd_doctor_put(out, "what", f->what);
        cmd_doctor_put(out, "place", f->place);
        cmd_doctor_put(out, "text", f->text);
        cmd_doctor_put(out, "fix", f->fix);
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]\n");
}

static mf_status doctor_run(mf_args *args)
{
    mf_doctor d = { .args = args, .arena = mf_arena_new() };
    mf_buf text = { 0 };
    int bad = 0;
    mf_status st = d.arena ? cmd_doctor_check(&d) : MF_NOMEM("findings");

    if (st == MF_OK) {
        if (mf_args_has(args, "json"))
            cmd_doctor_print_json(&d, &text);
        else
            cmd_doctor_print_text(&d, &text);
        st = mf_cli_print(&text);
    }
    for (int64_t i = 0; i < d.n; i++)
        bad += d.findings[i].verdict == MF_VERDICT_BAD;
    if (st == MF_OK && bad > 0)
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%d problem%s found", bad, bad == 1 ? "" : "s");
    mf_server_tasks_deinit(&d.tasks);
    mf_free(d.findings);
    mf_free(d.paths);
    mf_arena_free(d.arena);
    return st;
}

static const mf_option options[] = {
    { .name = "cluster",
      .value = "JSON",
      .help = "tasks to check, as for `meshflow server`, or a file (default: TF_CONFIG)" },
    { .name = "job-name",
      .value = "JOB",
      .help = "role of the task that will run on this host (default: none)" },
    { .name = "task-index", .value = "N", .help = "index of that task (default: 0)" },
    { .name = "dir", .value = "DIR", .help = "a folder for graphs or checkpoints", .many = true },
    { .name = "timeout", .value = "SECONDS", .help = "time to wait for each answer (default: 3)" },
    { .name = "tls-dir", .value = "DIR", .help = "certificates, as written by `meshflow cert`" },
    { .name = "insecure-any-peer", .help = "without TLS: accept every answering peer" },
    { .name = "json", .help = "print a JSON array" },
    { 0 },
};

const mf_command mf_command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "check a cluster of servers",
    .about = "Checks this host (plugins, threads, open files, disks), certificates and the "
             "description of the cluster. Then contacts every task and checks that its host name "
             "resolves, that a server listens, that it is the right task, its version and its "
             "clock; with --job-name also that this task could listen here. Tasks may be "
             "`meshflow server` or TensorFlow's servers. Each finding has a place and, if it is "
             "a problem, a fix.\n\nExit status 1: there is at least one problem.",
    .options = options,
    .examples = (const char *const[]){ "meshflow doctor --cluster '{\"ps\": [\"a:2222\"], "
                                       "\"worker\": [\"b:2222\", \"c:2222\"]}'",
                                       "meshflow doctor --dir /data --tls-dir certs", NULL },
    .run = doctor_run,
};
