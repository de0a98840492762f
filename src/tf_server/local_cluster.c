/* SPDX-License-Identifier: Apache-2.0 */
/* local_cluster.c - several tasks of a cluster in one process. See <meshflow/server.h>. */
#include "base/buf.h"
#include "base/host_state.h"
#include "base/mem.h"
#include "tf_server/server.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TASKS_MAX = 1000 };

struct mf_local_cluster {
    mf_server **servers; /* the local tasks, in the cluster's order */
    int n;
    mf_buf spec;
};

/* ---- "worker=2,ps=1" ---- */

static mf_status local_cluster_add_job(const char *item, size_t len, mf_buf *out)
{
    const char *equals = memchr(item, '=', len);
    char *end = NULL;
    const long n = equals ? strtol(equals + 1, &end, 10) : 0;

    if (!equals || end != item + len || n < 1 || n > TASKS_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%.*s': write the number of tasks of each job, as in worker=2,ps=1",
                       (int)(len < 60 ? len : 60), item);
    mf_buf_str(out, out->len > 1 ? ", " : "");
    mf_buf_json(out, item, (size_t)(equals - item));
    mf_buf_str(out, ": [");
    for (long i = 0; i < n; i++)
        mf_buf_str(out, i > 0 ? ", \"127.0.0.1:0\"" : "\"127.0.0.1:0\"");
    mf_buf_str(out, "]");
    return MF_OK;
}

static mf_status describe_jobs(const char *jobs, mf_buf *out)
{
    mf_buf_str(out, "{");
    for (const char *at = jobs;; at++) {
        const size_t len = strcspn(at, ",");

        MF_TRY(local_cluster_add_job(at, len, out));
        at += len;
        if (*at == '\0')
            break;
    }
    mf_buf_str(out, "}");
    return mf_buf_finish(out);
}

/* ---- local tasks ---- */

/* A task is local if this host can listen at its address. */
static bool local_cluster_is_here(const mf_server_task *t)
{
    const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(t->address, ':');
    const bool brackets = t->address[0] == '[' && colon > t->address && colon[-1] == ']';
    struct addrinfo *at = NULL;
    char host[256];
    bool bound = false;
    int fd;

    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - t->address) - 2 * brackets,
                   t->address + brackets);
    if (getaddrinfo(host, "0", &wanted, &at) != 0)
        return false;
    fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        bound = bind(fd, at->ai_addr, at->ai_addrlen) == 0;
        (void)close(fd);
    }
    freeaddrinfo(at);
    return bound;
}

static mf_status open_task(mf_local_cluster *c, const char *text, const mf_server_task *t,
                           const mf_server_options *options)
{
    mf_server_options o = *options;
    char index[16];
    mf_server *s;

    (void)snprintf(index, sizeof index, "%d", t->index);
    o.cluster = text;
    o.job_name = t->job;
    o.task_index = index;
    MF_TRY(mf_server_new(&o, &s));
    c->servers[c->n++] = s;
    return MF_OK;
}

static mf_status open_tasks(mf_local_cluster *c, const char *text, bool all,
                            const mf_server_options *options)
{
    mf_server_tasks tasks = { 0 };
    mf_status st = mf_server_tasks_list(text, &tasks);

    if (st == MF_OK && tasks.n > TASKS_MAX)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%d tasks exceed the maximum of one process", tasks.n);
    if (st == MF_OK) {
        c->servers = mf_calloc(tasks.n, sizeof(mf_server *));
        st = c->servers ? MF_OK : MF_NOMEM("servers");
    }
    for (int i = 0; st == MF_OK && i < tasks.n; i++) {
        if (all || local_cluster_is_here(&tasks.all[i]))
            st = open_task(c, text, &tasks.all[i], options);
    }
    if (st == MF_OK && c->n == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "none of the cluster's %d tasks is on this host (the first is at %s): start "
                     "it on their hosts, or correct their addresses",
                     tasks.n, tasks.all[0].address);
    mf_server_tasks_deinit(&tasks);
    return st;
}

