/* SPDX-License-Identifier: Apache-2.0 */
/* op_waiter.c - ops that wait in a queue of an object, with cancellation. */
#include "ops/state/op_waiter.h"

#include <stdarg.h>
#include <stdio.h>

void mf_wait_append(mf_wait_line *line, mf_wait *w)
{
    w->line = line;
    w->next = NULL;
    w->prev = line->last;
    if (line->last)
        line->last->next = w;
    else
        line->first = w;
    line->last = w;
}

void mf_wait_unlink(mf_wait *w)
{
    mf_wait_line *line = w->line;

    if (w->prev)
        w->prev->next = w->next;
    else
        line->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        line->last = w->prev;
    w->line = NULL;
    w->prev = w->next = NULL;
}

void mf_wait_fail(mf_wait *w, mf_status code, const char *fmt, ...)
{
    va_list args;

    if (w->status != MF_OK)
        return;
    w->status = code;
    va_start(args, fmt);
    (void)vsnprintf(w->message, sizeof w->message, fmt, args);
    va_end(args);
}

bool mf_wait_hook(mf_wait *w, void (*cancelled)(mf_cancel_hook *hook))
{
    w->hook.fn = cancelled;
    w->hooked = mf_cancel_add(w->kernel->step->cancel, &w->hook);
    return w->hooked;
}

void mf_wait_unhook(mf_wait *w)
{
    if (w->hooked)
        (void)mf_cancel_remove(w->kernel->step->cancel, &w->hook);
    w->hooked = false;
}

mf_status mf_wait_status(const mf_wait *w)
{
    return w->status == MF_OK ? MF_OK : MF_FAIL(w->status, "%s", w->message);
}
