/* SPDX-License-Identifier: Apache-2.0 */
/* run_stall_report.c - reports a step without progress: the nodes that wait, for which value, from
 * which task. */
#include "runtime/run_stall_report.h"

#include "base/clock.h"
#include "base/log.h"
#include "graph/device_name.h"
#include "observe/stall_watchdog.h"
#include "runtime/run_state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    SAID_MAX = 4, /* maximum number of nodes in a line */
    REPEAT = 10, /* factor for the time until the next report, of any run */
};

static atomic_llong quiet_until; /* no other run is reported before this time */

static double run_stall_report_seconds(int64_t since, int64_t now)
{
    return (double)(now - since) * 1e-9;
}

static bool is_receive(const mf_node *n)
{
    return strcmp(n->op_name, "_Recv") == 0 || strcmp(n->op_name, "_HostRecv") == 0;
}

/* "ps 0", as in status pages; "": unknown. */
static void run_stall_report_task_of(const char *device, char out[MF_STATUS_PAGE_TASK])
{
    mf_device_name name;

    out[0] = '\0';
    if (mf_device_name_parse(device, &name) == MF_OK && name.task >= 0)
        (void)snprintf(out, MF_STATUS_PAGE_TASK, "%.20s %d", name.job, name.task);
}

/* The longest wait first. */
static int oldest(const mf_run_state *run, const mf_async **out, int max)
{
    int n = 0;

    for (const mf_async *a = run->waiting; a; a = a->next) {
        int at = n;

        if (n < max)
            n++;
        else if (a->began < out[max - 1]->began)
            at = max - 1;
        else
            continue;
        for (; at > 0 && a->began < out[at - 1]->began; at--)
            out[at] = out[at - 1];
        out[at] = a;
    }
    return n;
}

static void describe_wait(const mf_async *a, int64_t now, mf_buf *out)
{
    const mf_node *n = a->kernel.node;

    if (is_receive(n))
        mf_buf_printf(out, "node '%.100s' has waited for the value '%.150s' from %.100s", n->name,
                      mf_node_string(n, "tensor_name"), mf_node_string(n, "send_device"));
    else
        mf_buf_printf(out, "node '%.100s' (%s) has waited on this task", n->name, n->op_name);
    mf_buf_printf(out, " for %.1f s", run_stall_report_seconds(a->began, now));
}

static void run_stall_report_describe(const mf_run_state *run, const mf_async *const *a, int n,
                                      int64_t now, mf_buf *out)
{
    int more = -n;

    for (const mf_async *w = run->waiting; w; w = w->next)
        more++;
    mf_buf_printf(out, "%s: step %" PRId64 " stalled: ", run->args->task, run->args->shared_step);
    for (int i = 0; i < n; i++) {
        mf_buf_str(out, i > 0 ? "; " : "");
        describe_wait(a[i], now, out);
    }
    if (more > 0)
        mf_buf_printf(out, "; and %d other nodes wait", more);
}

static void clear_page(mf_run_stall *s)
{
    while (s->n_waits > 0)
        mf_status_page_wait_end(s->waits[--s->n_waits]);
}

static void show_on_page(mf_run_stall *s, const mf_run_state *run, const mf_async *const *a, int n)
{
    clear_page(s);
    for (int i = 0; i < n && s->n_waits < MF_STATUS_PAGE_WAITS; i++) {
        const mf_node *node = a[i]->kernel.node;
        char whom[MF_STATUS_PAGE_TASK], what[MF_STATUS_PAGE_TEXT];

        if (!is_receive(node))
            continue;
        run_stall_report_task_of(mf_node_string(node, "send_device"), whom);
        (void)snprintf(what, sizeof what, "the value '%.70s'", mf_node_string(node, "tensor_name"));
        s->waits[s->n_waits++] =
            mf_status_page_wait_begin(whom, NULL, what, run->args->shared_step);
    }
}

/* One run at a time. */
static bool claim_report(const mf_run_stall *s, int64_t now, int64_t patience)
{
    long long until = atomic_load(&quiet_until);

    if (s->since == 0 && now < until)
        return false;
    return atomic_compare_exchange_strong(&quiet_until, &until, now + REPEAT * patience);
}

static void run_stall_report(mf_run_stall *s, mf_run_state *run, int64_t now, int64_t patience)
{
    const mf_async *a[SAID_MAX] = { NULL };
    const int n = oldest(run, a, SAID_MAX);
    mf_buf text = { 0 };

    show_on_page(s, run, a, n);
    if (!claim_report(s, now, patience))
        return;
    run_stall_report_describe(run, a, n, now, &text);
    s->next_check_ns = now + REPEAT * (now - a[0]->began);
    s->since = a[0]->began;
    pthread_mutex_unlock(&run->lock);
    if (mf_buf_finish(&text) == MF_OK)
        MF_WARN("%s", text.data);
    mf_buf_deinit(&text);
    pthread_mutex_lock(&run->lock);
}

void mf_run_stall_begin(mf_run_stall *s)
{
    *s = (mf_run_stall){ .next_check_ns = mf_clock_ns() + mf_stall_patience_ns() };
}

void mf_run_stall_check(mf_run_stall *s, mf_run_state *run)
{
    const int64_t now = mf_clock_ns(), patience = mf_stall_patience_ns();
    const mf_async *first[1] = { NULL };

    if (now < s->next_check_ns)
        return;
    s->next_check_ns = now + patience / 4 + 1;
    if (run->runners > 0 || run->frames.q_len > 0 || oldest(run, first, 1) == 0 ||
        now - first[0]->began < patience)
        return;
    run_stall_report(s, run, now, patience);
}

void mf_run_stall_end(mf_run_stall *s, const mf_run_state *run, bool well)
{
    clear_page(s);
    if (s->since != 0 && well)
        MF_WARN("%s: step %" PRId64 " completed after a wait of %.1f s", run->args->task,
                run->args->shared_step, run_stall_report_seconds(s->since, mf_clock_ns()));
}
