/* SPDX-License-Identifier: Apache-2.0 */
/* group_wait.c - checks during a wait for another member: is it still connected, and is it to
 * blame? */
#include "collective/group_net.h"

mf_status mf_net_check_wait(mf_net *n, int task, mf_group_wait *w)
{
    const mf_peer *p = &n->peers[task];
    mf_status st = MF_OK;

    if (w->suspect.asked == 0)
        w->suspect.task = task;
    pthread_mutex_lock(&n->lock);
    if (n->trouble.status != MF_OK)
        st = mf_error_restore(&n->trouble);
    else if (p->left)
        st = MF_FAIL(MF_UNAVAILABLE, "%s has left; %s waited for %s of step %lld", p->name,
                     n->peers[n->self].name, w->call->what, (long long)w->call->step);
    else if (mf_net_suspect(n, &w->suspect, w->call->deadline_ns))
        st = mf_net_blame(n, &w->suspect, task, "reach", w->call->what, w->call->step, w->since);
    else
        mf_net_answer(n, task, -1);
    pthread_mutex_unlock(&n->lock);
    if (st == MF_OK)
        mf_net_report_status(n);
    return st;
}
