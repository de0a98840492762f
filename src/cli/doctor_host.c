/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_host.c - checks of this host. */
#include "base/clock.h"
#include "base/file.h"
#include "base/machine_limits.h"
#include "cli/doctor.h"
#include "net/transport_registry.h"
#include "rpc/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FEW_FILES = 1024, SOON_DAYS = 14 };
static const double GIB = 1024.0 * 1024 * 1024;

/* ---- the program ---- */

static void doctor_check_program(mf_doctor *d)
{
    const mf_rpc_kind *rpc;
    const char *why;
    const int threads = mf_default_threads(&why);
    struct rlimit files;

    if (mf_rpc_find(&rpc) == MF_OK)
        mf_doctor_report(d, MF_VERDICT_OK, "plugin", "grpc", NULL, "it is usable");
    else
        mf_doctor_report(d, MF_VERDICT_BAD, "plugin", "grpc",
                         "install the missing library, or rebuild", "%s", mf_error_message());
    mf_doctor_report(d, MF_VERDICT_OK, "threads", NULL, NULL, "%d, by %s", threads, why);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FEW_FILES)
        mf_doctor_report(d, MF_VERDICT_WARNING, "files", NULL, "ulimit -n 65536",
                         "the limit of open files is %llu: a server needs one for each connection",
                         (unsigned long long)files.rlim_cur);
}

/* ---- disks ---- */

static void doctor_check_disk(mf_doctor *d, const char *what, const char *dir)
{
    struct statvfs fs;
    double free, share;

    if (statvfs(dir, &fs) != 0 || access(dir, W_OK | X_OK) != 0) {
        mf_doctor_report(
            d, MF_VERDICT_BAD, "disk", dir,
            mf_doctor_place(d, errno == ENOENT ? "mkdir -p %s" : "chmod u+rwx %s", dir), "%s: %s",
            what, strerror(errno));
        return;
    }
    free = (double)fs.f_bavail * (double)fs.f_frsize;
    share = fs.f_blocks ? free / ((double)fs.f_blocks * (double)fs.f_frsize) : 1;
    if (free < GIB || (fs.f_files > 0 && fs.f_favail < 1000))
        mf_doctor_report(d, MF_VERDICT_WARNING, "disk", dir,
                         "free some space, or choose another "
                         "folder",
                         "%s: only %.2f GiB (%.0f %%) and %llu files are free", what, free / GIB,
                         share * 100, (unsigned long long)fs.f_favail);
    else
        mf_doctor_report(d, MF_VERDICT_OK, "disk", dir, NULL, "%s: %.1f GiB free (%.0f %%)", what,
                         free / GIB, share * 100);
}

void mf_doctor_check_host(mf_doctor *d)
{
    const char *dir;
    int64_t at = 0;

    doctor_check_program(d);
    doctor_check_disk(d, "shared memory between tasks", "/dev/shm");
    while ((dir = mf_args_next(d->args, "dir", &at)) != NULL)
        doctor_check_disk(d, "files of graphs", dir);
}

/* ---- certificates ---- */

static void doctor_host_check_expiry(mf_doctor *d, const char *path)
{
    const mf_certificates *c;
    int64_t end;
    size_t len;
    char *pem = NULL;
    double days;

    if (mf_certificates_find(&c) == MF_OK && mf_file_read(path, 1 << 20, &pem, &len) == MF_OK &&
        c->ends(pem, &end) == MF_OK) {
        days = ((double)end - (double)mf_clock_wall_ns() / 1e9) / 86400;
        mf_doctor_report(d, days < SOON_DAYS ? MF_VERDICT_WARNING : MF_VERDICT_OK, "certificate",
                         path, days < SOON_DAYS ? "make a new one with meshflow cert" : NULL,
                         days < 0 ? "it expired %.1f days ago" : "it is valid for %.1f more days",
                         days < 0 ? -days : days);
    }
    mf_free(pem);
}

static void doctor_check_key(mf_doctor *d, const char *path)
{
    struct stat s;

    if (stat(path, &s) == 0 && (s.st_mode & 077) != 0)
        mf_doctor_report(d, MF_VERDICT_BAD, "certificate", path,
                         mf_doctor_place(d, "chmod 600 %s", path),
                         "other users can read this key (mode %o)", (unsigned)(s.st_mode & 0777));
}

/* Opening a channel reads the local files and does not connect yet. */
void mf_doctor_check_certificates(mf_doctor *d)
{
    const mf_security *s = &d->probe.security;
    const mf_rpc_kind *rpc;
    mf_rpc_channel *c;

    if (!s->ca && !s->cert && !s->key) {
        mf_doctor_report(d, MF_VERDICT_OK, "certificate", NULL, NULL,
                         "none: only tasks of this user on this host are accepted");
        return;
    }
    if (mf_rpc_find(&rpc) != MF_OK)
        return;
    if (rpc->connect("127.0.0.1:1", s, &c) != MF_OK) {
        mf_doctor_report(d, MF_VERDICT_BAD, "certificate", s->cert ? s->cert : s->ca,
                         "meshflow cert --out DIR --host NAME", "%s", mf_error_message());
    } else {
        rpc->disconnect(c);
        mf_doctor_report(d, MF_VERDICT_OK, "certificate", s->cert, NULL,
                         "it matches its key, and %s has signed it", s->ca);
    }
    if (s->cert)
        doctor_host_check_expiry(d, s->cert);
    if (s->key)
        doctor_check_key(d, s->key);
}
