/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h - who takes part in a job, epoch by epoch, as the job's store says (store.h).
 *
 * Every task that runs is registered under its name, with a lease: one that dies or stands still is
 * not there any more once that has ended. Of all who are there, those take part that the *view*
 * names. A view has a number, its epoch, and is never changed: the next one takes its place, put
 * there by whoever is first (compare-and-set). Nobody leads: any task may do it, and all others
 * follow what stands there. So whoever was stopped or cut off finds out that it is not in the view
 * any more, and comes again like anybody who comes later.
 *
 * Some who are there may not reach each other, or one may hang while its lease is kept. Whoever
 * waits for another one in vain puts its doubt into the store, and the next view has nobody who
 * doubts another of it. Who is left out by that comes again after a while, and each time after a
 * longer one.
 *
 * A thread keeps the lease and looks at the store. Everything it learns is asked of it between two
 * steps, or by those who wait for others. */
#ifndef MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_H
#define MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_H

#include "base/buf.h"
#include "cluster/store/store.h"

enum { MF_MEMBER_NAME = 32, MF_MEMBER_ADDRESS = 256, MF_MEMBER_ID = 20 };

typedef struct mf_member {
    char name[MF_MEMBER_NAME]; /* "worker 2" */
    char address[MF_MEMBER_ADDRESS];
    char id[MF_MEMBER_ID]; /* of this process: another one of the same name has another */
    int64_t lease_ns; /* of a task's own entry: how long it may be silent; 0: not said */
} mf_member;

typedef struct mf_view {
    int64_t epoch; /* from 1; 0: there is none yet */
    mf_member *members; /* those who have been there longest first; newcomers by name */
    int n;
    int self; /* our place; -1: we are not in it */
} mf_view;

typedef struct mf_members_options {
    const char *store; /* mf_store_open() */
    mf_security security; /* of the store */
    const char *name, *address; /* this task's */
    const char *const *first; /* names of those that the first view has, in this order */
    int n_first;
    int64_t lease_ns; /* who is silent for so long is not there (adaptive_timeout.h); 0: 3 s */
    int64_t timeout_ns; /* how long it may take to be let in */
    /* Somebody of the view is not there any more, or a later view is: those who wait for others
     * shall ask mf_members_check(). Thread: any. */
    void (*news)(void *ctx);
    /* Suspicion keeps this task out of the view; it rejoins after so long. NULL: not of interest.
     * Thread: the caller's of mf_members_next(). */
    void (*excluded)(void *ctx, int64_t ns);
    /* Was this task told to end? Then it waits for one lease more to be let in. NULL: it never is.
     * Thread: the caller's of mf_members_next(). */
    bool (*stops)(void *ctx);
    void *ctx;
} mf_members_options;

typedef struct mf_members mf_members;

/* Registers this task. Waits for a store that does not answer yet. Fails: ALREADY_EXISTS (another
 * process is this task, and alive), FAILED_PRECONDITION (the store has not answered in time),
 * CANCELLED, as mf_store_open(). */
MF_MUST mf_status mf_members_open(const mf_members_options *o, mf_members **out);
/* We are not there any more. */
void mf_members_close(mf_members *m);

/* The next view with us in it; the first time, the first one. The view at hand is given up: without
 * those who are not there any more or want to leave, and with newcomers. Waits until we are let in,
 * if we are not any more.
 * *view is valid until the next call. Fails: FAILED_PRECONDITION naming who did not come (the first
 * time), DEADLINE_EXCEEDED (later, and trying again may help), CANCELLED (we have left),
 * OUT_OF_RANGE (the job is over). */
MF_MUST mf_status mf_members_next(mf_members *m, const mf_view **view);
/* MF_OK as long as all of the view at hand are there and no later one is. UNAVAILABLE naming who is
 * missing, ABORTED. Thread: any. */
MF_MUST mf_status mf_members_check(mf_members *m);
/* This member of the view at hand is there, but we and it cannot meet: it does not answer, or does
 * not come. The next view is without one of the two: see mf_membership_snapshot_next(). */
MF_MUST mf_status mf_members_suspect(mf_members *m, int member);
/* Is this member of the view at hand not there any more, as far as we have looked? Thread: any. */
bool mf_members_is_lost(mf_members *m, int member);
/* Look now. Fails: as mf_store_list(). Thread: any. */
MF_MUST mf_status mf_members_look(mf_members *m);
/* Somebody waits to be let in, or to be let go. Thread: any. */
bool mf_members_wait_for_next(mf_members *m);

/* Has somebody said that the job is over? Thread: any. */
bool mf_members_are_done(mf_members *m);
/* And that it was stopped before its end? Thread: any. */
bool mf_members_were_stopped(mf_members *m);

/* We want to leave: the next view is without us. */
MF_MUST mf_status mf_members_leave(mf_members *m);
/* The job is over, or was stopped before its end: a task that comes now is sent home, and those
 * that are there may continue until they leave. */
MF_MUST mf_status mf_members_end(mf_members *m, bool stopped);
/* Something that those who come later should know: "saved". Letters, digits and '-'. */
MF_MUST mf_status mf_members_mark(mf_members *m, const char *what);
MF_MUST mf_status mf_members_marked(mf_members *m, const char *what, bool *out);

/* The text of the first that has called mf_members_agree() for it; NULL: nobody has. Owns:
 * mf_free(). */
MF_MUST mf_status mf_members_agreed(mf_members *m, const char *what, char **text);
/* All tasks have the text of the first that calls this; `size` bytes of room. */
MF_MUST mf_status mf_members_agree(mf_members *m, const char *what, char *text, size_t size);

/* ---- views as text, for the store ---- */

/* Owns: mf_view_deinit(). DATA_LOSS. */
MF_MUST mf_status mf_view_parse(const char *text, size_t size, mf_view *out);
MF_MUST mf_status mf_view_print(const mf_view *v, mf_buf *out);
void mf_view_deinit(mf_view *v);

#endif
