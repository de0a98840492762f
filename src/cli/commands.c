/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - the table of commands and the rows of `meshflow --help`. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define COMMANDS(X) \
    X(train) \
    X(eval) \
    X(predict) \
    X(contrast) \
    X(compress) \
    X(models) \
    X(plan) \
    X(bench_step) \
    X(launch) \
    X(job_list) \
    X(job_status) \
    X(job_hang) \
    X(job_set) \
    X(job_vars) \
    X(job_join) \
    X(job_leave) \
    X(job_drain) \
    X(job_scale) \
    X(job_sweep) \
    X(queue_list) \
    X(queue_submit) \
    X(queue_cancel) \
    X(queue_attach) \
    X(queue_daemon) \
    X(audit) \
    X(server) \
    X(serve) \
    X(cert) \
    X(doctor) \
    X(doctor_env) \
    X(doctor_topo) \
    X(data_show) \
    X(data_list) \
    X(data_convert) \
    X(ckpt_show) \
    X(ckpt_verify) \
    X(ckpt_diff) \
    X(ckpt_convert) \
    X(events) \
    X(graph_run) \
    X(graph_map) \
    X(graph_print) \
    X(graph_dot) \
    X(graph_check) \
    X(graph_optimize) \
    X(ops) \
    X(params) \
    X(version) \
    X(help)
/* clang-format on */

#define DECLARE(name) extern const mf_command mf_command_##name;
COMMANDS(DECLARE)

#define ADDRESS(name) &mf_command_##name,
const mf_command *const mf_commands[] = { COMMANDS(ADDRESS) NULL };

static const char training[] = "training", plans[] = "planning and measuring", jobs[] = "jobs",
                  clusters[] = "clusters and servers", files[] = "files", graphs[] = "graphs",
                  program[] = "program";

const mf_topic mf_topics[] = {
    { training, "train", NULL },
    { training, "eval", NULL },
    { training, "predict", NULL },
    { training, "contrast", NULL },
    { training, "compress", NULL },
    { training, "models", NULL },
    { plans, "plan", NULL },
    { plans, "bench", "measure a training step" },
    { jobs, "launch", NULL },
    { jobs, "job", "list, inspect, change and resize running jobs" },
    { jobs, "queue", "submit commands to a job queue on this host" },
    { jobs, "audit", NULL },
    { clusters, "server", NULL },
    { clusters, "serve", NULL },
    { clusters, "cert", NULL },
    { clusters, "doctor", "check a cluster; show this task's role and this host's devices" },
    { files, "ckpt", "show, verify, compare and convert checkpoints" },
    { files, "data", "list, show and convert data sets" },
    { files, "events", NULL },
    { graphs, "graph", "run, map, print, check and optimize graphs" },
    { graphs, "ops", NULL },
    { program, "params", NULL },
    { program, "version", NULL },
    { program, "help", NULL },
    { NULL, NULL, NULL },
};

const mf_command *mf_command_find(const char *name)
{
    for (int i = 0; mf_commands[i]; i++) {
        if (strcmp(mf_commands[i]->name, name) == 0)
            return mf_commands[i];
    }
    return NULL;
}

const mf_command *mf_command_resolve(const char *name)
{
    const mf_command *c = mf_command_find(name);
    const char *today = c ? NULL : mf_alias_find(name);

    return today ? mf_command_find(today) : c;
}

bool mf_command_is_of(const mf_command *c, const char *group)
{
    const size_t n = strlen(group);

    return strncmp(c->name, group, n) == 0 && c->name[n] == ' ';
}

bool mf_command_is_group(const char *name)
{
    for (int i = 0; mf_commands[i]; i++) {
        if (mf_command_is_of(mf_commands[i], name))
            return true;
    }
    return false;
}

const char *mf_command_closest(const char *name)
{
    mf_did_you_mean closest = mf_did_you_mean_to(name);

    for (int i = 0; mf_commands[i]; i++)
        mf_did_you_mean_try(&closest, mf_commands[i]->name);
    for (const mf_topic *t = mf_topics; t->name; t++)
        mf_did_you_mean_try(&closest, t->name);
    for (const mf_alias *a = mf_aliases; a->old; a++)
        mf_did_you_mean_try(&closest, a->old);
    if (!closest.best || mf_command_is_group(closest.best) || mf_command_find(closest.best))
        return closest.best;
    return mf_alias_find(closest.best);
}
