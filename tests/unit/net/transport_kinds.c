/* SPDX-License-Identifier: Apache-2.0 */
/* transport_kinds.c - the tasks of a job as threads of a test. */
#include "unit/net/transport_kinds.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "net/transport_registry.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- addresses ---- */

/* Below the ephemeral ports: the kernel could assign one of those to another process before the
 * test binds it. */
static int free_port(int *fd)
{
    for (;;) {
        const int port = 10000 + (int)(mf_random_seed() % 20000);
        const struct sockaddr_in at = { .sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(*fd, (const struct sockaddr *)&at, sizeof at) == 0)
            return port;
        close(*fd);
    }
}

void way_init(way *w, const char *transport, int n)
{
    const mf_status st = mf_transport_find(transport, &w->kind);
    int fd[MAX_TASKS] = { 0 };

    if (st == MF_NOT_FOUND)
        T_SKIP(mf_error_message());
    T_OK(st);
    for (int i = 0; i < n; i++) {
        if (w->kind == &mf_transport_local)
            (void)snprintf(w->addresses[i], sizeof w->addresses[i], "test-%d-%d", (int)getpid(), i);
        else
            (void)snprintf(w->addresses[i], sizeof w->addresses[i], "127.0.0.1:%d",
                           free_port(&fd[i]));
    }
    for (int i = 0; i < n && w->kind != &mf_transport_local; i++)
        close(fd[i]);
}

/* ---- certificates ---- */

static char directory[64]; /* of this test; "" before the first */

static void remove_directory(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command) != 0)
        perror(command);
}

static void write_file(char *path, size_t size, const char *ending, const char *text)
{
    static int n;
    FILE *f;

    if (!directory[0]) {
        (void)snprintf(directory, sizeof directory, "/tmp/meshflow-test-XXXXXX");
        T_TRUE(mkdtemp(directory) != NULL);
        (void)atexit(remove_directory);
    }
    (void)snprintf(path, size, "%s/%d-%s.pem", directory, n++, ending);
    f = fopen(path, "we");
    T_TRUE(f != NULL);
    T_TRUE(fputs(text, f) >= 0);
    T_EQ(fclose(f), 0);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = mf_calloc(8192, 1);

    T_TRUE(f != NULL);
    T_TRUE(fread(text, 1, 8191, f) > 0);
    (void)fclose(f);
    return text;
}

void cert_make(const cert_files *signer, const mf_certificate_options *o, cert_files *out)
{
    const mf_certificates *maker;
    mf_certificate by = { 0 }, made;
    const mf_status st = mf_certificates_find(&maker);

    if (st == MF_NOT_FOUND)
        T_SKIP(mf_error_message());
    T_OK(st);
    if (signer)
        by = (mf_certificate){ read_file(signer->cert), read_file(signer->key) };
    T_OK(maker->make(o, signer ? &by : NULL, &made));
    write_file(out->cert, sizeof out->cert, "cert", made.cert);
    write_file(out->key, sizeof out->key, "key", made.key);
    mf_free(by.cert);
    mf_free(by.key);
    mf_free(made.cert);
    mf_free(made.key);
}

void cert_join(const char *a, const char *b, char out[96])
{
    char *x = read_file(a), *y = read_file(b), both[16384];

    (void)snprintf(both, sizeof both, "%s%s", x, y);
    write_file(out, 96, "both", both);
    mf_free(x);
    mf_free(y);
}

void cert_make_ca(cert_files *out)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;

    cert_make(NULL,
              &(mf_certificate_options){
                  .name = "a test's authority", .begin_s = now - 60, .end_s = now + 3600 },
              out);
}

static cert_files ca;

const char *way_ca_key(void)
{
    return ca.key;
}

void way_init_tls(way *w, int n)
{
    static const char *const hosts[] = { "localhost", "127.0.0.1" };
    static cert_files own[MAX_TASKS];
    const int64_t now = mf_clock_wall_ns() / 1000000000;

    way_init(w, "grpc", n);
    cert_make_ca(&ca);
    for (int i = 0; i < n; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "worker %d", i);
        cert_make(&ca,
                  &(mf_certificate_options){ .name = name,
                                             .task = name,
                                             .hosts = hosts,
                                             .n_hosts = 2,
                                             .begin_s = now - 60,
                                             .end_s = now + 3600 },
                  &own[i]);
        w->security[i] = (mf_security){ .ca = ca.cert, .cert = own[i].cert, .key = own[i].key };
    }
}

/* ---- tasks ---- */

mf_status open_task(task *t)
{
    mf_net_task tasks[MAX_TASKS];
    char names[MAX_TASKS][16];

    for (int i = 0; i < t->n; i++) {
        (void)snprintf(names[i], sizeof names[i], "worker %d", i);
        tasks[i] = (mf_net_task){ names[i], t->known ? t->way->addresses[i] : NULL };
    }
    return mf_net_open(
        &(mf_net_options){ .tasks = tasks,
                           .n_tasks = t->n,
                           .self = t->self,
                           .rendezvous = t->way->addresses[0],
                           .identity = t->identity,
                           .transport = t->way->kind,
                           .security = t->way->security[t->self],
                           .timeout_ns = t->timeout_ns > 0 ? t->timeout_ns : 3000000000 },
        &t->net);
}

static void *open_net(void *arg)
{
    task *t = arg;

    t->st = open_task(t);
    (void)snprintf(t->error, sizeof t->error, "%s", t->st == MF_OK ? "" : mf_error_message());
    return NULL;
}

void open_all(task *t, int n, bool known, const way *w)
{
    pthread_t thread[MAX_TASKS];

    for (int i = 0; i < n; i++) {
        t[i] = (task){ .self = i,
                       .n = n,
                       .way = w,
                       .known = known,
                       .identity = t[i].identity,
                       .timeout_ns = t[i].timeout_ns };
        T_EQ(pthread_create(&thread[i], NULL, open_net, &t[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

void close_all(task *t, int n)
{
    for (int i = 0; i < n; i++) {
        mf_net_close(t[i].net);
        t[i].net = NULL;
    }
}
