/* SPDX-License-Identifier: Apache-2.0 */
/* ps_trace.c - parameter servers in the trace of a step: a row for each, in the chief's time.
 * Clocks are compared as train/loop/dist_trace.c does. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/param_server/ps_client.h"
#include "dist/param_server/ps_server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 16 };

typedef enum trace_wish {
    LOOK, /* read the clock -> its time */
    BEGIN, /* begin to record -> nothing */
    END, /* of it -> the events */
} trace_wish;

/* The message. */
typedef struct trace_head {
    int64_t wish;
    int64_t origin; /* time 0 by the server's clock */
    int64_t error_ns; /* the error of the offset */
} trace_head;

/* ---- the chief's side ---- */

/* Owns: mf_free(*data). */
static mf_status ps_trace_ask(mf_ps_client *c, int to, const trace_head *head, void **data,
                              size_t *size)
{
    mf_buf out = { 0 };
    mf_status st;

    c->seq++;
    mf_buf_bytes(&out, head, sizeof *head);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_ps_ask(c, to, MF_PS_TRACE, 0, &out);
    mf_buf_deinit(&out);
    return st == MF_OK ? mf_ps_answer(c, to, MF_PS_TRACE, 0, data, size) : st;
}

/* The offset of the server's clock from the local one, and its error. */
static mf_status ps_trace_compare_clocks(mf_ps_client *c, int to, int64_t *ahead, int64_t *error)
{
    const trace_head look = { .wish = LOOK };
    int64_t best = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = mf_clock_ns();
        int64_t took, seen = 0;
        void *data;
        size_t size;

        MF_TRY(ps_trace_ask(c, to, &look, &data, &size));
        took = mf_clock_ns() - begin;
        if (size == sizeof seen)
            memcpy(&seen, data, sizeof seen);
        mf_free(data);
        if (size != sizeof seen)
            return MF_FAIL(MF_DATA_LOSS, "%s sent an invalid reply", mf_ps_server_name(c, to));
        if (took >= best)
            continue;
        best = took;
        *ahead = seen - (begin + took / 2);
    }
    *error = best / 2;
    return MF_OK;
}

mf_status mf_ps_client_trace_begin(mf_ps_client *c, int64_t origin)
{
    for (int s = 0; s < c->n_servers; s++) {
        trace_head head = { .wish = BEGIN };
        int64_t ahead = 0;
        void *data;
        size_t size;

        MF_TRY(ps_trace_compare_clocks(c, s, &ahead, &head.error_ns));
        head.origin = origin + ahead;
        MF_TRY(ps_trace_ask(c, s, &head, &data, &size));
        mf_free(data);
    }
    return MF_OK;
}

mf_status mf_ps_client_trace_end(mf_ps_client *c, mf_buf *out)
{
    for (int s = 0; s < c->n_servers; s++) {
        const trace_head head = { .wish = END };
        void *data;
        size_t size;

        MF_TRY(ps_trace_ask(c, s, &head, &data, &size));
        if (size > 0) {
            mf_buf_str(out, ",\n");
            mf_buf_bytes(out, data, size);
        }
        mf_free(data);
    }
    return MF_OK;
}

/* ---- a server's side ---- */

void mf_ps_note(const server *s, const char *what, const char *about, int64_t start)
{
    if (s->trace)
        mf_trace_add_note(s->trace, what, about, start);
}

static mf_status ps_trace_answer_begin(server *s, const trace_head *head)
{
    mf_ps_trace_end(s);
    s->trace_origin = head->origin;
    s->trace_error = head->error_ns;
    MF_TRY(mf_trace_new(&s->trace));
    mf_session_set_trace(s->store.session, s->trace); /* the ops of updates, too */
    return MF_OK;
}

void mf_ps_trace_end(server *s)
{
    if (s->trace)
        mf_session_set_trace(s->store.session, NULL);
    mf_trace_free(s->trace);
    s->trace = NULL;
}

static mf_status ps_trace_answer_end(server *s, mf_buf *out)
{
    const int self = mf_net_self(s->o.net);
    char host[64] = "", name[192];
    mf_status st;

    if (!s->trace)
        return MF_OK;
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "%s (%s, process %d, clock +-%.1f us)",
                   mf_net_name(s->o.net, self), host, (int)getpid(),
                   (double)s->trace_error / 1000.0);
    st = mf_trace_put(
        s->trace, &(mf_trace_process){ .id = self, .name = name, .origin = s->trace_origin }, out);
    mf_ps_trace_end(s);
    return st;
}

mf_status mf_ps_take_trace(server *s, mf_mail *r)
{
    const int64_t now = mf_clock_ns();
    trace_head head = { .wish = LOOK };
    mf_buf out = { 0 };
    mf_status st = MF_OK;

    if (r->frame.size == sizeof head)
        memcpy(&head, r->data, sizeof head);
    if (head.wish == BEGIN)
        st = ps_trace_answer_begin(s, &head);
    else if (head.wish == END)
        st = ps_trace_answer_end(s, &out);
    else
        mf_buf_bytes(&out, &now, sizeof now);
    if (st == MF_OK)
        st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, out.data, out.len);
    mf_buf_deinit(&out);
    mf_mail_free(r);
    return st;
}
