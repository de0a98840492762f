/* SPDX-License-Identifier: Apache-2.0 */
/* membership_private.h - the inside of mf_members; shared by membership.c (the thread and queries)
 * and membership_next_view.c (the next view). */
#ifndef MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_PRIVATE_H
#define MF_CLUSTER_MEMBERSHIP_MEMBERSHIP_PRIVATE_H

#include "cluster/membership/heartbeat.h"
#include "cluster/membership/membership_snapshot.h"

#include <pthread.h>

struct mf_members {
    mf_members_options o;
    mf_member self;
    mf_store *store;
    mf_heartbeat presence; /* the thread's, while it runs */
    bool leaving; /* the caller's thread, as are the three below */
    int64_t adopted_at; /* when the current view was adopted; 0: there is none */
    int64_t excluded_at; /* by suspicion; 0: not excluded */
    int64_t excluded_ns; /* for how long, the last time */
    int64_t stopped_at; /* when `stops` was first found to be true; 0: never */
    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t changed; /* `seen` has changed */
    mf_membership_snapshot seen;
    int64_t seen_at; /* when; 0: never */
    int64_t lost_from; /* no task is considered lost before this time */
    mf_view at_hand;
    int gone; /* reads in a row that found no store */
    mf_error why_gone;
    bool closing;
    pthread_t thread;
    bool started;
};

/* "WHAT/NAME" or, of two, "WHAT/NAME/NAME". */
void mf_members_key(char key[MF_STORE_KEY_MAX], const char *what, const mf_member *a,
                    const mf_member *b);

#endif