/* Passes on the ports, which are known now. */
static mf_status introduce(mf_local_cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        for (int j = 0; j < c->n; j++) {
            if (i != j)
                MF_TRY(mf_server_tasks_move(&c->servers[i]->tasks, c->servers[j]->tasks.self,
                                            mf_server_self(c->servers[j])->address));
        }
    }
    return MF_OK;
}

/* A JSON list, or an object by index if tasks are missing. */
static void describe_job(const mf_server_task *tasks, int n, mf_buf *out)
{
    bool list = true;

    for (int i = 0; i < n; i++)
        list = list && tasks[i].index == i;
    mf_buf_printf(out, "\"%s\": %s", tasks[0].job, list ? "[" : "{");
    for (int i = 0; i < n; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        if (!list)
            mf_buf_printf(out, "\"%d\": ", tasks[i].index);
        mf_buf_json(out, tasks[i].address, strlen(tasks[i].address));
    }
    mf_buf_str(out, list ? "]" : "}");
}

static mf_status local_cluster_describe(mf_local_cluster *c)
{
    const mf_server_tasks *t = &c->servers[0]->tasks;

    mf_buf_str(&c->spec, "{");
    for (int i = 0, n; i < t->n; i += n) {
        for (n = 1; i + n < t->n && strcmp(t->all[i + n].job, t->all[i].job) == 0;)
            n++;
        mf_buf_str(&c->spec, i > 0 ? ", " : "");
        describe_job(&t->all[i], n, &c->spec);
    }
    mf_buf_str(&c->spec, "}");
    return mf_buf_finish(&c->spec);
}

/* ---- opening and closing ---- */

mf_status mf_local_cluster_new(const char *jobs, const mf_server_options *options,
                               mf_local_cluster **out)
{
    MF_ENTRY;
    MF_NEED(out);
    if (!options)
        MF_NEED(jobs);
    else
        MF_NEED_ALL(options->allow_dirs, options->n_allow_dirs);

    const mf_server_options none = { 0 };
    mf_local_cluster *c = mf_calloc(1, sizeof *c);
    mf_buf text = { 0 };
    mf_status st = c ? MF_OK : MF_NOMEM("servers");
    mf_error why;

    *out = NULL;
    if (st == MF_OK && jobs)
        st = describe_jobs(jobs, &text);
    options = options ? options : &none;
    if (st == MF_OK)
        st = open_tasks(c, jobs ? text.data : options->cluster, jobs != NULL, options);
    if (st == MF_OK)
        st = introduce(c);
    if (st == MF_OK)
        st = local_cluster_describe(c);
    mf_error_save(st, &why);
    mf_buf_deinit(&text);
    if (st != MF_OK) {
        mf_local_cluster_free(c);
        return mf_error_restore(&why);
    }
    *out = c;
    return MF_OK;
}

const char *mf_local_cluster_spec(const mf_local_cluster *cluster)
{
    return cluster ? cluster->spec.data : NULL;
}

const char *mf_local_cluster_target(const mf_local_cluster *cluster, const char *job, int index)
{
    MF_ENTRY_OR(NULL);
    if (!cluster || !job)
        return NULL;

    for (int i = 0; i < cluster->n; i++) {
        const mf_server_task *self = mf_server_self(cluster->servers[i]);

        if (self->index == index && strcmp(self->job, job) == 0)
            return mf_server_target(cluster->servers[i]);
    }
    return NULL;
}

void mf_local_cluster_join(mf_local_cluster *cluster)
{
    MF_ENTRY_OR();
    if (!cluster)
        return;

    for (int i = 0; i < cluster->n; i++)
        mf_server_join(cluster->servers[i]);
}

void mf_local_cluster_stop(mf_local_cluster *cluster)
{
    MF_ENTRY_OR();
    if (!cluster)
        return;

    for (int i = 0; i < cluster->n; i++)
        mf_server_stop(cluster->servers[i]);
}

void mf_local_cluster_free(mf_local_cluster *cluster)
{
    MF_ENTRY_OR();

    if (!cluster)
        return;
    for (int i = 0; i < cluster->n; i++)
        mf_server_free(cluster->servers[i]);
    mf_free(cluster->servers);
    mf_buf_deinit(&cluster->spec);
    mf_free(cluster);
}
