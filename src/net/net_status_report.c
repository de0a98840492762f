/* SPDX-License-Identifier: Apache-2.0 */
/* net_status_report.c - tasks of other hosts report their status to task 0, about once a second, so
 * that `meshflow job status` on the chief's host shows the complete job. They report when they send
 * or wait anyway, without a thread; a stalled task does not report, which is visible to the others.
 * Task 0 acknowledges each report when it next waits for a message. If it does not acknowledge,
 * tasks report rarely, and at last not at all, because unread reports must fit into the buffers
 * between the two. */
#include "base/clock.h"
#include "base/log.h"
#include "net/net_private.h"
#include "observe/status_page.h"

#include <string.h>

enum {
    EVERY_MS = 1000,
    RARELY_MS = 10000,
    UNHEARD = 20, /* reports without any message from task 0: from then on rarely */
    UNHEARD_MAX = 40,
};

bool mf_net_is_report_due(mf_net *n)
{
    const int64_t now = mf_clock_ns();
    const mf_peer *chief = &n->peers[0];
    const char *here = n->peers[n->self].host;
    const int64_t every = (int64_t)(n->unheard < UNHEARD ? EVERY_MS : RARELY_MS) * 1000000;

    if (n->self == 0 || !chief->here || chief->gone || chief->left || !chief->host || !here ||
        strcmp(chief->host, here) == 0 || n->trouble.status != MF_OK)
        return false;
    if (n->reported_ns == 0) /* the first report is also due after a second */
        n->reported_ns = now;
    return now - n->reported_ns >= every && n->unheard < UNHEARD_MAX;
}

void mf_net_report_status(mf_net *n)
{
    mf_frame f = { .kind = MF_MESSAGE_STATE, .epoch = n->epoch };
    const int64_t now = mf_clock_ns();
    mf_buf page = { 0 };
    bool due;

    pthread_mutex_lock(&n->lock);
    due = mf_net_is_report_due(n);
    if (due) {
        n->reported_ns = now;
        n->unheard++;
    }
    pthread_mutex_unlock(&n->lock);
    if (!due || !mf_status_page_copy(&page))
        return;
    f.size = page.len;
    if (mf_net_send(n, 0, &f, page.data, now + (int64_t)EVERY_MS * 1000000) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    mf_buf_deinit(&page);
}
