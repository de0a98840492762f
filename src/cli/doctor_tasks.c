/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_tasks.c - checks of the tasks: reachable, the right task, its version, its clock. */
#include "cli/doctor.h"

#include <meshflow/version.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double CLOCK_S = 1.0; /* a larger difference is a warning */

static const char *fix_of(mf_doctor *d, const mf_probe *p, const char *address)
{
    if (p->reached == MF_PROBE_NOTHING)
        return "correct the name, or add it to DNS or /etc/hosts on every host";
    if (p->reached == MF_PROBE_PORT && p->status == MF_FAILED_PRECONDITION)
        return "give --tls-dir, or --insecure-any-peer if the network is trusted";
    if (p->reached == MF_PROBE_PORT)
        return "find out what listens there (ss -ltnp); TLS on one side only and certificates of "
               "two authorities also look like this";
    return p->status == MF_DEADLINE_EXCEEDED
               ? mf_doctor_place(d, "a firewall may drop packets to %s, or the host is off",
                                 address)
               : "start the task there, or correct its address";
}

static void report_unreachable(mf_doctor *d, const char *place, const mf_probe *p,
                               const char *address)
{
    static const char *const what[] = { "host", "task", "task", "task" };
    static const char *const text[] = { "its host name does not resolve", "no server listens there",
                                        "what listens there is not a server", "" };

    mf_doctor_report(d, MF_VERDICT_BAD, what[p->reached], place, fix_of(d, p, address), "%s: %s",
                     text[p->reached], p->why);
}

/* On Debian a host often resolves its own name to 127.0.1.1. */
static void check_resolved_address(mf_doctor *d, const char *place, const mf_probe *p,
                                   const char *address)
{
    if (p->loopback && strncmp(address, "127.", 4) != 0 && strncmp(address, "localhost", 9) != 0 &&
        strncmp(address, "[::1]", 5) != 0)
        mf_doctor_report(d, MF_VERDICT_WARNING, "host", place,
                         "give this host its real address in /etc/hosts",
                         "its name resolves to %s here: other hosts cannot reach a server at this "
                         "address",
                         p->numbers);
}

static void doctor_check_name(mf_doctor *d, int i, const char *place, const mf_probe *p)
{
    const mf_server_task *t = &d->tasks.all[i];

    if (p->task[0] && strcmp(p->task, t->name) != 0)
        mf_doctor_report(d, MF_VERDICT_BAD, "task", place,
                         "start each task with the same cluster and its own job and index",
                         "the server there reports that it is %s", p->task);
}

static void doctor_check_version(mf_doctor *d, const char *place, const mf_probe *p)
{
    if (strncmp(p->system, "Meshflow ", 9) == 0 && strcmp(p->system + 9, MESHFLOW_VERSION) != 0)
        mf_doctor_report(d, MF_VERDICT_WARNING, "version", place,
                         "install the same version on all hosts", "it is %s, this is %s",
                         p->system + 9, MESHFLOW_VERSION);
}

static void doctor_tasks_check_clock(mf_doctor *d, const char *place, const mf_probe *p)
{
    const bool apart = fabs(p->ahead_s) - p->ahead_error_s > CLOCK_S;

    if (p->has_clock)
        mf_doctor_report(d, apart ? MF_VERDICT_WARNING : MF_VERDICT_OK, "clock", place,
                         apart ? "let both hosts follow a time server (chrony, systemd-timesyncd)"
                               : NULL,
                         "%.3f s %s this clock, within %.3f s", fabs(p->ahead_s),
                         p->ahead_s < 0 ? "behind" : "ahead of", p->ahead_error_s);
}

/* Tries to listen at this task's own address. */
static void check_listening(mf_doctor *d, const char *place, const char *address)
{
    const int error = mf_probe_listen(address);

    if (!error)
        mf_doctor_report(d, MF_VERDICT_OK, "port", place, NULL, "this task can listen there");
    else
        mf_doctor_report(d, MF_VERDICT_BAD, "port", place,
                         error == EADDRNOTAVAIL
                             ? "start the task on the host that has this address, or "
                               "correct the address"
                             : "use another port",
                         "this task cannot listen there: %s", strerror(error));
}

void mf_doctor_check_tasks(mf_doctor *d)
{
    for (int i = 0; i < d->tasks.n; i++) {
        const char *address = d->tasks.all[i].address, *place = mf_doctor_task(d, i);
        mf_probe p;

        if (!mf_doctor_has_port(address))
            continue; /* reported already */
        mf_probe_task(address, &d->probe, &p);
        check_resolved_address(d, place, &p, address);
        if (i == d->tasks.self && p.reached == MF_PROBE_HOST) {
            check_listening(d, place, address);
            continue;
        }
        if (p.reached != MF_PROBE_SERVER) {
            report_unreachable(d, place, &p, address);
            continue;
        }
        mf_doctor_report(d, MF_VERDICT_OK, "task", place, NULL,
                         "%s, %d device%s; connected in %.1f ms, answered in %.1f ms",
                         p.system[0] ? p.system : "a server", p.n_devices,
                         p.n_devices == 1 ? "" : "s", p.connect_ms, p.answer_ms);
        doctor_check_name(d, i, place, &p);
        doctor_check_version(d, place, &p);
        doctor_tasks_check_clock(d, place, &p);
    }
}
