/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - groups of tasks that run collectives.
 *
 * All members call the same collectives in the same order. Every call has a step and a deadline. If
 * a member is lost, fails or does not arrive, the calls of all other members fail with an error
 * that names it: UNAVAILABLE (lost), DEADLINE_EXCEEDED (did not arrive), ABORTED (it aborted, with
 * its reason). After an error the group is unusable: create another one, of a later epoch.
 *
 * Implementations: shm_collectives.c (shared memory), and over connections (net/net.h) one
 * algorithm per file. */
#ifndef MF_COLLECTIVE_GROUP_H
#define MF_COLLECTIVE_GROUP_H

#include "net/net.h"
#include "observe/status_page.h"
#include "tensor/reduction_tree.h"

#include <stdbool.h>

/* Parameters of every collective. */
typedef struct mf_collective {
    int64_t step;
    int64_t deadline_ns; /* mf_clock_ns() time; 0: none */
    const char *what; /* for error messages: "the gradients" */
} mf_collective;

/* A sum over the leaves of the tree, each owned by one member. */
typedef struct mf_reduce {
    mf_collective call;
    int64_t leaves;
    const mf_reduction_tree_node *const *parts; /* by rank: the partial sums that each member has */
    const int *n_parts; /* by rank */
    const void *const *data; /* this member's partial sums: `count` elements each */
    mf_dtype dtype;
    int64_t count;
    void *out; /* must not overlap the partial sums */
} mf_reduce;

/* Bytes of all members, concatenated. */
typedef struct mf_gather {
    mf_collective call;
    const void *data; /* this member's */
    const int64_t *sizes; /* by rank; see mf_group_sizes() */
    void *out; /* of all members, by rank */
} mf_gather;

/* A wait for another member. */
typedef struct mf_group_wait {
    const mf_collective *call;
    int rank; /* the other member */
    int64_t since;
    mf_suspect suspect; /* state of check() */
} mf_group_wait;

typedef struct mf_group mf_group;

typedef struct mf_group_kind {
    const char *name;
    mf_status (*all_reduce)(mf_group *g, const mf_reduce *r);
    /* Rank i gets elements [from[i], from[i+1]) of the sum, at `out`. */
    mf_status (*reduce_scatter)(mf_group *g, const mf_reduce *r, const int64_t *from);
    mf_status (*all_gather)(mf_group *g, const mf_gather *a);
    mf_status (*broadcast)(mf_group *g, const mf_collective *c, int root, void *data, int64_t size);
    /* sizes[i * n + j]: bytes from rank i to rank j, concatenated in `data`; out: the bytes from
     * all ranks for this one. */
    mf_status (*all_to_all)(mf_group *g, const mf_collective *c, const void *data,
                            const int64_t *sizes, void *out);
    mf_status (*barrier)(mf_group *g, const mf_collective *c);
    void (*free)(mf_group *g);
} mf_group_kind;

/* The header of every group; created by one of the functions below. */
struct mf_group {
    const mf_group_kind *kind;
    int rank, size;
    int64_t epoch;
    const char *const *names; /* by rank: "worker 2" */
    /* Are all members healthy? Called before every collective. NULL: unknown. */
    mf_status (*healthy)(void *ctx);
    /* Are all members healthy, and is there time left? Called while waiting. NULL: only the
     * deadline counts. Fails as described above. */
    mf_status (*check)(void *ctx, mf_group_wait *w);
    /* A collective has failed here: release the others. The thread's error is preserved. NULL: not
     * possible. */
    void (*give_up)(void *ctx, mf_status why);
    void *ctx; /* for these three functions */
    int64_t bytes; /* sent to other members so far */
};

/* The prologue and the epilogue of every collective. The epilogue is called only if the prologue
 * succeeded. */
