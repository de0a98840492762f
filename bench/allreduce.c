/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - all-reduce between processes of one host, through shared memory and through Unix
 * sockets.
 *
 *     allreduce                    a table: 2 and 4 processes, 4 KB to 64 MB
 *     allreduce PROCESSES WAY      for comm.py: reads a number of bytes per line, prints seconds
 *     (median,
 *                                  best tenth). WAY: memory, sockets, or an algorithm of the latter
 *     allreduce TRANSPORT ADDRESS,... TASK      for hosts.py: runs one of these tasks; the first
 *     prints
 *
 * Estimate: two processes that share memory copy their numbers once and read them twice; at 10 GB/s
 * per
 * core that is 0.3 ms for 1 MB in cache, 20 ms for 64 MB. Two barriers cost 0.5 us. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "collective/net_groups.h"
#include "net/net.h"
#include "net/transport_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TASKS = 8, REPEATS = 400 };

/* ---- the processes ---- */

static mf_group *make_group(mf_net *net, int n, const char *way)
{
    static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const mf_algorithm *a = NULL;
    mf_group *g;

    for (int i = 0; mf_algorithms[i]; i++)
        a = strcmp(mf_algorithms[i]->name, way) == 0 ? mf_algorithms[i] : a;
    must(strcmp(way, "memory") == 0 ? mf_group_host(net, all, n, 1, &g)
                                    : mf_group_net(net, all, n, 1, a, &g));
    return g;
}

static mf_net *meet(int self, int n, int tag)
{
    mf_net_task tasks[MAX_TASKS];
    char names[MAX_TASKS][16], addresses[MAX_TASKS][40];
    mf_net *net;

    for (int i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "process %d", i);
        (void)snprintf(addresses[i], sizeof addresses[i], "bench-%d-%d", tag, i);
        tasks[i] = (mf_net_task){ names[i], addresses[i] };
    }
    must(mf_net_open(&(mf_net_options){ .tasks = tasks, .n_tasks = n, .self = self }, &net));
    return net;
}

static int repeats(int64_t bytes)
{
    const int64_t n = (256 << 20) / bytes;

    return n < 5 ? 5 : n > REPEATS ? REPEATS : (int)n;
}

/* Seconds of one all-reduce: the median of many, and the best tenth. */
typedef struct result {
    double median, lucky;
} result;

static result measure(mf_group *g, int64_t bytes)
{
    const int64_t count = bytes / 4;
    const int n = repeats(bytes), warm = 3;
    float *data = mf_calloc(count, 4), *out = mf_calloc(count, 4);
    const void *mine = data;
    mf_reduction_tree_node node[MAX_TASKS];
    const mf_reduction_tree_node *parts[MAX_TASKS];
    int n_parts[MAX_TASKS];
    double seconds[REPEATS];

    for (int64_t i = 0; i < count; i++)
        data[i] = out[i] = (float)g->rank;
    for (int r = 0; r < g->size; r++) {
        node[r] = (mf_reduction_tree_node){ r, r + 1 };
        parts[r] = &node[r];
        n_parts[r] = 1;
    }
    for (int i = -warm; i < n; i++) {
        const int64_t start = mf_clock_ns();

        must(mf_all_reduce(g, &(mf_reduce){ .call = { .step = i, .what = "a sum" },
                                            .leaves = g->size,
                                            .parts = parts,
                                            .n_parts = n_parts,
                                            .data = &mine,
                                            .dtype = MF_DTYPE_F32,
                                            .count = count,
                                            .out = out }));
        if (i >= 0)
            seconds[i] = (double)(mf_clock_ns() - start) * 1e-9;
    }
    if (out[count - 1] != (float)(g->size * (g->size - 1)) / 2)
        must(MF_FAIL(MF_INTERNAL, "the sum is wrong"));
    mf_free(data);
    mf_free(out);
    sort(seconds, n);
    return (result){ seconds[n / 2], seconds[n / 10] };
}

