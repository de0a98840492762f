/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cert.c - `meshflow cert`: a private certificate authority, and certificates for tasks on
 * several hosts. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "net/transport_registry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HOSTS = 256, DEFAULT_DAYS = 365, SECONDS_A_DAY = 86400 };

typedef struct request {
    const char *dir;
    const char *hosts[MAX_HOSTS];
    int n_hosts;
    int64_t begin_s, end_s;
    const mf_certificates *maker;
    mf_certificate ca;
    mf_buf *out;
} request;

/* ---- files ---- */

static mf_status cmd_cert_make_directory(const char *path)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "make", path);
    return MF_OK;
}

static mf_status cmd_cert_join(const char *dir, const char *name, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);

    return n > 0 && n < PATH_MAX ? MF_OK : MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is too long", dir);
}

/* Never replaces a file: it may be in use, and a lost key cannot be restored. */
static mf_status cmd_cert_write_file(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    const size_t len = strlen(text);
    ssize_t done;
    int fd;

    MF_TRY(cmd_cert_join(dir, name, path));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST)
        return MF_FAIL(MF_ALREADY_EXISTS, "'%s' exists already and is not overwritten", path);
    if (fd < 0)
        return mf_errno_status(errno, "write", path);
    done = write(fd, text, len);
    if (close(fd) != 0 || done != (ssize_t)len) {
        (void)unlink(path);
        return mf_errno_status(errno ? errno : EIO, "write", path);
    }
    return MF_OK;
}

static bool cmd_cert_exists(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return cmd_cert_join(dir, name, path) == MF_OK && access(path, F_OK) == 0;
}

static mf_status cmd_cert_read_text(const char *dir, const char *name, char **out)
{
    char path[PATH_MAX];
    size_t len;

    MF_TRY(cmd_cert_join(dir, name, path));
    return mf_file_read(path, 1 << 20, out, &len);
}

/* ---- certificates ---- */

/* The authority in the directory, or a new one. */
static mf_status open_authority(request *r)
{
    const mf_certificate_options o = { .name = "Meshflow test authority",
                                       .begin_s = r->begin_s,
                                       .end_s = r->end_s };

    if (cmd_cert_exists(r->dir, "ca.pem")) {
        if (!cmd_cert_exists(r->dir, "ca-key.pem"))
            return MF_FAIL(MF_ALREADY_EXISTS,
                           "'%s' has a ca.pem without its ca-key.pem: choose another directory",
                           r->dir);
        MF_TRY(cmd_cert_read_text(r->dir, "ca.pem", &r->ca.cert));
        return cmd_cert_read_text(r->dir, "ca-key.pem", &r->ca.key);
    }
    MF_TRY(r->maker->make(&o, NULL, &r->ca));
    MF_TRY(cmd_cert_write_file(r->dir, "ca-key.pem", r->ca.key));
    MF_TRY(cmd_cert_write_file(r->dir, "ca.pem", r->ca.cert));
    mf_buf_printf(r->out, "authority    %s/ca.pem, key %s/ca-key.pem\n", r->dir, r->dir);
    return MF_OK;
}

static mf_status make_one(const request *r, const char *dir, const char *task)
{
    const mf_certificate_options o = { .name = task ? task : "meshflow",
                                       .task = task,
                                       .hosts = r->hosts,
                                       .n_hosts = r->n_hosts,
                                       .begin_s = r->begin_s,
                                       .end_s = r->end_s };
    mf_certificate made = { 0 };
    mf_status st = r->maker->make(&o, &r->ca, &made);

    if (st == MF_OK)
        st = cmd_cert_write_file(dir, "key.pem", made.key);
    if (st == MF_OK)
        st = cmd_cert_write_file(dir, "cert.pem", made.cert);
    if (st == MF_OK)
        mf_buf_printf(r->out, "certificate  %s/cert.pem, key %s/key.pem: for %s\n", dir, dir,
                      task ? task : "any task");
    mf_free(made.cert);
    mf_free(made.key);
    return st;
}

/* Runs before any file is created. */
static mf_status check_tasks(mf_args *args)
{
    const char *task;
    int64_t at = 0;

    while ((task = mf_args_next(args, "task", &at)) != NULL) {
        if (task[0] == '\0' || task[0] == '.' || strchr(task, '/'))
            return mf_args_wrong(args, "'%s' is not a valid task name: write --task 'worker 0'",
                                 task);
    }
    return MF_OK;
}

/* A directory with the files that this task needs and no others. */
static mf_status make_for_task(const request *r, const char *task)
{
    char dir[PATH_MAX];

    MF_TRY(cmd_cert_join(r->dir, task, dir));
    for (char *p = dir + strlen(r->dir); *p; p++)
        *p = *p == ' ' ? '-' : *p;
    if (cmd_cert_exists(dir, "cert.pem"))
        return MF_FAIL(MF_ALREADY_EXISTS, "'%s/cert.pem' exists already and is not overwritten",
                       dir);
    MF_TRY(cmd_cert_make_directory(dir));
    MF_TRY(make_one(r, dir, task));
    return cmd_cert_exists(dir, "ca.pem") ? MF_OK : cmd_cert_write_file(dir, "ca.pem", r->ca.cert);
}

