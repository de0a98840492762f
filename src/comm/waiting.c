/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/waiting.h"

#include "base/board.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"

#include <stdio.h>

MF_PARAM_INT(comm_say_waiting_ms, 3000, "waiting for another task for so long is said");

void mf_waiting_begin(mf_waiting *w)
{
    w->since = mf_clock_ns();
    w->say_at = w->since + MF_PARAM(comm_say_waiting_ms) * 1000000;
    w->board = mf_board_wait_begin(w->whom, w->where, w->what, w->step);
}

void mf_waiting_look(mf_waiting *w)
{
    const int64_t now = mf_clock_ns();
    char step[40] = "";

    if (w->since == 0 || now <= w->say_at)
        return;
    w->say_at = now + 2 * (now - w->since);
    if (w->step >= 0)
        (void)snprintf(step, sizeof step, " of step %lld", (long long)w->step);
    MF_WARN("%s waits for %s%s%s: %s%s, since %.1f s%s%s", w->who, w->whom, w->where ? " at " : "",
            w->where ? w->where : "", w->what, step, (double)(now - w->since) * 1e-9,
            w->why ? ": " : "", w->why ? w->why : "");
}

void mf_waiting_end(mf_waiting *w)
{
    if (w->since == 0)
        return;
    mf_board_wait_end(w->board);
    w->since = 0;
}
