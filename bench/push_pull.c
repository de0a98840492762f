/* SPDX-License-Identifier: Apache-2.0 */
/* push_pull.c - a worker pushes a gradient to a parameter server, which updates, and pulls the new
 * weights. Two processes of one host.
 *
 *     push_pull                    a table: shared memory and messages, 4 KB to 64 MB
 *     push_pull MODE               for servers.py: reads a number of bytes per line, prints seconds
 *                                  (median, best tenth). MODE: sync, async
 *
 * Estimate: the gradient is copied once (into shared memory), read by the update, which reads and
 * writes
 * the weights, and these are copied twice: 7 times 64 MB are read or written, at 10 GB/s per core
 * 45 ms.
 * Two messages and five context switches cost 50 us. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "dist/param_server/ps_client.h"

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKER, SERVER, TASKS, REPEATS = 400 };

static const int64_t MINUTE = 60000000000;

static int repeats(int64_t bytes)
{
    const int64_t n = (512 << 20) / bytes;

    return n < 8 ? 8 : n > REPEATS ? REPEATS : (int)n;
}

static mf_net *meet(int self)
{
    static const char *const names[] = { "worker 0", "ps 0" };
    mf_net_task tasks[TASKS];
    char addresses[TASKS][40];
    mf_net *net;

    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(addresses[i], sizeof addresses[i], "push-pull-%d-%d",
                       self == WORKER ? (int)getpid() : (int)getppid(), i);
        tasks[i] = (mf_net_task){ names[i], addresses[i] };
    }
    must(mf_net_open(&(mf_net_options){ .tasks = tasks, .n_tasks = TASKS, .self = self }, &net));
    return net;
}

/* A model with one weight of this many bytes. */
static mf_trainer *make_trainer(int64_t bytes, mf_model **model)
{
    int64_t rows = 1, columns = bytes / (int64_t)sizeof(float);
    mf_trainer *t;
    mf_output in;

    for (; columns > 4 * rows; columns /= 2)
        rows *= 2;
    must(mf_model_new(model));
    in = mf_model_input(*model, "x", MF_DTYPE_F32, &rows, 1);
    mf_model_output(*model, mf_layer(*model, "Dense", MF_IN(in), "units=%lld use_bias=false",
                                     (long long)columns));
    must(mf_model_compile(
        *model, &(mf_compile_options){ .loss = "mean_squared_error", .optimizer = "sgd" }, &t));
    return t;
}

/* ---- the two processes ---- */

static void serve(const mf_ps_mode *mode, int64_t bytes)
{
    mf_net *net = meet(SERVER);
    mf_model *model;
    mf_trainer *t = make_trainer(bytes, &model);

    must(mf_ps_serve(
        &(mf_ps_server_options){
            .net = net, .n_workers = 1, .n_servers = 1, .mode = *mode, .timeout_ns = MINUTE },
        t));
    mf_net_close(net);
    _exit(0);
}

static void make_round(const mf_ps_client *c, mf_push_pull_round *r, mf_tensor *gradient)
{
    *r = (mf_push_pull_round){ .samples = 1, .n_parts = 1, .n_values = c->t->graph.n_results };
    r->parts[0] = (mf_reduction_tree_node){ 0, 1 };
    r->values = mf_calloc(r->n_values, sizeof *r->values);
    for (int v = 0; v < r->n_values; v++) {
        mf_push_pull_round_value *x = &r->values[v];

        x->dtype = MF_DTYPE_F32;
        x->shape = c->gradient[v] >= 0 ? c->t->graph.gradients[0].weight->shape : MF_SCALAR;
        must(mf_tensor_alloc(&x->part[0], x->dtype, &x->shape));
        memset(x->part[0].data, 0, mf_tensor_bytes(&x->part[0]));
    }
    mf_tensor_set(gradient, &r->values[c->at[0]].part[0]);
}

/* The exchange of one gradient, and the round. */
static double push_and_pull(mf_ps_client *c, mf_push_pull_round *r, const mf_tensor *gradient)
{
    const int64_t start = mf_clock_ns();
    mf_tensor *part = &r->values[c->at[0]].part[0];

    if (mf_ps_take(c, c->at[0], 0, 1, gradient))
        mf_tensor_clear(part);
    else
        mf_tensor_set(part, gradient);
    must(mf_ps_round(c, r));
    r->step++;
    return (double)(mf_clock_ns() - start) * 1e-9;
}

static void measure(const mf_ps_mode *mode, int64_t bytes, FILE *out)
{
    const int n = repeats(bytes), warm = 3;
    double seconds[REPEATS];
    mf_tensor gradient = { 0 };
    int64_t staleness;
    mf_ps_client *c;
    mf_trainer *t;
    mf_model *model;
    mf_push_pull_round r;
    mf_net *net;

    (void)fflush(NULL);
    if (fork() == 0)
        serve(mode, bytes);
    net = meet(WORKER);
    t = make_trainer(bytes, &model);
    must(mf_ps_client_new(net, SERVER, 1, t, mode, 0, t->options.shards, MINUTE, &c));
    must(mf_ps_client_set(c));
    make_round(c, &r, &gradient);
    for (int i = -warm; i < n; i++) {
        const double s = push_and_pull(c, &r, &gradient);

        if (i >= 0)
            seconds[i] = s;
    }
    must(mf_ps_client_end(c, &staleness));
    mf_net_close(net);
    (void)wait(NULL);
    sort(seconds, n);
    (void)fprintf(out, "%.9f %.9f\n", seconds[n / 2], seconds[n / 10]);
    (void)fflush(out);
    _exit(0);
}

/* In a process of its own, which starts without threads. */
static void measure_apart(const mf_ps_mode *mode, int64_t bytes, FILE *out)
{
    (void)fflush(NULL);
    if (fork() == 0)
        measure(mode, bytes, out);
    (void)wait(NULL);
}

int main(int argc, char **argv)
{
    const mf_ps_mode sync = { .sync = true, .staleness = -1, .period = 1 };
    const mf_ps_mode async = { .staleness = -1, .period = 1 };
    char line[64];

    if (argc == 2) {
        while (fgets(line, sizeof line, stdin))
            measure_apart(strcmp(argv[1], "async") == 0 ? &async : &sync, strtoll(line, NULL, 10),
                          stdout);
        return 0;
    }
    for (int memory = 1; memory >= 0; memory--) {
        (void)setenv("MESHFLOW_PS_SHARED_MEMORY", memory ? "1" : "0", 1);
        for (int64_t bytes = 4096; bytes <= 64 << 20; bytes *= bytes == 4096 ? 1024 : 16) {
            printf("push and pull, %-8s %8lld KB, seconds: ", memory ? "memory" : "messages",
                   (long long)bytes / 1024);
            measure_apart(&sync, bytes, stdout);
        }
    }
    return 0;
}
