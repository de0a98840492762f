/* SPDX-License-Identifier: Apache-2.0 */
/* store_file.h - a store in a folder: how its state is replaced, and its leases. Only store_file*.c
 * and what tests them includes it.
 *
 *     DIR/state/host                the host that has made it, and since when that is up
 *     DIR/state/data@REVISION~ID    a state (store_state.h)
 *     DIR/state/now@REVISION~ID     an empty file, the only one of its kind: which state counts
 *     DIR/lease~ID                  a lease
 *     DIR/new~ID/                   becomes DIR/state, unless somebody is first
 *
 * Nobody ever locks anything, so whoever is stopped or killed, at whichever instruction, holds up
 * nobody. This is why it works:
 *
 *   1. DIR/state appears once, whole, by the renaming of a folder, and is never empty after that;
 *      so there is one file now@, and there will never be another.
 *   2. Who has read the state of now@5~a and wants to replace it writes data@6~b and renames
 * now@5~a to now@6~b. The kernel lets one succeed. For all others now@5~a is gone, for ever:
 * revisions ascend, and IDs are random. They read again.
 *   3. data@ of a revision up to the present one, other than it, can be removed by anybody: whoever
 *      wrote it either has been replaced or will not succeed.
 *   4. A lease is in force or not by one number in its file, the time until which it is. Its owner
 *      puts a later one, others put 0 when the time has passed, both by compare-and-swap. So what
 *      somebody has seen to be over is over for all. */
#ifndef MF_CLUSTER_STORE_STORE_FILE_H
#define MF_CLUSTER_STORE_STORE_FILE_H

#include "cluster/store/store_state.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MF_STORE_BOOT = 40 }; /* bytes of the kernel's name for a run of this machine, with zeros */

typedef struct mf_store_folder {
    char *path, *state; /* DIR, DIR/state */
    int host_fd; /* DIR/state/host, kept open: another one has another inode */
    char boot[MF_STORE_BOOT];
    uint64_t pid_space; /* processes of another one have other numbers (containers) */
} mf_store_folder;

/* Which state counts. */
typedef struct mf_store_token {
    int64_t revision;
    uint64_t id;
} mf_store_token;

/* Makes what is missing. Fails: as mf_store_open(). Owns: deinit, after a failure, too. */
MF_MUST mf_status mf_store_folder_open(const char *path, mf_store_folder *out);
void mf_store_folder_deinit(mf_store_folder *f);

/* Fails: DATA_LOSS (it is gone, or damaged). Owns: mf_store_state_deinit(), after a failure, too.
 */
MF_MUST mf_status mf_store_folder_read(const mf_store_folder *f, mf_store_token *token,
                                       mf_store_state *state);
/* Put `state` in place of `token`'s. *won false: somebody has replaced that one. */
MF_MUST mf_status mf_store_folder_replace(const mf_store_folder *f, const mf_store_token *token,
                                          const mf_store_state *state, bool *won);

/* ---- leases ---- */

#define MF_STORE_LEASE_MAGIC "mflease1" /* without its zero */

typedef struct mf_store_lease {
    char magic[8];
    char boot[MF_STORE_BOOT];
    uint64_t pid_space;
    int64_t id, pid, start; /* it ends with this process (mf_process.start) */
    int64_t ttl_ns;
    atomic_llong until_ns; /* mf_clock_ns(); 0: it has ended */
} mf_store_lease;

MF_MUST mf_status mf_store_lease_make(const mf_store_folder *f, int64_t ttl_ns, int64_t *id);
/* FAILED_PRECONDITION: it has ended. *out (unless NULL) is what it looked like. */
MF_MUST mf_status mf_store_lease_look(const mf_store_folder *f, int64_t id, mf_store_lease *out);
/* For another ttl. FAILED_PRECONDITION. */
MF_MUST mf_status mf_store_lease_renew(const mf_store_folder *f, int64_t id);
/* It has ended, for everybody. */
MF_MUST mf_status mf_store_lease_finish(const mf_store_folder *f, int64_t id);
/* Its process is of those that we can look at. */
bool mf_store_lease_has_process(const mf_store_folder *f, const mf_store_lease *l);
/* Which of them are held by processes that a signal has stopped, since when (store_file_stopped.c).
 */
typedef struct mf_store_stopped_one {
    int64_t lease, until_ns,
        since_ns; /* until: as it was then; if it is another one, it was kept */
} mf_store_stopped_one;
typedef struct mf_store_stopped {
    pthread_mutex_t lock; /* all below */
    mf_store_stopped_one *all;
    int64_t n;
} mf_store_stopped;

void mf_store_stopped_init(mf_store_stopped *s);
void mf_store_stopped_deinit(mf_store_stopped *s);
/* Is any of them stopped now? */
bool mf_store_stopped_any(const mf_store_folder *f, const mf_store_lease *leases, int n);
/* To be asked several times a second when one is. Ends those whose holders have been stopped all
 * the time since long enough; *ended: there were some. */
MF_MUST mf_status mf_store_stopped_look(mf_store_stopped *s, const mf_store_folder *f,
                                        const mf_store_lease *leases, int n, bool *ended);

/* Files of leases that have ended go. */
void mf_store_leases_sweep(const mf_store_folder *f);
/* Bytes of a file: DATA_LOSS unless they are lease `id`. */
MF_MUST mf_status mf_store_lease_decode(const void *data, size_t len, int64_t id,
                                        mf_store_lease *out);

#endif