static inline mf_status mf_group_call_begin(const mf_group *g, const mf_collective *c,
                                            int64_t bytes, int64_t *began)
{
    MF_TRY(g->healthy ? g->healthy(g->ctx) : MF_OK);
    *began = mf_status_page_call_begin(c->what, c->step, bytes);
    return MF_OK;
}
static inline mf_status mf_group_call_end(mf_group *g, const mf_collective *c, int64_t began,
                                          mf_status st)
{
    mf_status_page_call_end(c->what, c->step, began);
    if (st != MF_OK && g->give_up)
        g->give_up(g->ctx, st);
    return st;
}

static inline int64_t mf_reduce_bytes(const mf_reduce *r)
{
    return r->count * (int64_t)mf_dtype_cell(r->dtype);
}
static inline mf_status mf_all_reduce(mf_group *g, const mf_reduce *r)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, &r->call, mf_reduce_bytes(r), &began));
    return mf_group_call_end(g, &r->call, began, g->kind->all_reduce(g, r));
}
static inline mf_status mf_reduce_scatter(mf_group *g, const mf_reduce *r, const int64_t *from)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, &r->call, mf_reduce_bytes(r), &began));
    return mf_group_call_end(g, &r->call, began, g->kind->reduce_scatter(g, r, from));
}
static inline mf_status mf_all_gather(mf_group *g, const mf_gather *a)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, &a->call, a->sizes[g->rank], &began));
    return mf_group_call_end(g, &a->call, began, g->kind->all_gather(g, a));
}
static inline mf_status mf_broadcast(mf_group *g, const mf_collective *c, int root, void *data,
                                     int64_t size)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, c, size, &began));
    return mf_group_call_end(g, c, began, g->kind->broadcast(g, c, root, data, size));
}
static inline mf_status mf_all_to_all(mf_group *g, const mf_collective *c, const void *data,
                                      const int64_t *sizes, void *out)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, c, 0, &began));
    return mf_group_call_end(g, c, began, g->kind->all_to_all(g, c, data, sizes, out));
}
static inline mf_status mf_barrier(mf_group *g, const mf_collective *c)
{
    int64_t began;

    MF_TRY(mf_group_call_begin(g, c, 0, &began));
    return mf_group_call_end(g, c, began, g->kind->barrier(g, c));
}
static inline void mf_group_free(mf_group *g)
{
    if (g)
        g->kind->free(g);
}

/* Exchanges sizes: sizes[rank] for all members. */
MF_MUST mf_status mf_group_sizes(mf_group *g, const mf_collective *c, int64_t mine, int64_t *sizes);
/* Beginning of rank r's share of `count` elements; it ends at that of r + 1. */
static inline int64_t mf_group_cut(const mf_group *g, int64_t count, int r)
{
    const int64_t n = g->size > 1 ? g->size : 1;

    return count / n * r + (r < count % n ? r : count % n);
}
/* The same without a check function: fails after the deadline with "worker 2 did not reach the
 * gradients of step 7; worker 0 waited 3.0 s". */
MF_MUST mf_status mf_group_in_time(const mf_group *g, const mf_group_wait *w);

/* ---- shared memory ---- */

typedef struct mf_segment mf_segment;

/* Memory for a group of `ranks`, visible to threads and children of this process; area: bytes that
 * a member can publish at a time. */
MF_MUST mf_status mf_segment_new(int ranks, int64_t area, mf_segment **out);
/* Memory with a name, for other processes of this user. Fails: ALREADY_EXISTS. */
MF_MUST mf_status mf_segment_create(const char *name, int ranks, int64_t area, mf_segment **out);
/* Open it. Fails: NOT_FOUND, FAILED_PRECONDITION (created for another group). */
MF_MUST mf_status mf_segment_open(const char *name, int ranks, int64_t area, mf_segment **out);
/* Remove the name: no other process can open it any more. */
void mf_segment_unlink(const mf_segment *s);
/* Wake all waiting members, which then call mf_group.check. Thread: any; async-signal-safe. */
void mf_segment_wake(mf_segment *s);
void mf_segment_free(mf_segment *s);

/* A member of the group in this memory, which must outlive it. Everything except the kind is copied
 * from `like` (names are borrowed). */
MF_MUST mf_status mf_group_shared(mf_segment *s, const mf_group *like, mf_group **out);

#endif
