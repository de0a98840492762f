/* SPDX-License-Identifier: Apache-2.0 */
/* dist_trace.c - merges the traces of all workers into one timeline in the chief's time.
 *
 * Clocks are compared by Cristian's algorithm: the chief reads its clock, asks all workers for
 * theirs, and reads its clock again. Their readings lie between its own two; of several tries the
 * quickest one counts, and half of its duration is the error. */
#include "train/loop/dist_trace.h"

#include "base/clock.h"
#include "base/mem.h"
#include "train/step/trainer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 16 };

/* ---- clocks ---- */

static mf_status look_once(mf_group *g, const mf_collective *c, const int64_t *sizes, int64_t *seen,
                           int64_t *begin, int64_t *end)
{
    int64_t word = 0, mine;

    *begin = mf_clock_ns();
    MF_TRY(mf_broadcast(g, c, 0, &word, sizeof word));
    mine = mf_clock_ns();
    MF_TRY(mf_all_gather(g, &(mf_gather){ *c, &mine, sizes, seen }));
    *end = mf_clock_ns();
    return MF_OK;
}

/* ahead[r]: how far the clock of rank r is ahead of the chief's; ahead[size]: to how much that is
 * right. memory: 3 (size + 1) numbers. */
static mf_status dist_trace_compare_clocks(mf_group *g, const mf_collective *c, int64_t *memory,
                                           int64_t **ahead)
{
    int64_t *sizes = memory, *seen = memory + g->size, best = INT64_MAX;

    *ahead = memory + 2 * g->size;
    for (int r = 0; r < g->size; r++)
        sizes[r] = sizeof *seen;
    for (int i = 0; i < TRIES; i++) {
        int64_t begin, end;

        MF_TRY(look_once(g, c, sizes, seen, &begin, &end));
        if (end - begin >= best)
            continue;
        best = end - begin;
        for (int r = 1; r < g->size; r++)
            (*ahead)[r] = seen[r] - (begin + best / 2);
        (*ahead)[0] = 0;
        (*ahead)[g->size] = best / 2;
    }
    return mf_broadcast(g, c, 0, *ahead, (g->size + 1) * (int64_t)sizeof **ahead);
}

mf_status mf_dist_trace_begin(mf_dist_trace *x, mf_dist *dist, mf_trainer *t)
{
    const mf_collective c = mf_dist_collective(dist, t->step, "the clocks of all workers");
    int64_t *memory = mf_calloc(3 * (dist->size + 1), sizeof *memory), *ahead;
    mf_status st =
        memory ? dist_trace_compare_clocks(dist->group, &c, memory, &ahead) : MF_NOMEM("clocks");

    if (st == MF_OK)
        st = mf_trace_new(&x->trace);
    if (st == MF_OK) {
        x->origin = mf_trace_begin(x->trace);
        x->error_ns = dist->rank == 0 ? 0 : ahead[dist->size];
        if (dist->rank == 0 && MF_DIST_HAS(dist, trace, begin))
            st = dist->ops.trace->begin(dist, x->origin);
    }
    if (st == MF_OK) {
        st = mf_broadcast(dist->group, &c, 0, &x->origin, sizeof x->origin);
        x->origin += ahead[dist->rank];
    }
    mf_free(memory);
    if (st == MF_OK)
        mf_session_set_trace(t->session, x->trace);
    return st;
}

/* ---- events ---- */

/* The bytes of all workers, concatenated; each ends with a separator. */
static mf_status dist_trace_gather(mf_dist *dist, const mf_collective *c, const mf_buf *mine,
                                   mf_buf *all)
{
    int64_t *sizes = mf_calloc(dist->size, sizeof *sizes), total = 0;
    mf_status st =
        sizes ? mf_group_sizes(dist->group, c, (int64_t)mine->len, sizes) : MF_NOMEM("a trace");
    char *room = NULL;

    for (int r = 0; st == MF_OK && r < dist->size; r++) {
        if (sizes[r] < 0 || sizes[r] > INT32_MAX)
            st = MF_FAIL(MF_DATA_LOSS, "%s has a trace of %lld bytes", dist->group->names[r],
                         (long long)sizes[r]);
        total += sizes[r];
    }
    if (st == MF_OK && !(room = mf_buf_room(all, (size_t)total)))
        st = MF_NOMEM("a trace");
    if (st == MF_OK)
        st = mf_all_gather(dist->group, &(mf_gather){ *c, mine->data, sizes, room });
    mf_free(sizes);
    return st;
}

mf_status mf_dist_trace_end(mf_dist_trace *x, mf_dist *dist, mf_trainer *t, const char *path)
{
    const mf_collective c = mf_dist_collective(dist, t->step, "the traces of all workers");
    char host[64] = "", name[192];
    mf_buf mine = { 0 }, all = { 0 };
    mf_status st;

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "%s (%s, process %d, clock +-%.1f us)",
                   dist->group->names[dist->rank], host, (int)getpid(),
                   (double)x->error_ns / 1000.0);
    st = mf_trace_put(x->trace,
                      &(mf_trace_process){ .id = dist->rank, .name = name, .origin = x->origin },
                      &mine);
    if (st == MF_OK && dist->rank + 1 < dist->size)
        mf_buf_str(&mine, ",\n");
    if (st == MF_OK)
        st = mf_buf_finish(&mine);
    if (st == MF_OK)
        st = dist_trace_gather(dist, &c, &mine, &all);
    if (st == MF_OK && dist->rank == 0 && MF_DIST_HAS(dist, trace, end))
        st = dist->ops.trace->end(dist, &all);
    if (st == MF_OK)
        st = mf_buf_finish(&all);
    if (st == MF_OK && dist->rank == 0)
        st = mf_trace_write_events(&all, path);
    mf_buf_deinit(&mine);
    mf_buf_deinit(&all);
    mf_dist_trace_deinit(x, t);
    return st;
}

void mf_dist_trace_deinit(mf_dist_trace *x, mf_trainer *t)
{
    if (x->trace)
        mf_session_set_trace(t->session, NULL);
    mf_trace_free(x->trace);
    x->trace = NULL;
}
