/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/collective/kill_round.h"

#include "base/clock.h"
#include "base/log.h"
#include "collective/net_groups.h"
#include "unit/net/net_tasks.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALGORITHMS = 5, CHOSEN = 5, ONE_HOST = 6, SEVERAL_HOSTS = 7, MAX_COUNT = 40000 };
enum { HANG_MS = 20000 }; /* beyond the deadline */

static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

const char *kill_kind_name(int kind)
{
    return kind < ALGORITHMS  ? mf_algorithms[kind]->name
           : kind == CHOSEN   ? "chosen"
           : kind == ONE_HOST ? "host"
                              : "hosts";
}

static mf_status make_group(mf_net *net, int kind, int n, mf_group **out)
{
    if (kind == ONE_HOST)
        return mf_group_host(net, all, n, 1, out);
    if (kind == SEVERAL_HOSTS)
        return mf_group_hosts(net, all, n, 1, out);
    return mf_group_net(net, all, n, 1, kind < ALGORITHMS ? mf_algorithms[kind] : NULL, out);
}

/* ---- the members ---- */

typedef struct toil {
    const kill_round *round;
    atomic_int *begun; /* in memory shared by all processes */
} toil;

static mf_status sum(mf_group *g, const mf_collective *c, int64_t count, bool scatter)
{
    static float data[MAX_COUNT], out[MAX_COUNT];
    mf_reduction_tree_node node[TEST_TASKS_MAX];
    const mf_reduction_tree_node *parts[TEST_TASKS_MAX];
    int n_parts[TEST_TASKS_MAX];
    int64_t from[TEST_TASKS_MAX + 1];
    const void *mine = data;

    for (int r = 0; r < g->size; r++) {
        n_parts[r] = 1;
        node[r] = (mf_reduction_tree_node){ r, r + 1 };
        parts[r] = &node[r];
    }
    for (int r = 0; r <= g->size; r++)
        from[r] = mf_group_cut(g, count, r);
    const mf_reduce r = { .call = *c,
                          .leaves = g->size,
                          .parts = parts,
                          .n_parts = n_parts,
                          .data = &mine,
                          .dtype = MF_DTYPE_F32,
                          .count = count,
                          .out = out };

    return scatter ? mf_reduce_scatter(g, &r, from) : mf_all_reduce(g, &r);
}

/* Mostly all-reduces of all sizes; sometimes another collective. */
static mf_status do_step(mf_group *g, int64_t step, int64_t deadline_ms)
{
    static char bytes[MAX_COUNT], all_bytes[MAX_COUNT * TEST_TASKS_MAX];
    const uint64_t h = (uint64_t)(step + 1) * 0x9e3779b97f4a7c15u >> 20;
    const int64_t count = (int64_t)(h % (step % 3 == 0 ? MAX_COUNT : 3000)) + 1;
    const mf_collective c = { step, mf_clock_ns() + deadline_ms * 1000000, "the gradients" };
    int64_t sizes[TEST_TASKS_MAX * TEST_TASKS_MAX];

    for (int i = 0; i < TEST_TASKS_MAX * TEST_TASKS_MAX; i++)
        sizes[i] = count / TEST_TASKS_MAX;
    switch (h / 65536 % 12) {
    case 0:
        return mf_broadcast(g, &c, (int)(h % (uint64_t)g->size), bytes, count);
    case 1:
        return mf_all_gather(g, &(mf_gather){ c, bytes, sizes, all_bytes });
    case 2:
        return mf_all_to_all(g, &c, bytes, sizes, all_bytes);
    case 3:
        return mf_barrier(g, &c);
    default:
        return sum(g, &c, count, h / 65536 % 12 == 4);
    }
}

/* True: a collective failed with the victim's name. */
static bool toil_until_missed(mf_net *net, void *arg)
{
    const toil *t = arg;
    char name[16];
    mf_group *g;
    mf_status st = make_group(net, t->round->kind, t->round->tasks, &g);

    (void)snprintf(name, sizeof name, "worker %d", t->round->victim);
    if (st != MF_OK)
        return false;
    atomic_fetch_add(t->begun, 1);
    for (int64_t step = 0; st == MF_OK; step++)
        st = do_step(g, step, t->round->deadline_ms);
    if ((st != MF_UNAVAILABLE && st != MF_DEADLINE_EXCEEDED && st != MF_ABORTED) ||
        !strstr(mf_error_message(), name)) {
        fprintf(stderr, "# not %s's name, but: %s: %s\n", name, mf_status_name(st),
                mf_error_message());
        return false;
    }
    mf_group_free(g);
    return true;
}

/* ---- the supervisor ---- */

/* All members except the victim must exit; other processes are killed. */
static bool all_end(const kill_round *r, const pid_t *pids, int64_t until)
{
    bool ok = true;

    for (int i = 0; i < r->tasks; i++) {
        int status = 0;
        pid_t done = 0;

        if (i == r->victim)
            continue;
        while ((done = waitpid(pids[i], &status, WNOHANG)) == 0 && mf_clock_ns() < until)
            usleep(500);
        if (done == 0) {
            fprintf(stderr, "# worker %d hangs\n", i);
            kill(pids[i], SIGKILL);
            (void)waitpid(pids[i], &status, 0);
        }
        ok &= done > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return ok;
}

bool kill_one(const kill_round *r, double *ms)
{
    atomic_int *begun =
        mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    toil t = { r, begun };
    pid_t pids[TEST_TASKS_MAX] = { 0 };
    char tag[48];
    int64_t since;
    bool ok;

    if (begun == MAP_FAILED)
        return false;
    (void)snprintf(tag, sizeof tag, "kill-%d-%llx", (int)getpid(),
                   (unsigned long long)mf_clock_ns());
    test_tasks_start(&(test_tasks){ .n = r->tasks,
                                    .tag = tag,
                                    .hosts = r->kind == SEVERAL_HOSTS ? 2 : 0,
                                    .run = toil_until_missed,
                                    .arg = &t },
                     pids);
    for (int i = 0; i < 60000 && atomic_load(begun) < r->tasks; i++)
        usleep(500);
    usleep((useconds_t)r->after_us);
    since = mf_clock_ns();
    kill(pids[r->victim], r->stop ? SIGSTOP : SIGKILL);
    ok = all_end(r, pids, since + (r->deadline_ms + HANG_MS) * 1000000);
    *ms = (double)(mf_clock_ns() - since) * 1e-6;
    kill(pids[r->victim], SIGKILL);
    (void)waitpid(pids[r->victim], NULL, 0);
    (void)munmap(begun, sizeof *begun);
    return ok;
}
