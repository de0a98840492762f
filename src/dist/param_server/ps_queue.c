/* SPDX-License-Identifier: Apache-2.0 */
/* ps_queue.c - requests wait for the one thread that serves them, or it waits for them. */
#include "base/clock.h"
#include "dist/param_server/ps_server.h"
#include "observe/wait_report.h"

enum { LOOK_NS = 100000000 }; /* how often an idle server checks for changes */

/* The first worker whose gradients an incomplete update lacks; NULL: none. A push of several
 * workers is that of one worker and its neighbours after it. */
static const char *ps_queue_missing(const server *s)
{
    int pushes = 0, absent = -1;

    for (int w = 0; w < s->o.n_workers;) {
        const bool here = s->pushes[w].of != NULL;
        const int64_t members = here && s->o.mode.sync ? s->pushes[w].head.workers : 1;

        pushes += here;
        absent = here || absent >= 0 ? absent : w;
        w += members > 1 && members < s->o.n_workers ? (int)members : 1;
    }
    return pushes > 0 && absent >= 0 ? mf_net_name(s->o.net, absent) : NULL;
}

mf_status mf_ps_next_request(server *s, mf_mail **out)
{
    mf_wait_report waiting = { .who = mf_net_name(s->o.net, mf_net_self(s->o.net)),
                               .whom = s->keeper ? s->keeper : ps_queue_missing(s),
                               .what = s->keeper ? "the word that it has a copy" : "its gradients",
                               .step = s->version };
    mf_status st = MF_OK;

    *out = mf_mailbox_take(&s->requests, mf_clock_ns());
    if (*out)
        return MF_OK;
    if (waiting.whom)
        mf_wait_report_begin(&waiting);
    while (!*out && st == MF_OK) {
        mf_ps_show_copies(s);
        *out = mf_mailbox_take(&s->requests, mf_clock_ns() + LOOK_NS);
        mf_wait_report_check(&waiting);
        if (!*out)
            st = mf_mailbox_check(&s->requests);
        if (!*out && st == MF_OK)
            st = mf_net_check(s->o.net);
        if (!*out && st == MF_OK && s->o.n_workers == 0 && s->o.wait_for_next &&
            s->o.wait_for_next(s->o.ctx))
            st = MF_FAIL(MF_ABORTED, "a task waits to join");
        mf_net_report_status(s->o.net);
    }
    mf_wait_report_end(&waiting, st == MF_OK);
    return st;
}
