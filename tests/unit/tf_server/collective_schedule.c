/* SPDX-License-Identifier: Apache-2.0 */
/* collective_schedule.c - schedules of collectives: order of sums, chunk sizes, rings. */
#include "tf_server/collective_schedule.h"

#include "mf_test.h"

#include <string.h>

enum { MEMBERS = 9, ROUTES = 64, MAIL = 4096 };

/* What a piece has become: who was merged, in which order. */
typedef struct value {
    int who[MEMBERS + 1], n;
    bool finished;
} value;

/* A member at a piece. */
typedef struct place {
    const mf_collective_route *route;
    int leg;
    value v;
} place;

typedef struct letter {
    int from;
    mf_hop_key key;
    value v;
    bool taken;
} letter;

typedef struct world {
    mf_arena *arena;
    mf_collective_schedule routes[MEMBERS];
    place places[MEMBERS][ROUTES];
    letter mail[MAIL];
    int n, n_mail;
} world;

static letter *find(world *w, int from, const mf_hop_key *key)
{
    for (int i = 0; i < w->n_mail; i++) {
        letter *l = &w->mail[i];

        if (l->from == from && !l->taken && memcmp(&l->key, key, sizeof *key) == 0)
            return l;
    }
    return NULL;
}

/* Does one leg, if what it needs is there. */
static bool move(world *w, int self, place *p)
{
    const mf_hop *leg = &p->route->hops[p->leg];

    if (p->leg == p->route->n_hops)
        return false;
    if (leg->from >= 0) {
        letter *l = find(w, leg->from, &leg->key);

        if (!l)
            return false;
        l->taken = true;
        p->v = l->v;
    }
    if (leg->merges || (leg->from < 0 && p->leg == 0))
        p->v.who[p->v.n++] = self;
    p->v.finished = p->v.finished || leg->finishes;
    for (int i = 0; i < leg->n_sends; i++)
        w->mail[w->n_mail++] = (letter){ .from = self, .key = leg->sends[i], .v = p->v };
    p->leg++;
    return true;
}

/* Members execute their hops, in reverse order if `backwards`, until none can continue. */
static void play(world *w, const mf_collective_op *c, const int *task, int source, int64_t count,
                 bool backwards)
{
    bool moved = true;

    w->arena = mf_arena_new();
    w->n_mail = 0;
    for (int i = 0; i < w->n; i++) {
        T_OK(mf_collective_schedule_make(
            &(mf_collective_schedule_of){ c, task, w->n, i, source, count }, w->arena,
            &w->routes[i]));
        T_TRUE(w->routes[i].n <= ROUTES);
        T_EQ(w->routes[i].n, w->routes[0].n);
        for (int r = 0; r < w->routes[i].n; r++)
            w->places[i][r] = (place){ .route = &w->routes[i].all[r] };
    }
    while (moved) {
        moved = false;
        for (int i = 0; i < w->n; i++) {
            const int self = backwards ? w->n - 1 - i : i;

            for (int r = 0; r < w->routes[self].n; r++)
                moved = move(w, self, &w->places[self][r]) || moved;
        }
    }
    for (int i = 0; i < w->n_mail; i++)
        T_TRUE(w->mail[i].taken);
}

static void check_cover(const mf_collective_schedule *r, int64_t count)
{
    int64_t all = 0;

    for (int i = 0; i < r->n; i++) {
        T_TRUE(r->all[i].count > 0 && r->all[i].first + r->all[i].count <= count);
        all += r->all[i].count;
    }
    T_EQ(all, count);
}

/* All members have the same sum, over all members. */
static void check_sum(world *w, int64_t count)
{
    for (int i = 0; i < w->n; i++) {
        check_cover(&w->routes[i], count);
        for (int r = 0; r < w->routes[i].n; r++) {
            const place *p = &w->places[i][r];
            unsigned seen = 0;

            T_EQ(p->leg, p->route->n_hops);
            T_EQ(p->v.n, w->n);
            T_TRUE(p->v.finished);
            T_EQ(memcmp(p->v.who, w->places[0][r].v.who, sizeof(int) * (size_t)w->n), 0);
            for (int k = 0; k < w->n; k++)
                seen |= 1u << p->v.who[k];
            T_EQ(seen, (1u << w->n) - 1);
        }
    }
}

static mf_collective_op reduction(const int64_t *offsets, int64_t n)
{
    return (mf_collective_op){
        .kind = MF_COLLECTIVE_OP_REDUCE, .dtype = MF_DTYPE_F32, .offsets = offsets, .n_offsets = n
    };
}

