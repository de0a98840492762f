/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_spec.c - checks of the description of a cluster; no task is contacted. */
#include "base/did_you_mean.h"
#include "cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    char *end;
    const long port = colon ? strtol(colon + 1, &end, 10) : -1;

    return colon && colon[1] && !*end && port >= 0 && port <= 65535 ? (int)port : -1;
}

bool mf_doctor_has_port(const char *address)
{
    return port_of(address) > 0;
}

static bool doctor_spec_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

/* ---- ports ---- */

static void outgoing_ports(int *from, int *to)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

    *from = *to = -1;
    if (!f)
        return;
    if (fscanf(f, "%d %d", from, to) != 2)
        *from = *to = -1;
    (void)fclose(f);
}

static void doctor_check_port(mf_doctor *d, int i)
{
    const int port = port_of(d->tasks.all[i].address);
    const char *place = mf_doctor_task(d, i);
    int from, to;

    outgoing_ports(&from, &to);
    if (port < 0)
        mf_doctor_report(d, MF_VERDICT_BAD, "port", place,
                         "write host:port, a port from 1 to 65535", "the port is invalid");
    else if (port == 0 && d->tasks.n > 1)
        mf_doctor_report(d, MF_VERDICT_BAD, "port", place, "give the task a port of its own",
                         "port 0 means any free port: the other tasks do not know which");
    else if (port > 0 && port < 1024 && geteuid() != 0)
        mf_doctor_report(d, MF_VERDICT_WARNING, "port", place, "use a port from 1024 on",
                         "only root can listen at port %d", port);
    else if (port >= from && port <= to)
        mf_doctor_report(d, MF_VERDICT_WARNING, "port", place,
                         mf_doctor_place(d, "use a port below %d", from),
                         "the system uses ports %d to %d for outgoing connections, so the port may "
                         "be in use when the task starts",
                         from, to);
}

/* ---- addresses ---- */

static void check_duplicate_address(mf_doctor *d, int i)
{
    for (int k = 0; k < i; k++) {
        if (strcmp(d->tasks.all[k].address, d->tasks.all[i].address) == 0 &&
            port_of(d->tasks.all[i].address) != 0)
            mf_doctor_report(
                d, MF_VERDICT_BAD, "address", mf_doctor_task(d, i), "give one of them another port",
                "/job:%s/task:%d has the same address", d->tasks.all[k].job, d->tasks.all[k].index);
    }
}

static void doctor_check_loopback(mf_doctor *d)
{
    int n = 0;

    for (int i = 0; i < d->tasks.n; i++)
        n += doctor_spec_is_loopback(d->tasks.all[i].address);
    for (int i = 0; i < d->tasks.n && n > 0 && n < d->tasks.n; i++) {
        if (doctor_spec_is_loopback(d->tasks.all[i].address))
            mf_doctor_report(
                d, MF_VERDICT_BAD, "address", mf_doctor_task(d, i),
                "use the name by which other hosts reach this host",
                "it is a loopback address, and %d tasks are elsewhere: each would look "
                "for this task on its own host",
                d->tasks.n - n);
    }
}

/* ---- jobs ---- */

/* "workers" instead of "worker": TensorFlow programs expect the usual names. */
static void doctor_check_job(mf_doctor *d, int i)
{
    static const char *const usual[] = { "worker", "ps", "chief", "evaluator", "local" };
    mf_did_you_mean close = mf_did_you_mean_to(d->tasks.all[i].job);

    for (int k = 0; k < MF_COUNT(usual); k++) {
        if (strcmp(usual[k], d->tasks.all[i].job) == 0)
            return;
        mf_did_you_mean_try(&close, usual[k]);
    }
    if (close.best)
        mf_doctor_report(d, MF_VERDICT_WARNING, "job",
                         mf_doctor_place(d, "cluster.%s", d->tasks.all[i].job),
                         mf_doctor_place(d, "call it \"%s\"", close.best),
                         "programs expect a job '%s'", close.best);
}

static bool doctor_spec_is_first(const mf_server_tasks *t, int i)
{
    return i == 0 || strcmp(t->all[i - 1].job, t->all[i].job) != 0;
}

void mf_doctor_check_spec(mf_doctor *d)
{
    const int64_t before = d->n;

    for (int i = 0; i < d->tasks.n; i++) {
        if (doctor_spec_is_first(&d->tasks, i))
            doctor_check_job(d, i);
        doctor_check_port(d, i);
        check_duplicate_address(d, i);
    }
    doctor_check_loopback(d);
    if (d->n == before)
        mf_doctor_report(d, MF_VERDICT_OK, "cluster", NULL, NULL, "%d task%s, no mistakes",
                         d->tasks.n, d->tasks.n == 1 ? "" : "s");
}
