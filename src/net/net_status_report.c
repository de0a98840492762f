/* SPDX-License-Identifier: Apache-2.0 */
/* net_status_report.c - tasks of other hosts tell task 0 what they do, about once a second, so that
 * `meshflow job status` can show all of a job where its chief is. They do so when they send or wait
 * anyhow: no thread, and no word from a task that stands still, which is just what the others shall
 * see. Task 0 answers each page when it next waits for somebody: to one that does not, they tell
 * rarely, and in the end nothing, for what it does not read must fit between the two. */
#include "base/clock.h"
#include "base/log.h"
#include "net/net_private.h"
#include "observe/status_page.h"

#include <string.h>

enum {
    EVERY_MS = 1000,
    RARELY_MS = 10000,
    UNHEARD = 20, /* pages in which nothing has come from task 0: from now on rarely */
    UNHEARD_MAX = 40,
};

bool mf_net_is_untold(mf_net *n)
{
    const int64_t now = mf_clock_ns();
    const mf_peer *chief = &n->peers[0];
    const char *here = n->peers[n->self].host;
    const int64_t every = (int64_t)(n->unheard < UNHEARD ? EVERY_MS : RARELY_MS) * 1000000;

    if (n->self == 0 || !chief->here || chief->gone || chief->left || !chief->host || !here ||
        strcmp(chief->host, here) == 0 || n->trouble.status != MF_OK)
        return false;
    if (n->untold_since == 0) /* the first time is a second from now, too */
        n->untold_since = now;
    return now - n->untold_since >= every && n->unheard < UNHEARD_MAX;
}

void mf_net_tell(mf_net *n)
{
    mf_frame f = { .kind = MF_MESSAGE_STATE, .epoch = n->epoch };
    const int64_t now = mf_clock_ns();
    mf_buf page = { 0 };
    bool due;

    pthread_mutex_lock(&n->lock);
    due = mf_net_is_untold(n);
    if (due) {
        n->untold_since = now;
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
