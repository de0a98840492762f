/* SPDX-License-Identifier: Apache-2.0 */
/* ps_keep.c - a parameter server keeps copies of its slice and of its neighbour's. */
#include "base/clock.h"
#include "job/ps_copies.h"
#include "job/ps_server.h"

#include <string.h>

/* The server that keeps our copies. */
static int behind(const server *s)
{
    return s->o.n_workers + (s->o.index + 1) % s->o.n_servers;
}

static mf_status send_to_server(server *s, int to, uint32_t what, const mf_buf *out)
{
    const mf_frame f = {
        .kind = MF_MESSAGE_REQUEST, .epoch = mf_net_epoch(s->o.net), .group = what, .size = out->len
    };

    return mf_net_send(s->o.net, to, &f, out->data, mf_clock_ns() + s->o.timeout_ns);
}

static mf_status send_copy(server *s, const mf_ps_copy_of *about, const mf_buf *bytes)
{
    mf_buf out = { 0 };
    mf_status st;

    mf_buf_bytes(&out, about, sizeof *about);
    mf_buf_bytes(&out, bytes->data, bytes->len);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = send_to_server(s, behind(s), MF_PS_COPY, &out);
    mf_buf_deinit(&out);
    return st;
}

static mf_status confirm(server *s, int to, const mf_ps_copy_of *about)
{
    mf_buf out = { 0 };
    mf_status st;

    mf_buf_bytes(&out, about, sizeof *about);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = send_to_server(s, to, MF_PS_KEPT, &out);
    mf_buf_deinit(&out);
    return st;
}

static bool is_confirmation(const server *s, const mf_mail *r, const mf_ps_copy_of *about)
{
    return r->frame.group == MF_PS_KEPT && r->from == behind(s) && r->frame.size == sizeof *about &&
           memcmp(r->data, about, sizeof *about) == 0;
}

static bool is_about_copies(const mf_mail *r)
{
    return r->frame.group == MF_PS_COPY || r->frame.group == MF_PS_COPIES ||
           r->frame.group == MF_PS_FETCH;
}

/* What was sent may be lost with us as long as it is on its way. All that is done meanwhile is to
 * keep and to confirm the copies of others, who wait likewise. */
static mf_status wait_until_kept(server *s, const mf_ps_copy_of *about)
{
    mf_mail *aside = NULL, **end = &aside;
    bool kept = false;
    mf_status st = MF_OK;

    s->keeper = mf_net_name(s->o.net, behind(s));
    while (st == MF_OK && !kept) {
        mf_mail *r;

        st = mf_ps_next_request(s, &r);
        if (st != MF_OK)
            break;
        kept = is_confirmation(s, r, about);
        if (kept) {
            mf_mail_free(r);
        } else if (is_about_copies(r)) {
            st = mf_ps_serve_copies(s, r);
        } else {
            *end = r;
            end = &r->next;
            r->next = NULL;
        }
    }
    s->keeper = NULL;
    while (aside) {
        mf_mail *next = aside->next;

        mf_mailbox_add(&s->requests, aside);
        aside = next;
    }
    return st;
}

mf_status mf_ps_keep_copy(server *s)
{
    const mf_ps_copy_of about = { .generation = s->o.generation,
                                  .slices = s->o.n_servers,
                                  .slice = s->o.index,
                                  .step = s->start + s->version };
    mf_buf bytes = { 0 };
    mf_status st;

    if (!s->o.copies)
        return MF_OK;
    if (s->version > 0) /* workers push only when all servers have begun */
        mf_ps_copies_forget_before(s->o.copies, s->o.generation);
    st = mf_ps_store_write(&s->store, &bytes);
    if (st == MF_OK && s->o.n_servers > 1)
        st = send_copy(s, &about, &bytes);
    if (st == MF_OK)
        st = mf_ps_copies_put(s->o.copies, &about, &bytes);
    mf_buf_deinit(&bytes);
    return st == MF_OK && s->o.n_servers > 1 ? wait_until_kept(s, &about) : st;
}

static mf_status take_copy(server *s, const mf_mail *r)
{
    mf_ps_copy_of about;
    mf_buf bytes = { 0 };
    mf_status st;

    if (r->from < s->o.n_workers || r->frame.size < sizeof about)
        return MF_OK; /* no server of ours has sent this */
    memcpy(&about, r->data, sizeof about);
    mf_buf_bytes(&bytes, (const char *)r->data + sizeof about, r->frame.size - sizeof about);
    st = mf_buf_finish(&bytes);
    if (st == MF_OK)
        st = mf_ps_copies_put(s->o.copies, &about, &bytes);
    mf_buf_deinit(&bytes);
    return st == MF_OK ? confirm(s, r->from, &about) : st;
}

static void fetch(server *s, const mf_mail *r, mf_buf *out)
{
    const mf_buf *found = NULL;
    mf_ps_copy_of about;

    if (r->frame.size == sizeof about) {
        memcpy(&about, r->data, sizeof about);
        found = mf_ps_copies_find(s->o.copies, &about);
    }
    if (found)
        mf_buf_bytes(out, found->data, found->len);
}

static mf_status answer(server *s, const mf_mail *r)
{
    mf_buf out = { 0 };
    mf_status st;

    if (s->o.copies && r->frame.group == MF_PS_FETCH)
        fetch(s, r, &out);
    else if (s->o.copies)
        mf_ps_copies_list(s->o.copies, &out);
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_ps_send_reply(s, r, out.data, out.len);
    mf_buf_deinit(&out);
    return st;
}

mf_status mf_ps_serve_copies(server *s, mf_mail *r)
{
    mf_status st = MF_OK;

    if (r->frame.group != MF_PS_COPY)
        st = answer(s, r);
    else if (s->o.copies)
        st = take_copy(s, r);
    mf_mail_free(r);
    return st;
}
