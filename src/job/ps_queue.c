/* SPDX-License-Identifier: Apache-2.0 */
/* ps_queue.c - requests wait for the one thread that serves them. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "job/ps_server.h"

void mf_ps_request_free(request *r)
{
    if (!r)
        return;
    mf_free(r->data);
    mf_free(r);
}

void mf_ps_take_request(void *ctx, int from, const mf_frame *f, void *data)
{
    server *s = ctx;
    request *r = mf_calloc(1, sizeof *r);

    if (!r) {
        mf_free(data); /* whoever waits for the answer will say so */
        return;
    }
    *r = (request){ .from = from, .frame = *f, .data = data };
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

mf_status mf_ps_next_request(server *s, request **out)
{
    mf_status st = MF_OK;

    *out = NULL;
    pthread_mutex_lock(&s->lock);
    while (!s->first && st == MF_OK) {
        (void)mf_cond_wait_until(&s->changed, &s->lock, mf_clock_ns() + 100000000);
        if (!s->first)
            st = mf_net_check(s->o.net);
    }
    *out = s->first;
    if (*out) {
        s->first = (*out)->next;
        if (!s->first)
            s->last = NULL;
        st = MF_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}
