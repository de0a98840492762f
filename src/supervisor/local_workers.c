/* SPDX-License-Identifier: Apache-2.0 */
/* local_workers.c - adds workers to, and removes workers from, a running job on this host. The
 * kernel knows how a running worker of this host and user was started; a new worker is started in
 * the same way. */
#include "supervisor/local_workers.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int mf_worker_index(const char *task)
{
    int index, end = 0;

    return sscanf(task, "worker %d%n", &index, &end) == 1 && task[end] == '\0' ? index : -1;
}

bool mf_worker_is_here(const mf_status_page_seen *t)
{
    return t->alive && !mf_job_view_is_kept(t) && mf_worker_index(t->page.task) >= 0;
}

int mf_workers_count(const mf_job_view_job *job)
{
    int n = 0;

    for (int i = 0; i < job->n; i++)
        n += mf_worker_is_here(&job->tasks[i]);
    return n;
}

/* A worker that does not train yet has no weights: if all workers that train left, the job would
 * end. */
static int64_t place_in_leaving(const mf_status_page_seen *t)
{
    const bool is_new = t->page.phase == MF_PHASE_START || t->page.phase == MF_PHASE_LOAD;

    return mf_worker_index(t->page.task) + (is_new ? INT64_C(1) << 32 : 0);
}

const mf_status_page_seen *mf_worker_to_leave(const mf_job_view_job *job,
                                              const mf_status_page_seen *before)
{
    const mf_status_page_seen *first = NULL;

    for (int i = 0; i < job->n; i++) {
        const mf_status_page_seen *t = &job->tasks[i];

        if (mf_worker_is_here(t) && (!before || place_in_leaving(t) < place_in_leaving(before)) &&
            (!first || place_in_leaving(t) > place_in_leaving(first)))
            first = t;
    }
    return first;
}

mf_status mf_worker_leave(const mf_status_page_seen *t)
{
    if (mf_job_view_is_kept(t))
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s is on %s; run the command there", t->page.task,
                       t->page.host);
    if (mf_worker_index(t->page.task) < 0)
        return MF_FAIL(
            MF_FAILED_PRECONDITION,
            "%s is not a worker, and only workers leave; a server may be killed at any time",
            t->page.task);
    if (!mf_status_page_is_alive(t) || kill((pid_t)t->page.pid, SIGTERM) != 0)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s has already exited", t->page.task);
    return MF_OK;
}

/* ---- the environment of a new worker ---- */

static const char *local_workers_find_variable(const mf_proc_cmdline *env, const char *name)
{
    const size_t n = strlen(name);

    for (int64_t i = 0; env->list[i]; i++) {
        if (strncmp(env->list[i], name, n) == 0 && env->list[i][n] == '=')
            return env->list[i] + n + 1;
    }
    return NULL;
}

/* Replaces the variable if it is set; line NULL: removes it. */
static void local_workers_set_variable(mf_proc_cmdline *env, const char *name, char *line)
{
    const size_t n = strlen(name);
    int64_t to = 0;

    for (int64_t i = 0; env->list[i]; i++) {
        if (strncmp(env->list[i], name, n) != 0 || env->list[i][n] != '=')
            env->list[to++] = env->list[i];
    }
    if (line)
        env->list[to++] = line;
    env->list[to] = NULL;
}

/* ---- options of its command ---- */

/* True if this word is the option. *value: the text after its '='; NULL: the next word is the
 * value. */
static bool local_workers_is_option(const char *word, const char *name, const char **value)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    for (word += 2; *name && (*word == *name || (*word == '_' && *name == '-')); word++)
        name++;
    *value = *word == '=' ? word + 1 : NULL;
    return !*name && (*word == '=' || !*word);
}

static const char *local_workers_find_option(const mf_proc_cmdline *command, const char *name)
{
    const char *value;

    for (int64_t i = 0; command->list[i]; i++) {
        if (local_workers_is_option(command->list[i], name, &value))
            return value ? value : command->list[i + 1];
    }
    return NULL;
}

static void drop_option(mf_proc_cmdline *command, const char *name)
{
    const char *value;
    int64_t to = 0;

    for (int64_t i = 0; command->list[i]; i++) {
        if (!local_workers_is_option(command->list[i], name, &value))
            command->list[to++] = command->list[i];
        else if (!value && command->list[i + 1])
            i++;
    }
    command->list[to] = NULL;
}

/* A free port on this address of the host. */
static mf_status local_workers_find_port(const char *host, mf_buf *out)
{
    const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *at = NULL;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } got = { 0 };
    socklen_t len = sizeof got;
    const int found = getaddrinfo(host, "0", &wanted, &at);
    const int fd = found == 0 ? socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    const bool bound = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                       getsockname(fd, &got.any, &len) == 0;
    const int port =
        !bound ? 0 : ntohs(got.any.sa_family == AF_INET6 ? got.v6.sin6_port : got.v4.sin_port);

    if (at)
        freeaddrinfo(at);
    if (fd >= 0)
        (void)close(fd);
    if (!bound)
        return MF_FAIL(MF_UNAVAILABLE, "there is no free port at %s: %s", host,
                       found != 0 ? gai_strerror(found) : strerror(errno));
    mf_buf_printf(out, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return mf_buf_finish(out);
}

/* "a:1,b:2" as a JSON list; NULL: no hosts. */
static json_t *list_of(const char *hosts)
{
    json_t *list = hosts ? json_array() : NULL;

    while (list && *hosts) {
        const size_t n = strcspn(hosts, ",");

        (void)json_array_append_new(list, json_stringn(hosts, n));
        hosts += n + (hosts[n] == ',');
    }
    return list;
}

