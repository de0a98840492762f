/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - findings of `meshflow doctor`, and the files that check. */
#ifndef MF_CLI_DOCTOR_H
#define MF_CLI_DOCTOR_H

#include "cli/command.h"
#include "cli/probe.h"
#include "tf_server/task_table.h"

typedef enum mf_verdict { MF_VERDICT_OK, MF_VERDICT_WARNING, MF_VERDICT_BAD } mf_verdict;

typedef struct mf_finding {
    mf_verdict verdict;
    const char *what; /* one word: "port", "clock" */
    const char *place; /* "cluster.worker[1] (b:2222)" */
    const char *text;
    const char *fix; /* NULL: no action is needed */
} mf_finding;

typedef struct mf_doctor {
    mf_args *args;
    mf_arena *arena; /* of all strings */
    mf_finding *findings;
    int64_t n, cap;
    mf_server_tasks tasks; /* n 0: no cluster */
    bool cluster; /* a cluster was given */
    mf_probe_options probe;
    char *paths; /* strings of its security settings */
    bool no_memory; /* sticky */
} mf_doctor;

/* place and fix may be NULL. */
void mf_doctor_report(mf_doctor *d, mf_verdict verdict, const char *what, const char *place,
                      const char *fix, const char *fmt, ...) MF_PRINTF(6, 7);
/* A formatted string in the arena. */
const char *mf_doctor_place(mf_doctor *d, const char *fmt, ...) MF_PRINTF(2, 3);
/* "cluster.worker[1] (b:2222)" */
const char *mf_doctor_task(mf_doctor *d, int task);

void mf_doctor_check_host(mf_doctor *d); /* plugins, threads, files, disks: doctor_host.c */
void mf_doctor_check_certificates(mf_doctor *d); /* doctor_host.c */
void mf_doctor_check_spec(mf_doctor *d); /* doctor_spec.c */
bool mf_doctor_has_port(const char *address); /* a number, and not 0 */
void mf_doctor_check_tasks(mf_doctor *d); /* doctor_tasks.c */

#endif
