/* SPDX-License-Identifier: Apache-2.0 */
/* output_lock.h - one training writes to an output directory at a time, and recognizes its own
 * files.
 *
 *     DIR/run        the run that the files belong to, and the job that wrote last
 *     DIR/run.lock   the current writer; exists only while it writes
 *
 * A *run* is one training from its first step on, with all its resumptions: its id is in the
 * checkpoints, events and the ledger as well. A *job* is one attempt at it, with all restarts of
 * its tasks: they pass the lock on and need no --resume.
 *
 * The lock works on any file system that all hosts share: link() creates it, which succeeds for one
 * process only, and its holder renews its modification time. A dead holder on the same host is
 * recognized at once by its process number and start time; on another host when it was not renewed
 * for a lease. Times are those of the file system, so clocks need not agree. */
#ifndef MF_TRAIN_CHECKPOINT_OUTPUT_LOCK_H
#define MF_TRAIN_CHECKPOINT_OUTPUT_LOCK_H

#include "base/status.h"

enum { MF_RUN_ID = 17, MF_JOB_ID = 96 }; /* with the zero at the end */

#define MF_RUN_FILE "run"
#define MF_RUN_NAME "_meshflow/run" /* of the id in a checkpoint */
#define MF_LOCK_FILE "run.lock"

typedef struct mf_output_lock mf_output_lock;

typedef struct mf_output_lock_options {
    const char *dir; /* created if it does not exist */
    const char *job; /* id of this job: mf_job_id() */
    bool resume; /* continue the existing run */
    bool overwrite; /* remove the existing run */
    bool again; /* this job may have written there before: then it continues */
    bool take_over; /* even while another process of this job holds the lock */
} mf_output_lock_options;

/* Fails: INVALID_ARGUMENT (a run exists, and neither `resume` nor `overwrite` is set),
 * ALREADY_EXISTS (another job writes there; the message names the process). Owns:
 * mf_output_lock_release(). */
MF_MUST mf_status mf_output_lock_take(const mf_output_lock_options *o, mf_output_lock **out);
/* May be NULL. */
void mf_output_lock_release(mf_output_lock *c);
/* ABORTED: another process has taken the lock. */
MF_MUST mf_status mf_output_lock_check(const mf_output_lock *c);
/* Is the existing run continued? By request, or because this job wrote it. */
bool mf_output_lock_continues(const mf_output_lock *c);
const char *mf_output_lock_run(const mf_output_lock *c);

/* Of this process's job: MESHFLOW_JOB_ID, which launchers and daemons set, otherwise a random one.
 */
void mf_job_id(char out[MF_JOB_ID]);
/* Does this process replace an earlier one of the same task? (MESHFLOW_RESTARTS) */
bool mf_job_is_restarted(void);
/* This process was, and its job has written the run that is in `dir`: it continues that. */
bool mf_output_lock_is_restart(const char *dir);

/* ---- the files of a run (output_files.c) ---- */

typedef struct mf_run_files {
    int64_t checkpoints, newest_step; /* 0 and -1: none */
    bool others; /* a ledger or events */
} mf_run_files;

MF_MUST mf_status mf_run_files_look(const char *dir, mf_run_files *out);
/* The run of the newest readable checkpoint; "": none is recorded. */
MF_MUST mf_status mf_run_files_id(const char *dir, char run[MF_RUN_ID]);
/* Remove the files of Meshflow's trainings. Checkpoints and events of other programs stay. */
MF_MUST mf_status mf_run_files_remove(const char *dir);

#endif
