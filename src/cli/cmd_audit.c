/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_audit.c - `meshflow audit`: checks that training used every sample exactly once per epoch. */
#include "cli/command.h"
#include "data/ledger.h"

#include <string.h>

static void cmd_audit_print_text(const mf_audit *a, mf_buf *out)
{
    const mf_ledger_info *i = &a->info;

    mf_buf_printf(out, "%s: %lld samples, seed %llu, batches of %lld%s", a->name,
                  (long long)i->count, (unsigned long long)i->seed, (long long)i->batch,
                  i->drop_partial ? ", partial ones dropped" : "");
    if (i->sliced > 0)
        mf_buf_printf(out, ", sliced by file over %lld shards", (long long)i->sliced);
    mf_buf_str(out, "\n");
    if (a->last_step < 0)
        mf_buf_str(out, "no steps yet\n");
    else
        mf_buf_printf(out, "steps %lld to %lld: %lld samples used, %lld complete epochs%s",
                      (long long)a->first_step, (long long)a->last_step, (long long)a->samples,
                      (long long)a->epochs, a->running > 0 ? "" : "\n");
    if (a->running > 0)
        mf_buf_printf(out, " and %lld of %lld samples of the next\n", (long long)a->running,
                      (long long)i->count);
    if (a->n_skipped > 0)
        mf_buf_printf(out, "%lld samples were skipped: their groups had converged and left\n",
                      (long long)a->n_skipped);
    if (a->torn_at >= 0)
        mf_buf_printf(out,
                      "the last record, at byte %lld, is incomplete, as after a crash; the "
                      "records before it are checked\n",
                      (long long)a->torn_at);
    if (a->problems.len > 0)
        mf_buf_bytes(out, a->problems.data, a->problems.len);
    if (a->n_problems == 0)
        mf_buf_printf(out, "ok: each sample was used %s once in every epoch\n",
                      a->n_skipped > 0 ? "or skipped exactly" : "exactly");
}

static void cmd_audit_print_json(const mf_audit *a, mf_buf *out)
{
    mf_buf_printf(out, "{\"ok\":%s,\"name\":", a->n_problems == 0 ? "true" : "false");
    mf_buf_json(out, a->name, strlen(a->name));
    mf_buf_printf(out,
                  ",\"count\":%lld,\"seed\":%llu,\"batch\":%lld,\"slice\":\"%s\","
                  "\"first_step\":%lld,"
                  "\"last_step\":%lld,\"samples\":%lld,\"skipped\":%lld,\"epochs\":%lld,"
                  "\"running\":%lld,"
                  "\"torn\":%s,\"n_problems\":%lld,\"problems\":[",
                  (long long)a->info.count, (unsigned long long)a->info.seed,
                  (long long)a->info.batch, a->info.sliced > 0 ? "file" : "element",
                  (long long)a->first_step, (long long)a->last_step, (long long)a->samples,
                  (long long)a->n_skipped, (long long)a->epochs, (long long)a->running,
                  a->torn_at >= 0 ? "true" : "false", (long long)a->n_problems);
    for (const char *p = a->problems.data; p && *p;) {
        const size_t n = strcspn(p, "\n");

        mf_buf_str(out, p == a->problems.data ? "" : ",");
        mf_buf_json(out, p, n);
        p += n + 1;
    }
    mf_buf_str(out, "]}\n");
}

static mf_status audit_run(mf_args *args)
{
    mf_buf text = { 0 };
    mf_audit a;
    mf_status st = mf_ledger_audit(args->words[0], &a);

    if (st == MF_OK) {
        if (mf_args_has(args, "json"))
            cmd_audit_print_json(&a, &text);
        else
            cmd_audit_print_text(&a, &text);
        st = mf_cli_print(&text);
        if (st == MF_OK && a.n_problems > 0)
            st = MF_FAIL(MF_DATA_LOSS, "the samples were not used exactly once: %lld problem%s",
                         (long long)a.n_problems, a.n_problems > 1 ? "s" : "");
    }
    mf_audit_deinit(&a);
    return st;
}

static const mf_option options[] = {
    { .name = "json", .help = "print one JSON object" },
    { 0 },
};

const mf_command mf_command_audit = {
    .name = "audit",
    .arguments = "DIR",
    .summary = "check that training used each sample exactly once per epoch",
    .about = "Reads DIR/samples.ledger, which training writes. Steps must be consecutive, every "
             "complete epoch must contain each sample exactly once, and the current epoch no "
             "sample twice. Problems are listed, and the exit code is 1. A record cut by a crash "
             "is not a problem: training resumes from a step before it.",
    .options = options,
    .examples = (const char *const[]){ "meshflow audit runs/mnist", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = audit_run,
};
