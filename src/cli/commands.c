/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - which commands there are, in the order of the help. */
#include "cli/command.h"

/* clang-format off */
#define COMMANDS(X) \
    X(train) \
    X(eval) \
    X(predict) \
    X(contrast) \
    X(compress) \
    X(plan) \
    X(bench_step) \
    X(models) \
    X(data_show) \
    X(data_list) \
    X(data_convert) \
    X(ckpt_show) \
    X(ckpt_verify) \
    X(ckpt_diff) \
    X(ckpt_convert) \
    X(audit) \
    X(events_show) \
    X(graph_run) \
    X(graph_map) \
    X(graph_print) \
    X(graph_dot) \
    X(graph_check) \
    X(graph_optimize) \
    X(launch) \
    X(jobs) \
    X(status) \
    X(hang) \
    X(set) \
    X(vars) \
    X(join) \
    X(leave) \
    X(drain) \
    X(scale) \
    X(daemon) \
    X(submit) \
    X(queue) \
    X(attach) \
    X(cancel) \
    X(serve) \
    X(server) \
    X(env) \
    X(topo) \
    X(doctor) \
    X(cert) \
    X(ops) \
    X(params) \
    X(version) \
    X(help)
/* clang-format on */

#define DECLARE(name) extern const mf_command mf_command_##name;
COMMANDS(DECLARE)

#define ADDRESS(name) &mf_command_##name,
const mf_command *const mf_commands[] = { COMMANDS(ADDRESS) NULL };