/* TF_CONFIG, or the same from options. Owns: json_decref(). */
static json_t *local_workers_read_cluster(const mf_recipe *r)
{
    const char *given = local_workers_find_option(&r->command, "cluster");
    const char *config = local_workers_find_variable(&r->env, "TF_CONFIG");
    json_t *all = given && given[0] != '{' ? json_load_file(given, 0, NULL)
                  : given || config        ? json_loads(given ? given : config, 0, NULL)
                                           : NULL;
    json_t *cluster = json_incref(json_object_get(all, "cluster"));

    if (!cluster)
        return all;
    json_decref(all);
    return cluster;
}

/* The new worker alone, and the servers of the old configuration. */
static mf_status make_config(const mf_recipe *r, int index, const char *address, mf_buf *out)
{
    json_t *old = local_workers_read_cluster(r),
           *listed = list_of(local_workers_find_option(&r->command, "ps-hosts"));
    json_t *ps = listed ? listed : json_object_get(old, "ps");
    char number[16];
    json_t *config;
    char *text;

    (void)snprintf(number, sizeof number, "%d", index);
    config = json_pack("{s{s{ss}} s{ss si}}", "cluster", "worker", number, address, "task", "type",
                       "worker", "index", index);
    if (ps)
        (void)json_object_set(json_object_get(config, "cluster"), "ps", ps);
    text = config ? json_dumps(config, JSON_COMPACT) : NULL;
    mf_buf_printf(out, "TF_CONFIG=%s", text ? text : "");
    free(text);
    json_decref(config);
    json_decref(listed);
    json_decref(old);
    return text ? mf_buf_finish(out) : MF_NOMEM("a command");
}

/* ---- recipes ---- */

/* The target of the link; NULL: no link, or no memory. */
static char *read_link(const char *path)
{
    char text[4096];
    const ssize_t n = readlink(path, text, sizeof text - 1);

    if (n < 0)
        return NULL;
    text[n] = '\0';
    return mf_strdup(text);
}

mf_status mf_recipe_read(const mf_job_view_job *job, mf_recipe *out)
{
    const mf_status_page_seen *like = NULL;
    char exe[64], cwd[64];

    *out = (mf_recipe){ 0 };
    for (int i = 0; i < job->n && !like; i++)
        like = mf_worker_is_here(&job->tasks[i]) ? &job->tasks[i] : NULL;
    if (!like)
        return MF_FAIL(MF_NOT_FOUND,
                       "job '%s' has no worker on this host to copy the command "
                       "from",
                       job->tasks[0].page.job);
    (void)snprintf(exe, sizeof exe, "/proc/%lld/exe", (long long)like->page.pid);
    (void)snprintf(cwd, sizeof cwd, "/proc/%lld/cwd", (long long)like->page.pid);
    MF_TRY(mf_proc_cmdline_read(like->page.pid, "cmdline", &out->command));
    MF_TRY(mf_proc_cmdline_read(like->page.pid, "environ", &out->env));
    out->program = read_link(exe);
    out->dir = read_link(cwd);
    if (!out->program || !out->dir)
        return mf_errno_status(errno, "inspect", exe);
    if (!mf_recipe_store(out))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "job '%s' has no store (--store or MESHFLOW_STORE), so no worker can join "
                       "it",
                       like->page.job);
    return MF_OK;
}

void mf_recipe_deinit(mf_recipe *r)
{
    mf_proc_cmdline_deinit(&r->command);
    mf_proc_cmdline_deinit(&r->env);
    mf_free(r->program);
    mf_free(r->dir);
    *r = (mf_recipe){ 0 };
}

const char *mf_recipe_store(const mf_recipe *r)
{
    const char *given = local_workers_find_option(&r->command, "store");
    const char *store = given ? given : local_workers_find_variable(&r->env, "MESHFLOW_STORE");

    return store && store[0] != '\0' ? store : NULL;
}

mf_status mf_recipe_become(mf_recipe *r, int index, const char *address)
{
    /* "::1" has no port, "[::1]:80" and "a:80" have. */
    const char *colon = address ? strrchr(address, ':') : NULL;
    const bool complete = colon && (strchr(address, ':') == colon || colon[-1] == ']');
    static const char *const about_cluster[] = { "cluster",      "job-name", "task-index",
                                                 "worker-hosts", "ps-hosts", "hostfile" };
    mf_buf where = { 0 }, config = { 0 };
    mf_status st = MF_OK;

    if (chdir(r->dir) != 0)
        return mf_errno_status(errno, "enter", r->dir);
    if (!complete)
        MF_TRY_TO(done, local_workers_find_port(address ? address : "127.0.0.1", &where));
    MF_TRY_TO(done, make_config(r, index, complete ? address : where.data, &config));
    for (size_t i = 0; i < sizeof about_cluster / sizeof *about_cluster; i++)
        drop_option(&r->command, about_cluster[i]); /* these options would override TF_CONFIG */
    local_workers_set_variable(&r->env, "TF_CONFIG", config.data);
    local_workers_set_variable(&r->env, "MESHFLOW_LAUNCHER", NULL);
    local_workers_set_variable(&r->env, "MESHFLOW_RESTARTS", NULL);
    (void)execve(r->program, r->command.list, r->env.list);
    st = mf_errno_status(errno, "run", r->program);
done:
    mf_buf_deinit(&where);
    mf_buf_deinit(&config);
    return st;
}

int mf_worker_free_index(const mf_job_view_job *job, int index)
{
    for (int i = 0; i < job->n; i++) {
        const int taken = mf_worker_index(job->tasks[i].page.task);

        index = taken >= index ? taken + 1 : index;
    }
    return index;
}