/* The first process reads sizes and sends them to the others; 0 ends the benchmark. */
static void work(mf_group *g, FILE *in, FILE *out)
{
    for (;;) {
        int64_t bytes = 0;
        result seconds;
        char line[64];

        if (g->rank == 0 && fgets(line, sizeof line, in))
            bytes = strtoll(line, NULL, 10);
        must(mf_broadcast(g, &(mf_collective){ .what = "a size" }, 0, &bytes, sizeof bytes));
        if (bytes == 0)
            return;
        seconds = measure(g, bytes);
        if (g->rank == 0) {
            (void)fprintf(out, "%.9f %.9f\n", seconds.median, seconds.lucky);
            (void)fflush(out);
        }
    }
}

static void serve(int n, const char *way, FILE *in, FILE *out)
{
    const int tag = (int)getpid();
    int self = 0;
    mf_net *net;
    mf_group *g;

    for (int i = 1; i < n && self == 0; i++) {
        if (fork() == 0)
            self = i;
    }
    net = meet(self, n, tag);
    g = make_group(net, n, way);
    work(g, in, out);
    mf_group_free(g);
    mf_net_close(net);
    if (self > 0)
        _exit(0);
    while (wait(NULL) > 0)
        continue;
}

/* Runs one of the tasks at these addresses. Certificates come from the environment; without them,
 * and
 * with transports that do not support them, all peers are trusted. */
static void serve_between(const char *transport, char *addresses, int self)
{
    mf_net_options o = { .self = self, .security.trusted = true };
    mf_net_task tasks[MAX_TASKS];
    char names[MAX_TASKS][16];
    mf_net *net;
    mf_group *g;

    o.security.insecure_any_peer = !getenv("MESHFLOW_TLS_CA");
    for (char *at = addresses; at && o.n_tasks < MAX_TASKS; o.n_tasks++) {
        const char *address = strsep(&at, ",");

        (void)snprintf(names[o.n_tasks], sizeof names[0], "worker %d", o.n_tasks);
        tasks[o.n_tasks] = (mf_net_task){ names[o.n_tasks], address };
    }
    o.tasks = tasks;
    o.host = names[self]; /* disables shared memory */
    must(mf_transport_find(transport, &o.transport));
    must(mf_net_open(&o, &net));
    g = make_group(net, o.n_tasks, "");
    work(g, stdin, stdout);
    mf_group_free(g);
    mf_net_close(net);
}

/* ---- the table ---- */

static void table(int n, const char *way)
{
    int ask[2], answer[2];
    FILE *in, *out;

    if (pipe(ask) != 0 || pipe(answer) != 0)
        exit(1);
    if (fork() == 0) {
        close(ask[1]);
        close(answer[0]);
        serve(n, way, fdopen(ask[0], "r"), fdopen(answer[1], "w"));
        _exit(0);
    }
    close(ask[0]);
    close(answer[1]);
    out = fdopen(ask[1], "w");
    in = fdopen(answer[0], "r");
    for (int64_t bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
        double median, lucky;
        char line[64];

        (void)fprintf(out, "%lld\n", (long long)bytes);
        (void)fflush(out);
        if (!fgets(line, sizeof line, in) || sscanf(line, "%lf %lf", &median, &lucky) != 2)
            exit(1);
        printf("all-reduce %-8s %d processes %8lld KB %12.1f %12.1f us %8.2f GB/s\n", way, n,
               (long long)bytes / 1024, median * 1e6, lucky * 1e6, (double)bytes / median * 1e-9);
        (void)fflush(stdout);
    }
    (void)fclose(out);
    (void)fclose(in);
    (void)wait(NULL);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = { "memory", "sockets" };

    if (argc == 3) {
        serve(atoi(argv[1]), argv[2], stdin, stdout);
        return 0;
    }
    if (argc == 4) {
        serve_between(argv[1], argv[2], atoi(argv[3]));
        return 0;
    }
    for (int n = 2; n <= 4; n += 2) {
        for (int w = 0; w < MF_COUNT(ways); w++)
            table(n, ways[w]);
    }
    return 0;
}
