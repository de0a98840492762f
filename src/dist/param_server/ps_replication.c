/* SPDX-License-Identifier: Apache-2.0 */
/* ps_replication.c - the replication protocol of parameter servers: a server sends its slice to the
 * next servers, confirms copies and returns them. ps_replica_table.h holds the copies,
 * ps_replica_image.c defines their contents.
 *
 * On one host a copy is written once, into memory that all its keepers map, and stays there: of
 * three areas two hold copies, the third is free for the next step. The death of a server does not
 * affect the others' mapping. Otherwise copies travel in messages.
 *
 * A synchronous server sends a message for the first copy only. Each area of the memory says which
 * step it has, so the keepers have a later copy as soon as it is written, even if the server dies
 * then. Two areas always hold the last two steps, which is enough: a server is at most one step
 * ahead of another, because a step needs the replies of all servers to the last one. Asynchronous
 * servers are not bound to each other in this way: a server that was considered lost may continue
 * for some updates. Its copies count only when their keepers, which have left it, confirm them. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/param_server/ps_replica_table.h"
#include "dist/param_server/ps_server.h"
#include "observe/status_page.h"

#include <string.h>

enum { SPARE = 4096 }; /* bytes of a lane: the size of a server's state varies a little */

/* The message: this, then where the memory is (mf_ps_shm_tell) or the slice itself. */
typedef struct copy_head {
    mf_ps_copy_of about;
    int64_t area; /* of the memory; -1: the slice is in the message */
    int64_t size; /* of the slice */
} copy_head;

typedef struct kept_head {
    mf_ps_copy_of about;
    int64_t has_it; /* 0: the memory cannot be used */
} kept_head;

/* The number of servers that keep this server's copies. */
static int keepers(const server *s)
{
    return s->o.n_copies < s->o.n_servers ? s->o.n_copies : s->o.n_servers - 1;
}

/* The i-th of them: the servers after this one. */
static int keeper(const server *s, int i)
{
    return s->o.n_workers + (s->o.index + 1 + i) % s->o.n_servers;
}

static mf_status send_to_server(server *s, int to, uint32_t what, const void *data, size_t size)
{
    const mf_frame f = {
        .kind = MF_MESSAGE_REQUEST, .epoch = mf_net_epoch(s->o.net), .group = what, .size = size
    };

    return mf_net_send(s->o.net, to, &f, data, mf_clock_ns() + s->o.timeout_ns);
}

/* ---- giving ---- */

static mf_status send_to_keepers(server *s, const void *data, size_t size)
{
    for (int i = 0; i < keepers(s); i++)
        MF_TRY(send_to_server(s, keeper(s, i), MF_PS_COPY, data, size));
    return MF_OK;
}

/* Which keeper sent the reply; -1: none. */
static int find_answer(const server *s, const mf_mail *r, const mf_ps_copy_of *about, bool *has_it)
{
    kept_head k;
    int i = 0;

    while (i < keepers(s) && keeper(s, i) != r->from)
        i++;
    if (r->frame.group != MF_PS_KEPT || i == keepers(s) || r->frame.size != sizeof k)
        return -1;
    memcpy(&k, r->data, sizeof k);
    *has_it = k.has_it != 0;
    return memcmp(&k.about, about, sizeof *about) == 0 ? i : -1;
}

/* The first keeper without a reply; NULL: all have replied. */
static const char *find_silent(const server *s, uint64_t answered)
{
    for (int i = 0; i < keepers(s); i++) {
        if (!(answered >> i & 1))
            return mf_net_name(s->o.net, keeper(s, i));
    }
    return NULL;
}

static bool is_about_copies(const mf_mail *r)
{
    return r->frame.group == MF_PS_COPY || r->frame.group == MF_PS_REPLICATION ||
           r->frame.group == MF_PS_FETCH;
}

/* A copy in flight may be lost with this server. Meanwhile the server only keeps and confirms
 * copies of others, which wait likewise. *all_have: the memory could be used. */