/* ---- the command ---- */

static mf_status read_cert_hosts(mf_args *args, request *r, char own[HOST_NAME_MAX + 1])
{
    const char *host;
    int64_t at = 0;

    r->hosts[r->n_hosts++] = "localhost";
    r->hosts[r->n_hosts++] = "127.0.0.1";
    r->hosts[r->n_hosts++] = "::1";
    if (gethostname(own, HOST_NAME_MAX) == 0 && own[0])
        r->hosts[r->n_hosts++] = own;
    while ((host = mf_args_next(args, "host", &at)) != NULL) {
        if (r->n_hosts == MAX_HOSTS)
            return mf_args_wrong(args, "more than %d hosts in one certificate", MAX_HOSTS);
        r->hosts[r->n_hosts++] = host;
    }
    return MF_OK;
}

static mf_status make_all(mf_args *args, const request *r)
{
    const char *task;
    int64_t at = 0;

    if (!mf_args_has(args, "task")) {
        MF_TRY(make_one(r, r->dir, NULL));
        mf_buf_printf(r->out,
                      "\nOn every host:\n  export MESHFLOW_TLS_CA=%s/ca.pem "
                      "MESHFLOW_TLS_CERT=%s/cert.pem MESHFLOW_TLS_KEY=%s/key.pem\n",
                      r->dir, r->dir, r->dir);
        return MF_OK;
    }
    while ((task = mf_args_next(args, "task", &at)) != NULL)
        MF_TRY(make_for_task(r, task));
    mf_buf_printf(r->out, "\nCopy to each task its own directory. Only this command needs "
                          "ca-key.pem, to make more certificates.\n");
    return MF_OK;
}

static mf_status cert_run(mf_args *args)
{
    mf_buf text = { 0 };
    request r = { .dir = mf_args_value(args, "out"), .out = &text };
    char own[HOST_NAME_MAX + 1] = "", until[32];
    int64_t days = DEFAULT_DAYS;
    time_t end;
    mf_status st;

    if (!r.dir)
        return mf_args_wrong(args, "--out is missing: the directory for the certificates");
    MF_TRY(mf_args_int(args, "days", 1, 36500, &days));
    MF_TRY(check_tasks(args));
    MF_TRY(read_cert_hosts(args, &r, own));
    r.begin_s = mf_clock_wall_ns() / 1000000000 - 300; /* tolerates clocks that are slightly behind
                                                        */
    r.end_s = r.begin_s + days * SECONDS_A_DAY;
    st = mf_certificates_find(&r.maker);
    if (st == MF_OK)
        st = cmd_cert_make_directory(r.dir);
    if (st == MF_OK)
        st = open_authority(&r);
    if (st == MF_OK)
        st = make_all(args, &r);
    end = (time_t)r.end_s;
    (void)strftime(until, sizeof until, "%Y-%m-%d", gmtime(&end));
    if (st == MF_OK) {
        mf_buf_printf(&text, "Valid until %s.\n", until);
        st = mf_cli_print(&text);
    }
    mf_buf_deinit(&text);
    mf_free(r.ca.cert);
    mf_free(r.ca.key);
    return st;
}

static const mf_option options[] = {
    { .name = "out",
      .value = "DIR",
      .help = "directory for the certificates; created if it does "
              "not exist" },
    { .name = "host",
      .value = "NAME",
      .help = "name or address of another host that tasks run on",
      .many = true },
    { .name = "task",
      .value = "NAME",
      .help = "make a certificate for this task alone, e.g. 'worker 0', in DIR/worker-0",
      .many = true },
    { .name = "days", .value = "N", .help = "days that certificates are valid (default: 365)" },
    { 0 },
};

const mf_command mf_command_cert = {
    .name = "cert",
    .arguments = "",
    .summary = "make certificates for tasks on several hosts",
    .about =
        "Tasks on different hosts communicate over TLS, and each presents a certificate. This "
        "command makes these certificates and the authority that signs them (ca.pem, "
        "ca-key.pem). The authority is for one job: every task with a certificate of it may "
        "join. An authority that exists in the directory is used again.\n\nWithout --task all "
        "tasks share one certificate. With --task each task has its own, and a task that claims "
        "to be another one is rejected.\n\nFiles are never overwritten, and only this user can "
        "read them.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow cert --out tls --host node1 --host 10.0.0.2",
                               "meshflow cert --out tls --task 'worker 0' --host node1", NULL },
    .run = cert_run,
};
