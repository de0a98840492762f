/* SPDX-License-Identifier: Apache-2.0 */
/* ps_recover.c - a worker recovers the state of parameter servers from the copies of the remaining
 * ones: that of synchronous servers in its own variables, as of a step; that of asynchronous ones
 * slice by slice, as of the server's last reply. */
#include "base/mem.h"
#include "dist/param_server/ps_client.h"
#include "dist/param_server/ps_replica_table.h"

#include <string.h>

/* The copies that exist, and the server that has each. */
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
        MF_TRY(mf_ps_ask(c, s, MF_PS_REPLICATION, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        void *data;
        size_t size;
        mf_status st;

        MF_TRY(mf_ps_answer(c, s, MF_PS_REPLICATION, 0, &data, &size));
        st = add_offers(o, s, data, size);
        mf_free(data);
        MF_TRY(st);
    }
    return MF_OK;
}

/* Owns: mf_free(*data), which begins with `about`. */
static mf_status ps_recover_fetch(mf_ps_client *c, int server, const mf_ps_copy_of *about,
                                  void **data, size_t *size)
{
    mf_buf request = { 0 };
    mf_status st;

    c->seq++;
    mf_buf_bytes(&request, about, sizeof *about);
    st = mf_buf_finish(&request);
    if (st == MF_OK)
        st = mf_ps_ask(c, server, MF_PS_FETCH, 0, &request);
    mf_buf_deinit(&request);
    MF_TRY(st);
    MF_TRY(mf_ps_answer(c, server, MF_PS_FETCH, 0, data, size));
    if (*size >= sizeof *about)
        return MF_OK;
    mf_free(*data);
    return MF_FAIL(MF_DATA_LOSS, "%s does not have the copy that it listed",
                   mf_ps_server_name(c, server));
}

static mf_status ps_recover_take_slice(mf_ps_client *c, int server, const mf_ps_copy_of *about,
                                       const mf_placement *place)
{
    void *data;
    size_t size;
    mf_status st;

    MF_TRY(ps_recover_fetch(c, server, about, &data, &size));
    st = mf_ps_take_variables(c->t, place, (int)about->slice, mf_ps_server_name(c, server),
                              (const char *)data + sizeof *about, size - sizeof *about);
    mf_free(data);
    return st;
}

static mf_status ps_recover_take_all(mf_ps_client *c, const offers *o, int64_t generation,
                                     int64_t slices, int64_t step)
{
    mf_placement place;

    MF_TRY(mf_ps_place(c->t, (int)slices, &c->mode, &place));
    for (int64_t slice = 0; slice < slices; slice++) {
        int64_t i = 0;

        while (i < o->n && (o->copies[i].generation != generation || o->copies[i].slice != slice ||
                            o->copies[i].step != step))
            i++;
        MF_ASSERT(i < o->n); /* it was chosen */
        MF_TRY(ps_recover_take_slice(c, o->servers[i], &o->copies[i], &place));
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
        generation = mf_ps_replica_table_choose(o.copies, o.n, step, &slices);
    if (generation >= 0)
        st = ps_recover_take_all(c, &o, generation, slices, step);
    *found = st == MF_OK && generation >= 0;
    mf_free(o.copies);
    mf_free(o.servers);
    return st;
}

/* ---- asynchronous servers ---- */

/* The generation of the last training that any server knows; -1: none. */
static int64_t last_generation(const mf_ps_client *c, const mf_ps_progress *each, const offers *o)
{
    int64_t last = -1;

    for (int s = 0; s < c->n_servers; s++)
        last = each[s].begun && each[s].holds.generation > last ? each[s].holds.generation : last;
    for (int64_t i = 0; i < o->n; i++)
        last = o->copies[i].generation > last ? o->copies[i].generation : last;
    return last;
}

/* The latest copy of a slice; -1: none. */
static int64_t find_latest(const offers *o, int64_t generation, int n_slices, int slice)
{
    int64_t best = -1;

    for (int64_t i = 0; i < o->n; i++) {
        const mf_ps_copy_of *k = &o->copies[i];

        if (k->generation == generation && k->slices == n_slices && k->slice == slice &&
            (best < 0 || k->step > o->copies[best].step))
            best = i;
    }
    return best;
}

/* Does this server hold the latest state of its slice? A server that was considered lost and
 * rejoined does not. */
static bool is_in_place(const mf_ps_progress *each, const offers *o, int64_t generation, int n,
                        int server)
{
    const mf_ps_progress *s = &each[server];
    const int64_t i = find_latest(o, generation, n, server);

    return s->begun && s->holds.generation == generation && s->holds.slice == server &&
           (i < 0 || o->copies[i].step <= s->holds.step);
}

/* Servers wait for confirmations of each other's copies, so all are asked before the first reply is
 * awaited. */
static mf_status put_in_place(mf_ps_client *c, const mf_ps_progress *each, const offers *o,
                              int64_t generation)
{
    mf_buf *images = mf_calloc(c->n_servers, sizeof *images);
    mf_status st = images ? MF_OK : MF_NOMEM("copies");

    for (int s = 0; s < c->n_servers && st == MF_OK; s++) {
        const int64_t i = find_latest(o, generation, c->n_servers, s);
        void *data;
        size_t size;

        if (is_in_place(each, o, generation, c->n_servers, s))
            continue;
        st = ps_recover_fetch(c, o->servers[i], &o->copies[i], &data, &size);
        if (st == MF_OK)
            images[s] = (mf_buf){ .data = data, .len = size };
    }
    c->seq++;
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = mf_ps_ask(c, s, MF_PS_TAKE, 0, &images[s]);
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = mf_ps_answer_done(c, s, MF_PS_TAKE, 0);
    for (int s = 0; images && s < c->n_servers; s++)
        mf_buf_deinit(&images[s]);
    mf_free(images);
    return st;
}

static mf_status ps_recover_restore(mf_ps_client *c, mf_ps_progress *each, offers *o, bool *found)
{
    int64_t generation;

    MF_TRY(mf_ps_client_progress(c, each));
    MF_TRY(ask_offers(c, o));
    generation = last_generation(c, each, o);
    *found = generation >= 0;
    for (int s = 0; s < c->n_servers; s++)
        *found = *found && (is_in_place(each, o, generation, c->n_servers, s) ||
                            find_latest(o, generation, c->n_servers, s) >= 0);
    return *found ? put_in_place(c, each, o, generation) : MF_OK;
}

mf_status mf_ps_client_restore(mf_ps_client *c, bool *found)
{
    mf_ps_progress *each = mf_calloc(c->n_servers, sizeof *each);
    offers o = { 0 };
    mf_status st = each ? ps_recover_restore(c, each, &o, found) : MF_NOMEM("parameter servers");

    mf_free(each);
    mf_free(o.copies);
    mf_free(o.servers);
    return st;
}
