/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor_env.c - `meshflow doctor env`: the role of this process, where it comes from, and
 * mistakes in the description of the cluster. */
#include "base/machine_limits.h"
#include "cli/cluster_options.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

static void cmd_doctor_env_put_json(mf_buf *out, const char *name, const char *value)
{
    mf_buf_printf(out, "\"%s\":", name);
    if (value)
        mf_buf_json(out, value, strlen(value));
    else
        mf_buf_str(out, "null");
}

/* ---- JSON output ---- */

static void json_tasks(const mf_cluster *c, mf_buf *out)
{
    mf_buf_str(out, ",\"tasks\":[");
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_cluster_task *t = &c->tasks[i];

        mf_buf_printf(out, "%s{\"job\":\"%s\",\"index\":%d,", i > 0 ? "," : "",
                      mf_role_name(t->role), t->index);
        cmd_doctor_env_put_json(out, "address", t->address);
        mf_buf_str(out, ",");
        cmd_doctor_env_put_json(out, "from", t->from);
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]");
}

static void json_findings(const mf_cluster *c, mf_buf *out)
{
    mf_buf_str(out, ",\"facts\":[");
    for (int i = 0; i < c->n_facts; i++) {
        mf_buf_str(out, i > 0 ? ",{" : "{");
        cmd_doctor_env_put_json(out, "what", c->facts[i].what);
        mf_buf_str(out, ",");
        cmd_doctor_env_put_json(out, "value", c->facts[i].value);
        mf_buf_str(out, ",");
        cmd_doctor_env_put_json(out, "from", c->facts[i].from);
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "],\"notes\":[");
    for (int i = 0; i < c->n_notes; i++) {
        mf_buf_str(out, i > 0 ? "," : "");
        mf_buf_json(out, c->notes[i], strlen(c->notes[i]));
    }
    mf_buf_str(out, "],\"mistakes\":[");
    for (int i = 0; i < c->n_mistakes; i++) {
        mf_buf_str(out, i > 0 ? ",{" : "{");
        cmd_doctor_env_put_json(out, "place", c->mistakes[i].place);
        mf_buf_str(out, ",");
        cmd_doctor_env_put_json(out, "problem", c->mistakes[i].problem);
        mf_buf_str(out, ",");
        cmd_doctor_env_put_json(out, "fix", c->mistakes[i].fix);
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]");
}

static void cmd_doctor_env_print_json(const mf_cluster *c, mf_buf *out)
{
    const mf_cluster_task *me = mf_cluster_self(c);
    char name[MF_TASK_NAME_MAX];
    const char *why;
    const int threads = mf_default_threads(&why);

    mf_buf_str(out, "{");
    cmd_doctor_env_put_json(out, "convention", c->convention);
    mf_buf_str(out, ",");
    cmd_doctor_env_put_json(out, "host", c->host);
    mf_buf_str(out, ",");
    cmd_doctor_env_put_json(out, "task", me ? mf_cluster_task_name(me, name) : NULL);
    mf_buf_printf(out,
                  ",\"chief\":%s,\"process\":%d,\"processes\":%d,\"rank\":%d,\"size\":%d,"
                  "\"local_rank\":%d,\"local_size\":%d,\"sparse\":%s,",
                  mf_cluster_is_chief(c, me) ? "true" : "false", c->self, c->n_tasks, c->rank,
                  c->size, c->local_rank, c->local_size, c->sparse ? "true" : "false");
    cmd_doctor_env_put_json(out, "rendezvous", c->rendezvous);
    mf_buf_printf(out, ",\"threads\":%d,", threads);
    cmd_doctor_env_put_json(out, "threads_from", why);
    mf_buf_str(out, ",");
    cmd_doctor_env_put_json(out, "instruction_set", mf_isa_name(mf_isa_limit()));
    mf_buf_str(out, ",");
    cmd_doctor_env_put_json(out, "numerics_class", mf_numerics_class(false));
    mf_buf_str(out, ",");
    cmd_doctor_env_put_json(out, "numerics_class_bf16", mf_numerics_class(true));
    json_tasks(c, out);
    json_findings(c, out);
    mf_buf_str(out, "}\n");
}

/* ---- text output ---- */

static void row(mf_buf *out, const char *what, const char *value, const char *from)
{
    mf_buf_printf(out, "  %-18s %s", what, value);
    if (from && *from)
        mf_buf_printf(out, "   (%s)", from);
    mf_buf_str(out, "\n");
}

