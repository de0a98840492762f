/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - which commands there are. */
#include "cli/command.h"

extern const mf_command mf_command_graph_run, mf_command_graph_print, mf_command_graph_dot,
    mf_command_graph_check, mf_command_graph_optimize, mf_command_data_show, mf_command_data_list,
    mf_command_data_convert, mf_command_audit, mf_command_ops, mf_command_params,
    mf_command_version, mf_command_help;

const mf_command *const mf_commands[] = {
    &mf_command_graph_run,      &mf_command_graph_print,
    &mf_command_graph_dot,      &mf_command_graph_check,
    &mf_command_graph_optimize, &mf_command_data_show,
    &mf_command_data_list,      &mf_command_data_convert,
    &mf_command_audit,          &mf_command_ops,
    &mf_command_params,         &mf_command_version,
    &mf_command_help,           NULL,
};