MF_TEST(server_collective_schedule_adds_in_a_fixed_order)
{
    static const int task[MEMBERS] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    static const int64_t sizes[] = { 1, 16, 17, 100, 1000 };
    mf_collective_op c = reduction((const int64_t[]){ 0 }, 1);
    static world w;

    for (w.n = 2; w.n <= MEMBERS; w.n++) {
        for (int s = 0; s < MF_COUNT(sizes); s++) {
            for (int backwards = 0; backwards < 2; backwards++) {
                play(&w, &c, task, 0, sizes[s], backwards);
                check_sum(&w, sizes[s]);
                for (int r = 0; r < w.routes[0].n; r++) {
                    for (int k = 0; k < w.n; k++) /* by rank, beginning with the piece's own */
                        T_EQ(w.places[0][r].v.who[k], (r + k) % w.n);
                }
                mf_arena_free(w.arena);
            }
        }
    }
}

MF_TEST(server_collective_schedule_uses_several_rings_for_several_devices)
{
    static const int task[] = { 0, 0, 0, 1, 2, 2 };
    static const int64_t offsets[] = { 0, 1, -2 };
    mf_collective_op c = reduction(offsets, MF_COUNT(offsets));
    static world w = { .n = 6 };

    play(&w, &c, task, 0, 5000, false);
    check_sum(&w, 5000);
    mf_arena_free(w.arena);
    c = reduction(NULL, 0); /* as many as are useful */
    play(&w, &c, task, 0, 5000, true);
    check_sum(&w, 5000);
    T_EQ(w.routes[0].n, 6);
    mf_arena_free(w.arena);
    play(&w, &c, task, 0, 60 << 20, true);
    check_sum(&w, 60 << 20);
    T_EQ(w.routes[0].n, 24);
    mf_arena_free(w.arena);
}

MF_TEST(server_collective_schedule_has_the_chunk_sizes_of_tensorflow)
{
    static const int task[] = { 0, 1 };
    mf_collective_op c = reduction((const int64_t[]){ 0 }, 1);
    mf_arena *arena = mf_arena_new();
    mf_collective_schedule r;

    T_OK(mf_collective_schedule_make(&(mf_collective_schedule_of){ &c, task, 2, 0, 0, 3 }, arena,
                                     &r));
    T_EQ(r.n, 1); /* all of it in the first */
    T_OK(mf_collective_schedule_make(&(mf_collective_schedule_of){ &c, task, 2, 0, 0, 32 }, arena,
                                     &r));
    T_EQ(r.n, 1); /* 16 floats are a whole line: then it has one more */
    T_OK(mf_collective_schedule_make(&(mf_collective_schedule_of){ &c, task, 2, 0, 0, 100 }, arena,
                                     &r));
    T_EQ(r.n, 2);
    T_EQ(r.all[0].count, 64);
    T_EQ(r.all[1].count, 36);
    T_OK(mf_collective_schedule_make(&(mf_collective_schedule_of){ &c, task, 2, 0, 0, 0 }, arena,
                                     &r));
    T_EQ(r.n, 0);
    mf_arena_free(arena);
}

MF_TEST(server_collective_schedule_of_a_gather_delivers_every_part)
{
    static const int task[MEMBERS] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    const mf_collective_op c = { .kind = MF_COLLECTIVE_OP_GATHER, .dtype = MF_DTYPE_F64 };
    static world w;

    for (w.n = 2; w.n <= MEMBERS; w.n++) {
        play(&w, &c, task, 0, w.n * 7, false);
        for (int i = 0; i < w.n; i++) {
            T_EQ(w.routes[i].n, w.n);
            check_cover(&w.routes[i], w.n * 7);
            for (int r = 0; r < w.n; r++) {
                T_EQ(w.places[i][r].v.n, 1);
                T_EQ(w.places[i][r].v.who[0], r);
            }
        }
        mf_arena_free(w.arena);
    }
}

MF_TEST(server_collective_schedule_of_a_broadcast_reaches_all_members_from_any_source)
{
    static const int task[MEMBERS] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    const mf_collective_op c = { .kind = MF_COLLECTIVE_OP_BROADCAST, .dtype = MF_DTYPE_BOOL };
    static world w;

    for (w.n = 2; w.n <= MEMBERS; w.n++) {
        for (int source = 0; source < w.n; source++) {
            play(&w, &c, task, source, 11, source % 2 == 0);
            for (int i = 0; i < w.n; i++) {
                T_EQ(w.places[i][0].leg, 1);
                T_EQ(w.places[i][0].v.n, 1);
                T_EQ(w.places[i][0].v.who[0], source);
            }
            mf_arena_free(w.arena);
        }
    }
}
