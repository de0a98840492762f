/* SPDX-License-Identifier: Apache-2.0 */
/* ps_recover.c - a worker brings together what parameter servers had after a step, from the copies
 * that those have who are left. */
#include "base/mem.h"
#include "job/ps_client.h"
#include "job/ps_copies.h"

#include <string.h>

/* Which copies there are, and which server has each. */
typedef struct offers {
    mf_ps_copy_of *copies;
    int *servers;
    int64_t n, cap_copies, cap_servers;
} offers;

static mf_status add_offers(offers *o, int server, const void *data, size_t size)
{
    const int64_t more = (int64_t)(size / sizeof *o->copies);

    MF_TRY(mf_grow(&o->copies, &o->cap_copies, o->n + more, sizeof *o->copies));
    MF_TRY(mf_grow(&o->servers, &o->cap_servers, o->n + more, sizeof *o->servers));
    if (more > 0)
        memcpy(o->copies + o->n, data, (size_t)more * sizeof *o->copies);
    for (int64_t i = 0; i < more; i++)
        o->servers[o->n++] = server;
    return MF_OK;
}

static mf_status ask_offers(mf_ps_client *c, offers *o)
{
    c->seq++;
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(mf_ps_ask(c, s, MF_PS_COPIES, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        void *data;
        size_t size;
        mf_status st;

        MF_TRY(mf_ps_answer(c, s, MF_PS_COPIES, 0, &data, &size));
        st = add_offers(o, s, data, size);
        mf_free(data);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status take_slice(mf_ps_client *c, int server, const mf_ps_copy_of *about,
                            const mf_placement *place)
{
    mf_buf request = { 0 };
    void *data;
    size_t size;
    mf_status st;

    c->seq++;
    mf_buf_bytes(&request, about, sizeof *about);
    st = mf_buf_finish(&request);
    if (st == MF_OK)
        st = mf_ps_ask(c, server, MF_PS_FETCH, 0, &request);
    mf_buf_deinit(&request);
    MF_TRY(st);
    MF_TRY(mf_ps_answer(c, server, MF_PS_FETCH, 0, &data, &size));
    st = size >= sizeof *about
             ? mf_ps_take_variables(c->t, place, (int)about->slice, mf_ps_server_name(c, server),
                                    (const char *)data + sizeof *about, size - sizeof *about)
             : MF_FAIL(MF_DATA_LOSS, "%s does not have the copy it has told of",
                       mf_ps_server_name(c, server));
    mf_free(data);
    return st;
}

static mf_status take_all(mf_ps_client *c, const offers *o, int64_t generation, int64_t slices,
                          int64_t step)
{
    mf_placement place;

    MF_TRY(mf_ps_place(c->t, (int)slices, &c->mode.partition, &place));
    for (int64_t slice = 0; slice < slices; slice++) {
        int64_t i = 0;

        while (i < o->n && (o->copies[i].generation != generation || o->copies[i].slice != slice ||
                            o->copies[i].step != step))
            i++;
        MF_ASSERT(i < o->n); /* it was chosen */
        MF_TRY(take_slice(c, o->servers[i], &o->copies[i], &place));
    }
    return MF_OK;
}

mf_status mf_ps_client_recover(mf_ps_client *c, int64_t step, bool *found)
{
    offers o = { 0 };
    int64_t generation = -1, slices = 0;
    mf_status st = ask_offers(c, &o);

    *found = false;
    if (st == MF_OK)
        generation = mf_ps_copies_choose(o.copies, o.n, step, &slices);
    if (generation >= 0)
        st = take_all(c, &o, generation, slices, step);
    *found = st == MF_OK && generation >= 0;
    mf_free(o.copies);
    mf_free(o.servers);
    return st;
}
