/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h - the members of a job, epoch by epoch, as the job's store shows them (store.h).
 *
 * Every task registers under its name with a lease: a task that dies or is stopped disappears when
 * its lease expires. The members of the current *view* train. A view has a number, its epoch, and
 * never changes; the next view replaces it by compare-and-set. There is no leader: any task may
 * propose the next view, and all tasks follow the accepted view. A task that was stopped or cut off
 * sees that the view does not contain it, and rejoins like a new task.
 *
 * Live members may be unable to connect to each other, and a hanging task may still renew its
 * lease. A task whose wait for another times out records its suspicion in the store; no view
 * contains two members that suspect each other. A task that is excluded this way rejoins after a
 * delay, which grows each time.
 *
 * A thread renews the lease and reads the store. Callers query its result between two steps, or
 * while they wait for other tasks. */
#ifndef MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_H
#define MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_H

#include "base/buf.h"
#include "cluster/store/store.h"

enum { MF_MEMBER_NAME = 32, MF_MEMBER_ADDRESS = 256, MF_MEMBER_ID = 20 };

typedef struct mf_member {
    char name[MF_MEMBER_NAME]; /* "worker 2" */
    char address[MF_MEMBER_ADDRESS];
    char id[MF_MEMBER_ID]; /* of this process: a restarted task has another */
    int64_t lease_ns; /* of a task's own entry: how long it may be silent; 0: not recorded */
} mf_member;

typedef struct mf_view {
    int64_t epoch; /* from 1; 0: no view yet */
    mf_member *members; /* oldest members first; new ones by name */
    int n;
    int self; /* index of this task; -1: not a member */
} mf_view;

typedef struct mf_members_options {
    const char *store; /* mf_store_open() */
    mf_security security; /* of the store */
    const char *name, *address; /* this task's */
    const char *const *first; /* names of the members of the first view, in order */
    int n_first;
    int64_t lease_ns; /* a task that is silent for so long is lost (adaptive_timeout.h); 0: 3 s */
    int64_t timeout_ns; /* how long joining may take */
    /* A member of the view is lost, or a later view exists: callers that wait for other tasks
     * should call mf_members_check(). Thread: any. */
    void (*news)(void *ctx);
    /* Suspicion excludes this task from the view; it rejoins after so long. May be NULL. Thread:
     * the caller's of mf_members_next(). */
    void (*excluded)(void *ctx, int64_t ns);
    /* Was this task asked to end? Then it waits for one more lease to join. NULL: never. Thread:
     * the caller's of mf_members_next(). */
    bool (*stops)(void *ctx);
    void *ctx;
} mf_members_options;

typedef struct mf_members mf_members;

/* Register this task. Waits for a store that does not answer yet. Fails: ALREADY_EXISTS (another
 * live process is this task), FAILED_PRECONDITION (the store did not answer in time), CANCELLED, as
 * mf_store_open(). */
MF_MUST mf_status mf_members_open(const mf_members_options *o, mf_members **out);
/* Unregister this task. */
void mf_members_close(mf_members *m);

/* The next view with this task in it; the first call gives the first view. The current view ends:
 * the next one lacks lost and leaving members and has the new ones. Waits until this task is a
 * member. *view is valid until the next call. Fails: FAILED_PRECONDITION naming the absent task
 * (first call), DEADLINE_EXCEEDED (later calls; trying again may help), CANCELLED (this task has
 * left), OUT_OF_RANGE (the job is over). */
MF_MUST mf_status mf_members_next(mf_members *m, const mf_view **view);
/* MF_OK as long as all members of the current view are registered and no later view exists.
 * UNAVAILABLE naming the lost member, ABORTED. Thread: any. */
MF_MUST mf_status mf_members_check(mf_members *m);
/* For a task that waits for other members. CANCELLED: `stops` has been true for one lease. It waits
 * so long because it stops or leaves in order if they join. meanwhile: "it waited to join". */
MF_MUST mf_status mf_members_check_stop(mf_members *m, const char *meanwhile);
/* Suspect this member of the current view: it is registered, but does not answer or does not
 * connect. The next view lacks one of the two: see mf_membership_snapshot_next(). */
MF_MUST mf_status mf_members_suspect(mf_members *m, int member);
/* Was this member of the current view lost at the last read? Thread: any. */
bool mf_members_is_lost(mf_members *m, int member);
/* Read the store now. Fails: as mf_store_list(). Thread: any. */
MF_MUST mf_status mf_members_look(mf_members *m);
/* Does a task wait to join or to leave? Thread: any. */
bool mf_members_wait_for_next(mf_members *m);

/* Is the job marked as over? Thread: any. */
bool mf_members_are_done(mf_members *m);
/* And that it was stopped before its end? Thread: any. */
bool mf_members_were_stopped(mf_members *m);

/* This task leaves: the next view lacks it. */
MF_MUST mf_status mf_members_leave(mf_members *m);
/* The job is over, or was stopped before its end: new tasks are rejected, and members may continue
 * until they leave. */
MF_MUST mf_status mf_members_end(mf_members *m, bool stopped);
/* A mark that later tasks should see: "saved". Letters, digits and '-'. */
MF_MUST mf_status mf_members_mark(mf_members *m, const char *what);
MF_MUST mf_status mf_members_marked(mf_members *m, const char *what, bool *out);

/* The text of the first caller of mf_members_agree() for `what`; NULL: none. Owns: mf_free(). */
MF_MUST mf_status mf_members_agreed(mf_members *m, const char *what, char **text);
/* All tasks get the text of the first caller; the buffer has `size` bytes. */
MF_MUST mf_status mf_members_agree(mf_members *m, const char *what, char *text, size_t size);

/* ---- views as text, for the store ---- */

/* Owns: mf_view_deinit(). DATA_LOSS. */
MF_MUST mf_status mf_view_parse(const char *text, size_t size, mf_view *out);
MF_MUST mf_status mf_view_print(const mf_view *v, mf_buf *out);
void mf_view_deinit(mf_view *v);

#endif