static mf_status wait_until_kept(server *s, const mf_ps_copy_of *about, bool *all_have)
{
    mf_mail *aside = NULL, **end = &aside;
    uint64_t answered = 0;
    mf_status st = MF_OK;

    *all_have = true;
    while (st == MF_OK && (s->keeper = find_silent(s, answered))) {
        bool has_it = false;
        mf_mail *r;
        int who;

        st = mf_ps_next_request(s, &r);
        if (st != MF_OK)
            break;
        who = find_answer(s, r, about, &has_it);
        if (who >= 0) {
            answered |= UINT64_C(1) << who;
            *all_have &= has_it;
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

/* The steps of the areas lie where workers write pushes. */
static mf_ps_area_step *area_steps(const mf_ps_shm *lane)
{
    return mf_ps_shm_push(lane);
}

/* Copies of this step and of later ones: the areas do not have them (any more). */
static void withdraw(const mf_ps_shm *lane, int64_t step)
{
    for (int i = 0; i < MF_PS_ANSWERS; i++) {
        if (atomic_load(&area_steps(lane)[i].step) >= step)
            atomic_store(&area_steps(lane)[i].step, MF_PS_NO_COPY);
    }
}

static mf_status make_lane(server *s, size_t size)
{
    mf_ps_shm *lane = &s->copies_out;

    if (lane->memory)
        withdraw(lane, 0);
    mf_ps_shm_close(lane);
    MF_TRY(mf_ps_shm_make(lane, (int64_t)(size + size / 8 + SPARE)));
    for (int i = 0; i < MF_PS_ANSWERS; i++) {
        atomic_store(&area_steps(lane)[i].step, MF_PS_NO_COPY);
        s->copied[i] = -1;
    }
    return MF_OK;
}

/* False: there is no shared memory. *fresh: no keeper has mapped it yet. */
static bool has_lane(server *s, size_t size, bool *fresh)
{
    mf_ps_shm *lane = &s->copies_out;

    if (lane->refused || !mf_ps_shm_may_be(s->o.net, mf_net_self(s->o.net)))
        return false;
    for (int i = 0; i < keepers(s); i++) {
        if (!mf_ps_shm_may_be(s->o.net, keeper(s, i)))
            return false;
    }
    *fresh = !lane->memory || lane->room < (int64_t)size;
    if (*fresh)
        lane->refused = make_lane(s, size) != MF_OK;
    return !lane->refused;
}

/* The area for the next copy; -1: none is free. */
static int next_area(const server *s)
{
    return s->o.mode.sync ? (s->last_copy + 1) % MF_PS_ANSWERS
                          : mf_ps_shm_free_answer(&s->copies_out);
}

static mf_status write_area(server *s, int area, int64_t step, size_t size)
{
    mf_ps_shm *lane = &s->copies_out;
    mf_ps_out to = { .pool = s->t->pool, .at = lane->answers[area]->data, .left = size };
    const int64_t before = s->copied[area];

    withdraw(lane, step);
    atomic_store(&area_steps(lane)[area].step, MF_PS_NO_COPY);
    atomic_thread_fence(memory_order_seq_cst); /* before the bytes change */
    s->copied[area] = -1;
    MF_TRY(mf_ps_image_write(s, before, &to));
    s->copied[area] = s->store.changes;
    s->last_copy = area;
    atomic_store_explicit(&area_steps(lane)[area].step, step, memory_order_release);
    return MF_OK;
}

/* Of a lane of this or another server. */
static mf_status watch_areas(server *s, const mf_ps_shm *lane, const mf_ps_copy_of *about,
                             size_t size)
{
    for (int i = 0; i < MF_PS_ANSWERS; i++)
        MF_TRY(mf_ps_replica_table_watch(s->o.copies, about, &area_steps(lane)[i], lane->answers[i],
                                         size));
    return MF_OK;
}

static mf_status ps_replication_hold(server *s, const mf_ps_shm *lane, const copy_head *head)
{
    if (s->o.mode.sync)
        return watch_areas(s, lane, &head->about, (size_t)head->size);
    return mf_ps_replica_table_put(s->o.copies, &head->about, lane->answers[head->area],
                                   (size_t)head->size);
}

/* *kept: all keepers can use the memory. */
static mf_status tell_keepers(server *s, const copy_head *head, bool *kept)
{
    mf_buf message = { 0 };
    mf_status st;

    mf_buf_bytes(&message, head, sizeof *head);
    mf_ps_shm_tell(&s->copies_out, &message);
    st = mf_buf_finish(&message);
    if (st == MF_OK)
        st = send_to_keepers(s, message.data, message.len + 1);
    mf_buf_deinit(&message);
    if (st == MF_OK)
        st = ps_replication_hold(s, &s->copies_out, head);
    return st == MF_OK ? wait_until_kept(s, &head->about, kept) : st;
}

/* *kept false: there is no shared memory, and nothing was done. */
static mf_status keep_in_lane(server *s, const mf_ps_copy_of *about, size_t size, bool *kept)
{
    mf_ps_shm *lane = &s->copies_out;
    copy_head head = { .about = *about, .area = -1, .size = (int64_t)size };
    bool fresh = false;
    mf_status st = MF_OK;

    *kept = false;
    if (has_lane(s, size, &fresh))
        head.area = next_area(s);
    if (head.area < 0)
        return MF_OK;
    MF_TRY(write_area(s, (int)head.area, about->step, size));
    *kept = !fresh;
    if (fresh || !s->o.mode.sync)
        st = tell_keepers(s, &head, kept);
    if (fresh) /* the others have mapped it, or never will */
        mf_ps_shm_hide(lane);
    lane->refused = !*kept;
    if (lane->refused)
        withdraw(lane, 0);
    return st;
}

static void free_bytes(void *data, void *ctx)
{
    (void)data;
    mf_free(ctx);
}

/* The message is this server's own copy, too. */
static mf_status keep_message(server *s, const mf_ps_copy_of *about, mf_buf *message)
{
    const size_t size = message->len - sizeof(copy_head);
    mf_buffer *bytes;
    bool all_have;
    mf_status st;

    MF_TRY(
        mf_buffer_wrap(message->data + sizeof(copy_head), size, free_bytes, message->data, &bytes));
    st = mf_ps_replica_table_put(s->o.copies, about, bytes, size);
    if (st == MF_OK)
        st = send_to_keepers(s, message->data, message->len);
    *message = (mf_buf){ 0 };
    mf_buffer_unref(bytes);
    return st == MF_OK ? wait_until_kept(s, about, &all_have) : st;
}

static mf_status keep_by_message(server *s, const mf_ps_copy_of *about, size_t size)
{
    const copy_head head = { .about = *about, .area = -1, .size = (int64_t)size };
    mf_buf message = { 0 };
    void *room = mf_buf_room(&message, sizeof head + size);
    mf_status st = mf_buf_finish(&message);

    if (st == MF_OK) {
        memcpy(room, &head, sizeof head);
        st = mf_ps_image_write(
            s, -1,
            &(mf_ps_out){ .pool = s->t->pool, .at = (char *)room + sizeof head, .left = size });
    }
    if (st == MF_OK)
        st = keep_message(s, about, &message);
    mf_buf_deinit(&message);
    return st;
}

mf_status mf_ps_keep_copy(server *s)
{
    mf_ps_copy_of about;
    bool kept = false;
    size_t size;

    if (!s->o.copies)
        return MF_OK;
    s->moment++;
    about = mf_ps_copy_at_hand(s);
    if (s->version > 0) /* workers push only when all servers have begun */
        mf_ps_replica_table_forget_before(s->o.copies, s->generation);
    MF_TRY(mf_ps_image_size(s, &size));
    MF_TRY(keep_in_lane(s, &about, size, &kept));
    return kept ? MF_OK : keep_by_message(s, &about, size);
}

/* ---- taking ---- */

mf_ps_copy_of mf_ps_copy_at_hand(const server *s)
{
    return (mf_ps_copy_of){ .generation = s->generation,
                            .slices = s->o.n_servers,
                            .slice = s->o.index,
                            .step = s->o.mode.sync ? s->start + s->version : s->moment };
}

static mf_status ps_replication_confirm(server *s, int to, const mf_ps_copy_of *about, bool has_it)
{
    const kept_head k = { *about, has_it };

    return send_to_server(s, to, MF_PS_KEPT, &k, sizeof k);
}

/* The memory of the last time, or another one. */
static mf_status open_lane(mf_ps_shm *lane, const char *text)
{
    mf_buf known = { 0 };
    bool same;

    if (lane->memory)
        mf_ps_shm_tell(lane, &known);
    same = known.data && strcmp(known.data, text) == 0;
    mf_buf_deinit(&known);
    if (same)
        return MF_OK;
    MF_TRY(mf_ps_shm_open(lane, text));
    return mf_ps_shm_wrap(lane);
}

/* False: it cannot be seen. */
static bool find_in_lane(server *s, const copy_head *head, const mf_mail *r)
{
    const char *text = (const char *)r->data + sizeof *head;
    mf_ps_shm *lane = &s->copies_in[r->from - s->o.n_workers];

    if (r->frame.size == sizeof *head || ((const char *)r->data)[r->frame.size - 1] != '\0')
        return false;
    if (open_lane(lane, text) != MF_OK) {
        MF_WARN("copies travel in messages instead of shared memory: %s", mf_error_message());
        return false;
    }
    return head->area < MF_PS_ANSWERS && head->size >= 0 && head->size <= lane->room;
}

/* Ownership of its bytes is transferred to this server. */
static bool find_in_message(mf_mail *r, const copy_head *head, mf_buffer **out)
{
    if (head->size < 0 || (uint64_t)head->size != r->frame.size - sizeof *head ||
        mf_buffer_wrap((char *)r->data + sizeof *head, (size_t)head->size, free_bytes, r->data,
                       out) != MF_OK)
        return false;
    r->data = NULL;
    return true;
}

static mf_status hold_message(server *s, mf_mail *r, const copy_head *head, bool *found)
{
    mf_buffer *bytes = NULL;
    mf_status st = MF_OK;

    *found = find_in_message(r, head, &bytes);
    if (*found)
        st = mf_ps_replica_table_put(s->o.copies, &head->about, bytes, (size_t)head->size);
    mf_buffer_unref(bytes);
    return st;
}

static mf_status hold_area(server *s, const mf_mail *r, const copy_head *head, bool *found)
{
    *found = find_in_lane(s, head, r);
    return *found ? ps_replication_hold(s, &s->copies_in[r->from - s->o.n_workers], head) : MF_OK;
}

void mf_ps_show_copies(const server *s)
{
    for (int i = 0; s->o.copies && i < s->o.n_servers; i++) {
        const int64_t step = mf_ps_replica_table_last(s->o.copies, s->generation, i);

        if (i != s->o.index && step != MF_PS_NO_COPY)
            mf_status_page_holds(mf_net_name(s->o.net, s->o.n_workers + i), step);
    }
}

static mf_status take_copy(server *s, mf_mail *r)
{
    copy_head head;
    bool found;
    mf_status st;

    if (r->from < s->o.n_workers || r->frame.size < sizeof head)
        return MF_OK; /* no server of this job sends this */
    memcpy(&head, r->data, sizeof head);
    st = head.area >= 0 ? hold_area(s, r, &head, &found) : hold_message(s, r, &head, &found);
    if (st == MF_OK && found)
        mf_status_page_holds(mf_net_name(s->o.net, r->from), head.about.step);
    return st == MF_OK ? ps_replication_confirm(s, r->from, &head.about, found) : st;
}

static void ps_replication_fetch(server *s, const mf_mail *r, mf_buf *out)
{
    const void *found = NULL;
    mf_ps_copy_of about;
    size_t size = 0;

    if (r->frame.size == sizeof about) {
        memcpy(&about, r->data, sizeof about);
        found = mf_ps_replica_table_find(s->o.copies, &about, &size);
    }
    if (!found)
        return;
    mf_buf_bytes(out, &about, sizeof about); /* this may be everything: some optimizers have no
                                                slots */
    mf_buf_bytes(out, found, size);
    if (mf_ps_replica_table_find(s->o.copies, &about, &size) != found)
        mf_buf_clear(out); /* its owner has written a later copy meanwhile */
}

static mf_status ps_replication_answer(server *s, const mf_mail *r)
{
    mf_buf out = { 0 };
    mf_status st;

    if (s->o.copies && r->frame.group == MF_PS_FETCH)
        ps_replication_fetch(s, r, &out);
    else if (s->o.copies)
        mf_ps_replica_table_list(s->o.copies, &out);
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
        st = ps_replication_answer(s, r);
    else if (s->o.copies)
        st = take_copy(s, r);
    mf_mail_free(r);
    return st;
}
