/* SPDX-License-Identifier: Apache-2.0 */
/* from_hostfile.c - --hostfile FILE or MESHFLOW_HOSTFILE, in the format of mpirun, horovodrun and
 * DeepSpeed:
 *
 *     # a comment
 *     a slots=4
 *     b:2
 *     c
 *
 * Tasks are workers, host by host; each listens on MESHFLOW_PORT (default: 2222) plus its number on
 * the host. */
#include "base/file.h"
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolve.h"
#include "cluster/resolve/resolver.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { DEFAULT_PORT = 2222 };

static const char fix[] = "write a host on each line: 'a', 'a slots=4' or 'a:4'";

/* ---- the file ---- */

static bool from_hostfile_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* After the blanks, and after the word, at `at`. */
static const char *from_hostfile_skip_blanks(const char *at, const char *end)
{
    while (at < end && from_hostfile_is_blank(*at))
        at++;
    return at;
}

static const char *skip_word(const char *at, const char *end)
{
    while (at < end && !from_hostfile_is_blank(*at))
        at++;
    return at;
}

/* "slots=4"; mpirun's other words (max_slots=8) are ignored. */
static bool from_hostfile_read_words(const char *at, const char *end, int64_t *slots)
{
    while ((at = from_hostfile_skip_blanks(at, end)) < end) {
        const size_t n = (size_t)(skip_word(at, end) - at);

        if (n >= 6 && strncmp(at, "slots=", 6) == 0) {
            if (!mf_number_parse(at + 6, n - 6, 1, MF_CLUSTER_MAX_TASKS, slots))
                return false;
        } else if (!memchr(at, '=', n)) {
            return false;
        }
        at += n;
    }
    return true;
}

/* A host on several consecutive lines has the slots of all of them. */
static bool from_hostfile_add_host(mf_cluster *c, const char *name, int slots, mf_hosts *out)
{
    mf_host *last = out->n > 0 ? &out->hosts[out->n - 1] : NULL;

    if (last && strcmp(last->name, name) == 0 && last->slots < MF_CLUSTER_MAX_TASKS) {
        last->slots += slots;
        return true;
    }
    if (mf_grow(&out->hosts, &out->cap, out->n + 1, sizeof *out->hosts) != MF_OK) {
        c->no_memory = true;
        return false;
    }
    out->hosts[out->n++] = (mf_host){ name, slots };
    return true;
}

static bool from_hostfile_read_line(mf_cluster *c, const char *line, const char *end,
                                    const char *place, mf_hosts *out)
{
    const size_t word = (size_t)(skip_word(line, end) - line);
    const char *colon = memchr(line, ':', word);
    const size_t host = colon ? (size_t)(colon - line) : word;
    int64_t slots = 1;

    if (!mf_host_is_name(line, host)) {
        mf_cluster_mistake(c, place, fix, "'%.*s' is no host's name", (int)(host < 60 ? host : 60),
                           line);
        return false;
    }
    if ((colon && !mf_number_parse(colon + 1, word - host - 1, 1, MF_CLUSTER_MAX_TASKS, &slots)) ||
        !from_hostfile_read_words(line + word, end, &slots)) {
        mf_cluster_mistake(c, place, fix, "'%.*s' does not give the number of slots",
                           (int)(end - line < 60 ? end - line : 60), line);
        return false;
    }
    return from_hostfile_add_host(c, mf_cluster_text(c, "%.*s", (int)host, line), (int)slots, out);
}

bool mf_hostfile_decode(mf_cluster *c, const char *text, size_t len, const char *place,
                        mf_hosts *out)
{
    const char *const stop = text + len;
    bool good = true;

    if (len > MF_CLUSTER_MAX_BYTES || memchr(text, '\0', len)) {
        mf_cluster_mistake(c, place, fix, "that is no list of hosts");
        return false;
    }
    for (int line = 1; text < stop && out->n < MF_CLUSTER_MAX_TASKS; line++) {
        const char *newline = memchr(text, '\n', (size_t)(stop - text));
        const char *end = newline ? newline : stop;
        const char *hash = memchr(text, '#', (size_t)(end - text));
        const char *until = hash ? hash : end, *at = from_hostfile_skip_blanks(text, until);

        if (at < until)
            good = from_hostfile_read_line(c, at, until, mf_cluster_text(c, "%s:%d", place, line),
                                           out) &&
                   good;
        text = newline ? newline + 1 : stop;
    }
    if (good && out->n == 0) {
        mf_cluster_mistake(c, place, fix, "it lists no host");
        return false;
    }
    return good;
}

