/* SPDX-License-Identifier: Apache-2.0 */
/* observer.c - the installed observer of file accesses and log lines. */
#include "base/observer.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(const mf_observer *) observer;

void mf_observer_set(const mf_observer *o)
{
    atomic_store(&observer, o);
}

int mf_observe_read(const char *path)
{
    const mf_observer *o = atomic_load(&observer);

    return o ? o->begin_read(path) : -1;
}

int mf_observe_write(const char *path)
{
    const mf_observer *o = atomic_load(&observer);

    return o ? o->begin_write(path) : -1;
}

void mf_observe_end(int activity)
{
    const mf_observer *o = atomic_load(&observer);

    if (o && activity >= 0)
        o->end(activity);
}

void mf_observe_log(const char *text)
{
    const mf_observer *o = atomic_load(&observer);

    if (o)
        o->logged(text);
}
