/* SPDX-License-Identifier: Apache-2.0 */
/* store_file.h - a store in a folder: how its state is replaced, and its leases. For store_file*.c
 * and their tests.
 *
 *     DIR/state/host                the host that made it, and its boot time
 *     DIR/state/data@REVISION~ID    a state (store_state.h)
 *     DIR/state/now@REVISION~ID     an empty file, the only one of its kind: names the current
 *     state
 *     DIR/lease~ID                  a lease
 *     DIR/new~ID/                   becomes DIR/state, unless another process is first
 *
 * No process takes a lock, so a process that is stopped or killed at any instruction holds up no
 * other. This is why it works:
 *
 *   1. DIR/state appears at once, by renaming a folder, and is never empty after that; so there is
 *      exactly one file now@ at all times.
 *   2. A process that has read the state of now@5~a and wants to replace it writes data@6~b and
 *      renames now@5~a to now@6~b. The kernel lets one succeed. The others never see now@5~a
 *      again: revisions ascend, and IDs are random. They read the new state.
 *   3. Any process may remove data@ files of revisions up to the current one, except the current
 *      one: their writer either has been replaced or will not succeed.
 *   4. One number in a lease's file decides whether it is in force: the time of its expiry. Its
 *      owner writes a later one, others write 0 after the time has passed, both by
 *      compare-and-swap. So a lease that one process has seen expire is expired for all. */
#ifndef MF_CLUSTER_STORE_STORE_FILE_H
#define MF_CLUSTER_STORE_STORE_FILE_H

#include "cluster/store/store_state.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MF_STORE_BOOT = 40 }; /* bytes of the kernel's name for a run of this machine, with zeros */

typedef struct mf_store_folder {
    char *path, *state; /* DIR, DIR/state */
    int host_fd; /* DIR/state/host, kept open: another store in its place has another inode */
    char boot[MF_STORE_BOOT];
    uint64_t pid_space; /* process numbers are valid within one namespace (containers) */
} mf_store_folder;

/* Which state counts. */
typedef struct mf_store_token {
    int64_t revision;
    uint64_t id;
} mf_store_token;

/* Create missing files. Fails: as mf_store_open(). Owns: deinit, also after a failure. */
MF_MUST mf_status mf_store_folder_open(const char *path, mf_store_folder *out);
void mf_store_folder_deinit(mf_store_folder *f);

/* Fails: DATA_LOSS (missing or damaged). Owns: mf_store_state_deinit(), also after a failure. */
MF_MUST mf_status mf_store_folder_read(const mf_store_folder *f, mf_store_token *token,
                                       mf_store_state *state);
/* Replace the state of `token` by `state`. *won false: another process has replaced it. */
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
/* FAILED_PRECONDITION: it has expired. *out (unless NULL): its contents. */
MF_MUST mf_status mf_store_lease_look(const mf_store_folder *f, int64_t id, mf_store_lease *out);
/* For another ttl. FAILED_PRECONDITION. */
MF_MUST mf_status mf_store_lease_renew(const mf_store_folder *f, int64_t id);
/* The lease ends for all processes. */
MF_MUST mf_status mf_store_lease_finish(const mf_store_folder *f, int64_t id);
/* Is its process visible to this one? */
bool mf_store_lease_has_process(const mf_store_folder *f, const mf_store_lease *l);
/* Which of them are held by processes that a signal has stopped, and since when
 * (store_file_stopped.c). */
typedef struct mf_store_stopped_one {
    int64_t lease, until_ns,
        since_ns; /* until: its expiry then; if it has changed, the lease was renewed */
} mf_store_stopped_one;
typedef struct mf_store_stopped {
    pthread_mutex_t lock; /* of all fields below */
    mf_store_stopped_one *all;
    int64_t n;
} mf_store_stopped;

void mf_store_stopped_init(mf_store_stopped *s);
void mf_store_stopped_deinit(mf_store_stopped *s);
/* Is any of them stopped now? */
bool mf_store_stopped_any(const mf_store_folder *f, const mf_store_lease *leases, int n);
/* Call several times a second while one is stopped. Ends the leases whose holders have been stopped
 * without a break for long enough; *ended: raised if there were any. */
MF_MUST mf_status mf_store_stopped_look(mf_store_stopped *s, const mf_store_folder *f,
                                        const mf_store_lease *leases, int n, bool *ended);

/* Files of leases that have ended go. */
void mf_store_leases_sweep(const mf_store_folder *f);
/* Bytes of a file: DATA_LOSS unless they are lease `id`. */
MF_MUST mf_status mf_store_lease_decode(const void *data, size_t len, int64_t id,
                                        mf_store_lease *out);

#endif