/* ---- meaning ---- */

static const char *file_name(const mf_cluster_request *request, const char **from)
{
    *from = request->hostfile ? "--hostfile" : "MESHFLOW_HOSTFILE";
    return request->hostfile ? request->hostfile : mf_request_env(request, "MESHFLOW_HOSTFILE");
}

static bool hostfile_applies(const mf_cluster_request *request)
{
    const char *from;

    return file_name(request, &from) != NULL;
}

/* "node1" and "node1.example.org" are one host. */
static bool from_hostfile_is_here(const char *host, const char *here)
{
    const size_t n = strcspn(host, "."), m = strcspn(here, ".");

    if (strcasecmp(host, here) == 0 || strcmp(host, "localhost") == 0 ||
        strcmp(host, "127.0.0.1") == 0)
        return true;
    return n == m && (!host[n] || !here[m]) && strncasecmp(host, here, n) == 0;
}

static void from_hostfile_add_tasks(mf_cluster *c, const mf_hosts *hosts, int64_t port,
                                    const char *path, const char *here)
{
    int64_t index = 0, own = -1, mine = 0;

    for (int64_t i = 0; i < hosts->n && !c->no_memory; i++) {
        const mf_host *h = &hosts->hosts[i];

        if (from_hostfile_is_here(h->name, here)) {
            own = index;
            mine += h->slots;
        }
        for (int s = 0; s < h->slots && index <= MF_CLUSTER_MAX_TASKS; s++, index++)
            mf_cluster_add(c, MF_ROLE_WORKER, index,
                           mf_cluster_text(c, "%s:%lld", h->name, (long long)port + s), path);
    }
    if (mine == 1)
        mf_cluster_own(c, MF_ROLE_WORKER, own, mf_cluster_text(c, "%s lists this host once", path));
}

static void hostfile_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const char *from, *path = mf_cluster_text(c, "%s", file_name(request, &from));
    mf_hosts hosts = { 0 };
    char here[MF_HOST_MAX] = "";
    char *data = NULL;
    size_t len = 0;
    int64_t port = DEFAULT_PORT;

    mf_cluster_fact(c, "hosts", from, "%s", path);
    (void)mf_request_int(request, c, "MESHFLOW_PORT", 1, MF_PORT_MAX, &port);
    if (!request->host)
        (void)gethostname(here, sizeof here - 1);
    if (mf_file_read(path, MF_CLUSTER_MAX_BYTES, &data, &len) != MF_OK)
        mf_cluster_mistake(c, from, "name a file with one host on each line", "%s",
                           mf_error_message());
    else if (mf_hostfile_decode(c, data, len, path, &hosts))
        from_hostfile_add_tasks(c, &hosts, port, path, request->host ? request->host : here);
    mf_free(hosts.hosts);
    mf_free(data);
}

mf_status mf_hostfile_slots(const char *text, size_t len, const char *place, const char *host,
                            int *slots)
{
    mf_cluster *c = mf_cluster_new();
    char here[MF_HOST_MAX] = "";
    mf_hosts hosts = { 0 };
    mf_status st = MF_OK;

    *slots = 0;
    if (!c)
        return MF_NOMEM("hosts");
    if (!host)
        (void)gethostname(here, sizeof here - 1);
    if (mf_hostfile_decode(c, text, len, place, &hosts)) {
        for (int64_t i = 0; i < hosts.n; i++)
            *slots += from_hostfile_is_here(hosts.hosts[i].name, host ? host : here)
                          ? hosts.hosts[i].slots
                          : 0;
    } else {
        st = c->n_mistakes > 0 ? MF_FAIL(MF_INVALID_ARGUMENT, "%s: %s; %s", c->mistakes[0].place,
                                         c->mistakes[0].problem, c->mistakes[0].fix)
                               : MF_NOMEM("hosts");
    }
    mf_free(hosts.hosts);
    mf_cluster_free(c);
    return st;
}

const mf_resolver mf_resolver_hostfile = {
    .name = "hostfile",
    .applies = hostfile_applies,
    .resolve = hostfile_resolve,
};
