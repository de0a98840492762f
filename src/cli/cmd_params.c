/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_params.c - `meshflow params`: tunables and their values. */
#include "base/param.h"
#include "cli/command.h"

#include <string.h>

static void cmd_params_print_json(mf_param *const *params, int n, mf_buf *out)
{
    mf_buf_str(out, "[");
    for (int i = 0; i < n; i++) {
        const mf_param *p = params[i];

        mf_buf_printf(out, "%s{\"name\":\"%s\",\"value\":%lld,\"default\":%lld,\"source\":\"%s\",",
                      i > 0 ? ",\n " : "", p->name, (long long)p->value, (long long)p->initial,
                      p->source);
        mf_buf_str(out, "\"help\":");
        mf_buf_json(out, p->help, strlen(p->help));
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]\n");
}

static void cmd_params_print_table(mf_param *const *params, int n, mf_buf *out)
{
    mf_buf_printf(out, "%-22s %10s %10s  %-12s %s\n", "name", "value", "default", "from", "help");
    for (int i = 0; i < n; i++) {
        const mf_param *p = params[i];

        mf_buf_printf(out, "%-22s %10lld %10lld  %-12s %s\n", p->name, (long long)p->value,
                      (long long)p->initial, p->source, p->help);
    }
}

static mf_status params_run(mf_args *args)
{
    int n;
    mf_param *const *params = mf_params(&n);
    mf_buf text = { 0 };

    if (mf_args_has(args, "json"))
        cmd_params_print_json(params, n, &text);
    else
        cmd_params_print_table(params, n, &text);
    return mf_cli_print(&text);
}

static const mf_option options[] = {
    { .name = "json", .help = "print a JSON array of objects" },
    { 0 },
};

const mf_command mf_command_params = {
    .name = "params",
    .arguments = "",
    .summary = "list tunables, their values and sources",
    .about = "A tunable NAME is set by --param NAME=VALUE or by the environment variable "
             "MESHFLOW_NAME (in capitals); --param takes precedence. Tunables do not change "
             "results.",
    .options = options,
    .examples = (const char *const[]){ "meshflow params --param pool_spin_rounds=0",
                                       "MESHFLOW_BUFFER_LIMIT_MIB=1024 meshflow params", NULL },
    .run = params_run,
};
