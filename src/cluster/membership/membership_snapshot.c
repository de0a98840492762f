/* SPDX-License-Identifier: Apache-2.0 */
/* membership_snapshot.c - reads the members, suspects and views of a job from its store, and
 * derives the next view. Keys: task/NAME (a member, under its lease), leave/NAME (the id of a
 * leaving task), doubt/NAME/NAME (two ids: the first suspects the second), view, over. */
#include "cluster/membership/membership_snapshot.h"

#include "base/mem.h"

#include <string.h>

void mf_membership_snapshot_deinit(mf_membership_snapshot *s)
{
    mf_view_deinit(&s->view);
    mf_free(s->here);
    mf_free(s->leaves);
    mf_free(s->suspicions);
    *s = (mf_membership_snapshot){ .view.self = -1 };
}

static bool membership_snapshot_is_same(const mf_member *a, const mf_member *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->id, b->id) == 0;
}

int mf_membership_snapshot_find(const mf_membership_snapshot *s, const mf_member *m)
{
    for (int i = 0; i < s->n_here; i++) {
        if (membership_snapshot_is_same(&s->here[i], m))
            return i;
    }
    return -1;
}

int mf_view_find(const mf_view *v, const mf_member *m)
{
    for (int i = 0; i < v->n; i++) {
        if (membership_snapshot_is_same(&v->members[i], m))
            return i;
    }
    return -1;
}

/* A registration has the text of a view of one. */
static mf_status read_task(const mf_store_entry *e, mf_membership_snapshot *s)
{
    mf_view one;

    MF_TRY(mf_view_parse(e->value, e->size, &one));
    s->here[s->n_here++] = one.members[0];
    mf_view_deinit(&one);
    return MF_OK;
}

static void read_leave(const mf_store_entry *e, mf_membership_snapshot *s)
{
    for (int i = 0; i < s->n_here; i++) {
        if (strcmp(s->here[i].id, e->value) == 0)
            s->leaves[i] = true;
    }
}

static int find_id(const mf_membership_snapshot *s, const char *id, size_t size)
{
    for (int i = 0; i < s->n_here; i++) {
        if (strlen(s->here[i].id) == size && memcmp(s->here[i].id, id, size) == 0)
            return i;
    }
    return -1;
}

/* "ID ID": of processes that may have ended long ago. */
static void read_suspicion(const mf_store_entry *e, mf_membership_snapshot *s)
{
    const char *space = memchr(e->value, ' ', e->size);
    mf_suspicion d;

    if (!space)
        return;
    d.of = find_id(s, e->value, (size_t)(space - e->value));
    d.in = find_id(s, space + 1, e->size - (size_t)(space + 1 - e->value));
    if (d.of >= 0 && d.in >= 0)
        s->suspicions[s->n_suspicions++] = d;
}

static bool membership_snapshot_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static mf_status membership_snapshot_read_entry(const mf_store_entry *e, mf_membership_snapshot *s)
{
    if (membership_snapshot_begins(e->key, "task/"))
        return read_task(e, s);
    if (strcmp(e->key, "view") == 0) {
        s->version = e->version;
        return mf_view_parse(e->value, e->size, &s->view);
    }
    if (strcmp(e->key, "over") == 0) {
        s->over = true;
        s->stopped = strcmp(e->value, MF_STOPPED) == 0;
    }
    return MF_OK;
}

mf_status mf_membership_snapshot_read(const mf_store_entries *all, mf_membership_snapshot *s)
{
    s->here = mf_calloc(all->n + 1, sizeof *s->here);
    s->leaves = mf_calloc(all->n + 1, sizeof *s->leaves);
    s->suspicions = mf_calloc(all->n + 1, sizeof *s->suspicions);
    if (!s->here || !s->leaves || !s->suspicions)
        return MF_NOMEM("members");
    s->revision = all->revision;
    for (int i = 0; i < all->n; i++)
        MF_TRY(membership_snapshot_read_entry(&all->entries[i], s));
    for (int i = 0; i < all->n; i++) {
        if (membership_snapshot_begins(all->entries[i].key, "leave/"))
            read_leave(&all->entries[i], s);
        if (membership_snapshot_begins(all->entries[i].key, "doubt/"))
            read_suspicion(&all->entries[i], s);
    }
    return MF_OK;
}

/* ---- views ---- */

static mf_status membership_snapshot_add_member(mf_view *v, const mf_member *m, int64_t *cap)
{
    MF_TRY(mf_grow(&v->members, cap, v->n + 1, sizeof *v->members));
    v->members[v->n] = *m;
    v->members[v->n++].lease_ns = 0; /* it may change while the view does not */
    return MF_OK;
}

mf_status mf_membership_snapshot_first(const mf_membership_snapshot *s, const char *const *names,
                                       int n, mf_view *out, const char **missing)
{
    int64_t cap = 0;

    *missing = NULL;
    for (int i = 0; i < n && !*missing; i++) {
        int at = 0;

        while (at < s->n_here && strcmp(s->here[at].name, names[i]) != 0)
            at++;
        if (at == s->n_here)
            *missing = names[i];
        else
            MF_TRY(membership_snapshot_add_member(out, &s->here[at], &cap));
    }
    out->epoch = 1;
    return MF_OK;
}

/* The number of suspicions between this member and others of the view. */
static int count_suspicions(const mf_membership_snapshot *s, const mf_member *m, const mf_view *v)
{
    int n = 0;

    for (int i = 0; i < s->n_suspicions; i++) {
        const mf_member *of = &s->here[s->suspicions[i].of], *in = &s->here[s->suspicions[i].in];

        n += (membership_snapshot_is_same(of, m) && mf_view_find(v, in) >= 0) ||
             (membership_snapshot_is_same(in, m) && mf_view_find(v, of) >= 0);
    }
    return n;
}

bool mf_membership_snapshot_is_suspected(const mf_membership_snapshot *s, const mf_member *m,
                                         const mf_view *v)
{
    return count_suspicions(s, m, v) > 0;
}

static void part_doubtful(const mf_membership_snapshot *s, mf_view *v)
{
    for (;;) {
        int worst = -1, most = 0;

        for (int i = 0; i < v->n; i++) {
            const int n = count_suspicions(s, &v->members[i], v);

            if (n > 0 && n >= most) {
                worst = i;
                most = n;
            }
        }
        if (worst < 0)
            return;
        memmove(&v->members[worst], &v->members[worst + 1],
                (size_t)(v->n - worst - 1) * sizeof *v->members);
        v->n--;
    }
}

mf_status mf_membership_snapshot_next(const mf_membership_snapshot *s, mf_view *out)
{
    int64_t cap = 0;

    out->epoch = s->view.epoch + 1;
    for (int i = 0; i < s->view.n; i++) {
        const int at = mf_membership_snapshot_find(s, &s->view.members[i]);

        if (at >= 0 && !s->leaves[at])
            MF_TRY(membership_snapshot_add_member(out, &s->view.members[i], &cap));
    }
    for (int i = 0; i < s->n_here && !s->over; i++) {
        if (!s->leaves[i] && mf_view_find(&s->view, &s->here[i]) < 0)
            MF_TRY(membership_snapshot_add_member(out, &s->here[i], &cap));
    }
    part_doubtful(s, out);
    return MF_OK;
}

bool mf_membership_snapshot_anybody_left(const mf_membership_snapshot *s)
{
    for (int i = 0; i < s->view.n; i++) {
        if (mf_membership_snapshot_find(s, &s->view.members[i]) >= 0)
            return true;
    }
    return false;
}
