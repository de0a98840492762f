/* SPDX-License-Identifier: Apache-2.0 */
/* ps_keep.c - a parameter server keeps copies of its slice and of its neighbour's. */
#include "base/clock.h"
#include "job/ps_copies.h"
#include "job/ps_server.h"

#include <string.h>

static mf_status send_copy(server *s, const mf_ps_copy_of *about, const mf_buf *bytes)
{
    const int behind = s->o.n_workers + (s->o.index + 1) % s->o.n_servers;
    mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                   .epoch = mf_net_epoch(s->o.net),
                   .group = MF_PS_COPY,
                   .step = about->step };
    mf_buf out = { 0 };
    mf_status st;

    if (s->o.n_servers < 2)
        return MF_OK;
    mf_buf_bytes(&out, about, sizeof *about);
    mf_buf_bytes(&out, bytes->data, bytes->len);
    st = mf_buf_finish(&out);
    f.size = out.len;
    if (st == MF_OK)
        st = mf_net_send(s->o.net, behind, &f, out.data, mf_clock_ns() + s->o.timeout_ns);
    mf_buf_deinit(&out);
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
    if (st == MF_OK)
        st = send_copy(s, &about, &bytes);
    if (st == MF_OK)
        st = mf_ps_copies_put(s->o.copies, &about, &bytes);
    mf_buf_deinit(&bytes);
    return st;
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
    return st;
}

static mf_status fetch(server *s, const mf_mail *r, mf_buf *out)
{
    const mf_buf *found = NULL;
    mf_ps_copy_of about;

    if (r->frame.size == sizeof about) {
        memcpy(&about, r->data, sizeof about);
        found = mf_ps_copies_find(s->o.copies, &about);
    }
    if (found)
        mf_buf_bytes(out, found->data, found->len);
    return mf_buf_finish(out);
}

mf_status mf_ps_serve_copies(server *s, const mf_mail *r, mf_buf *out, bool *replies)
{
    *replies = r->frame.group != MF_PS_COPY;
    if (!s->o.copies)
        return MF_OK;
    if (r->frame.group == MF_PS_COPY)
        return take_copy(s, r);
    if (r->frame.group == MF_PS_FETCH)
        return fetch(s, r, out);
    mf_ps_copies_list(s->o.copies, out);
    return mf_buf_finish(out);
}