static void print_place(const mf_cluster *c, mf_buf *out)
{
    const mf_cluster_task *me = mf_cluster_self(c);
    char name[MF_TASK_NAME_MAX], text[64];

    if (!me) {
        row(out, "task", c->n_mistakes > 0 ? "not known" : "none: a client", "");
        return;
    }
    row(out, "task", mf_cluster_task_name(me, name), c->own_from);
    row(out, "chief", mf_cluster_is_chief(c, me) ? "yes" : "no", "");
    if (c->rank >= 0)
        (void)snprintf(text, sizeof text, "%d of %d that train together", c->rank, c->size);
    else
        (void)snprintf(text, sizeof text, "none: it does not train; %d do", c->size);
    row(out, "rank", text, "");
    if (c->local_rank >= 0 && c->local_size >= 0) {
        (void)snprintf(text, sizeof text, "%d of %d on this host", c->local_rank, c->local_size);
        row(out, "local rank", text, "");
    }
    row(out, "rendezvous", c->rendezvous ? c->rendezvous : "none", "");
}

static void print_threads(mf_buf *out)
{
    const char *why;
    char text[400];
    mf_limits l;

    (void)snprintf(text, sizeof text, "%d", mf_default_threads(&why));
    row(out, "threads", text, why);
    mf_limits_get("", &l);
    (void)snprintf(text, sizeof text, "%d of %d", l.allowed, l.online);
    row(out, "cores", text, "affinity and cpuset");
    if (l.quota > 0) {
        (void)snprintf(text, sizeof text, "%.3g cores", l.quota);
        row(out, "quota", text, l.quota_from);
    }
}

static void print_numerics(mf_buf *out)
{
    char text[200];

    (void)snprintf(text, sizeof text, "available: %s", mf_isa_available_text());
    row(out, "instruction set", mf_isa_name(mf_isa_limit()), text);
    row(out, "numerics class", mf_numerics_class(false), "");
    row(out, "of bfloat16", mf_numerics_class(true), "");
}

static void print_lists(const mf_cluster *c, mf_buf *out)
{
    char name[MF_TASK_NAME_MAX];

    mf_buf_str(out, "taken:\n");
    for (int i = 0; i < c->n_facts; i++)
        row(out, c->facts[i].what, c->facts[i].value, c->facts[i].from);
    if (c->n_facts == 0)
        mf_buf_str(out, "  nothing: no variable or option names a cluster\n");
    for (int i = 0; i < c->n_tasks && c->addresses; i++) {
        const mf_cluster_task *t = &c->tasks[i];

        row(out, mf_cluster_task_name(t, name), t->address ? t->address : "no address", t->from);
    }
    for (int i = 0; i < c->n_notes; i++)
        mf_buf_printf(out, "note: %s\n", c->notes[i]);
    for (int i = 0; i < c->n_mistakes; i++)
        mf_buf_printf(out, "mistake: %s: %s\n  fix: %s\n", c->mistakes[i].place,
                      c->mistakes[i].problem, c->mistakes[i].fix);
}

static void cmd_doctor_env_print_text(const mf_cluster *c, mf_buf *out)
{
    mf_buf_printf(out, "this process, by %s, on %s:\n",
                  strcmp(c->convention, "none") == 0 ? "nothing" : c->convention, c->host);
    print_place(c, out);
    print_threads(out);
    print_numerics(out);
    print_lists(c, out);
}

static mf_status env_run(mf_args *args)
{
    mf_cluster_request request;
    mf_buf text = { 0 };
    mf_cluster *c;
    mf_status st;

    MF_TRY(mf_cluster_request_read(args, &request));
    MF_TRY(mf_cluster_examine(&request, &c));
    if (mf_args_has(args, "json"))
        cmd_doctor_env_print_json(c, &text);
    else
        cmd_doctor_env_print_text(c, &text);
    st = mf_cli_print(&text);
    if (st == MF_OK && c->n_mistakes > 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%d mistake%s in the description of the cluster",
                     c->n_mistakes, c->n_mistakes == 1 ? "" : "s");
    mf_cluster_free(c);
    return st;
}

static const mf_option options[] = {
    MF_CLUSTER_OPTIONS,
    { .name = "ps",
      .value = "N",
      .help = "the last N processes of the launcher are parameter servers (default: 0)" },
    { .name = "json", .help = "print one JSON object" },
    { 0 },
};

const mf_command mf_command_doctor_env = {
    .name = "doctor env",
    .arguments = "",
    .summary = "show the role of this process and its source",
    .about =
        "Prints which settings were taken from where, the role of this process, and all mistakes "
        "with their fix; nothing is started. Run it in place of a program that does not find its "
        "cluster.\n\nThe first source that describes a cluster is used: options, TF_CONFIG, the "
        "variables of torchrun, Open MPI, MPICH, Slurm (under srun), a hostfile (--hostfile, "
        "MESHFLOW_HOSTFILE). MESHFLOW_RENDEZVOUS=HOST:PORT replaces the address of the "
        "rendezvous.\n\nExit status 1: there are mistakes.",
    .options = options,
    .examples = (const char *const[]){ "TF_CONFIG='{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{"
                                       "\"type\":\"worker\",\"index\":0}}' "
                                       "meshflow doctor env",
                                       "srun -n 4 meshflow doctor env --json", NULL },
    .run = env_run,
};
