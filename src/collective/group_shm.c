/* SPDX-License-Identifier: Apache-2.0 */
/* group_shm.c - a group in shared memory, of tasks of one host that a net connects. The first
 * member creates the memory and sends its name; when all have opened it the name is removed, so
 * nothing remains, however the tasks end. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "collective/group_net.h"
#include "collective/shm_segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

MF_PARAM_INT(comm_shm_chunk_kib, 1024, "KiB that a member publishes in shared memory at a time");
MF_PARAM_INT(comm_init_timeout_ms, 60000,
             "timeout in ms for the members of a new group to connect");

typedef struct host_group {
    mf_shm_group shared; /* must be the first field */
    mf_group_kind kind;
    mf_net *net;
    int *tasks;
    mf_segment *segment;
    mf_net_watch watch;
} host_group;

/* ---- agreement on the memory ---- */

/* Texts of the agreement: the name of the memory, each member's result, the common result. */
typedef struct shm_agreement {
    host_group *g;
    mf_frame frame;
    int64_t deadline_ns;
} shm_agreement;

static mf_status group_shm_send_text(const shm_agreement *m, int rank, const char *text)
{
    mf_frame f = m->frame;

    f.size = strlen(text);
    return mf_net_send(m->g->net, m->g->tasks[rank], &f, text, m->deadline_ns);
}

static mf_status group_shm_recv_text(const shm_agreement *m, int rank, char **text)
{
    void *data;
    size_t size;

    MF_TRY(mf_net_take(m->g->net, m->g->tasks[rank], &m->frame, &data, &size, m->deadline_ns,
                       "shared memory"));
    *text = data; /* messages are NUL-terminated */
    return MF_OK;
}

static mf_status recv_result(const shm_agreement *m, int rank)
{
    mf_status st = MF_OK;
    char *text;

    MF_TRY(group_shm_recv_text(m, rank, &text));
    if (text[0] != '\0')
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%s", text);
    mf_free(text);
    return st;
}

/* "" or the error. */
static const char *group_shm_result_text(mf_status st)
{
    return st == MF_OK ? "" : mf_error_message();
}

/* The first member: a failure of any member is a failure of all. */
static mf_status create_and_share_segment(shm_agreement *m)
{
    const int n = m->g->shared.head.size;
    const int64_t area = MF_PARAM(comm_shm_chunk_kib) * 1024;
    char name[64], text[96] = "";
    mf_status st, bad;
    mf_error e;

    (void)snprintf(name, sizeof name, "/meshflow-%d-%016llx", (int)getpid(),
                   (unsigned long long)mf_random_seed());
    st = mf_segment_create(name, n, area, &m->g->segment);
    mf_error_save(st, &e);
    if (st == MF_OK)
        (void)snprintf(text, sizeof text, "%s %lld", name, (long long)area);
    for (int r = 1; r < n; r++)
        MF_TRY(group_shm_send_text(m, r, text));
    for (int r = 1; r < n; r++) {
        bad = recv_result(m, r);
        if (bad != MF_OK && bad != MF_FAILED_PRECONDITION)
            return bad;
        if (bad != MF_OK && e.status == MF_OK)
            mf_error_save(bad, &e);
    }
    if (m->g->segment)
        mf_segment_unlink(m->g->segment);
    st = mf_error_restore(&e);
    for (int r = 1; r < n; r++)
        MF_TRY(group_shm_send_text(m, r, group_shm_result_text(st)));
    return e.status == MF_OK ? MF_OK : mf_error_restore(&e);
}

static mf_status open_shared_segment(shm_agreement *m, const char *text)
{
    char name[64];
    long long area;

    if (sscanf(text, "%63s %lld", name, &area) != 2 || area <= 0)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s could not create shared memory",
                       m->g->shared.head.names[0]);
    return mf_segment_open(name, m->g->shared.head.size, area, &m->g->segment);
}

static mf_status join_segment(shm_agreement *m)
{
    char *text;
    mf_status st;

    MF_TRY(group_shm_recv_text(m, 0, &text));
    st = open_shared_segment(m, text);
    mf_free(text);
    MF_TRY(group_shm_send_text(m, 0, group_shm_result_text(st)));
    return recv_result(m, 0);
}

/* ---- the group ---- */

static mf_status group_shm_check(void *ctx, mf_group_wait *w)
{
    host_group *g = ctx;

    return mf_net_check_wait(g->net, g->tasks[w->rank], w);
}

static mf_status group_shm_healthy(void *ctx)
{
    return mf_net_check(((host_group *)ctx)->net);
}

static void group_shm_give_up(void *ctx, mf_status why)
{
    mf_net_abort(((host_group *)ctx)->net, why);
}

static void group_shm_wake(void *ctx)
{
    mf_segment_wake(ctx);
}

static void host_free(mf_group *group)
{
    host_group *g = (host_group *)group;

    if (g->watch.fn)
        mf_net_watch_remove(g->net, &g->watch);
    if (g->segment)
        mf_segment_unlink(g->segment); /* does nothing if all members opened it */
    mf_segment_free(g->segment);
    mf_group_names_free(group);
    mf_free(g->tasks);
    mf_free(g);
}

static mf_status open_memory(host_group *g, uint32_t id)
{
    shm_agreement m = {
        .g = g,
        .frame = { .kind = MF_MESSAGE_COLLECTIVE, .epoch = g->net->epoch, .group = id },
        .deadline_ns = mf_clock_ns() + MF_PARAM(comm_init_timeout_ms) * 1000000
    };

    return g->shared.head.rank == 0 ? create_and_share_segment(&m) : join_segment(&m);
}

static mf_status group_shm_init(host_group *g, mf_net *net, const int *members, int n, uint32_t id)
{
    mf_group head;

    g->net = net;
    g->tasks = mf_calloc(n, sizeof *g->tasks);
    MF_TRY(mf_net_group_head(net, members, n, &g->shared.head));
    if (!g->tasks)
        return MF_NOMEM("a group");
    memcpy(g->tasks, members, (size_t)n * sizeof *g->tasks);
    MF_TRY(open_memory(g, id));
    head = g->shared.head;
    head.check = group_shm_check;
    head.healthy = group_shm_healthy;
    head.give_up = group_shm_give_up;
    head.ctx = g;
    mf_shm_group_init(&g->shared, g->segment, &head);
    g->kind = *g->shared.head.kind;
    g->kind.free = host_free;
    g->shared.head.kind = &g->kind;
    g->watch = (mf_net_watch){ .fn = group_shm_wake, .ctx = g->segment, .questions = true };
    mf_net_watch_add(net, &g->watch);
    return MF_OK;
}

mf_status mf_group_host(mf_net *net, const int *members, int n, uint32_t id, mf_group **out)
{
    host_group *g = mf_calloc(1, sizeof *g);
    mf_status st;

    *out = NULL;
    if (!g)
        return MF_NOMEM("a group");
    st = group_shm_init(g, net, members, n, id);
    if (st != MF_OK)
        host_free(&g->shared.head);
    else
        *out = &g->shared.head;
    return st;
}
